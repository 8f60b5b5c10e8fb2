"""Shared configuration: the `spec` marker that links tests to requirements, and hypothesis without deadlines."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

# A shell without job control starts `make test &` with SIGINT ignored, and every child inherits that: no test could
# send Ctrl-C to the processes it starts. A process with a handler passes the default on to what it executes; each
# worker imports this module.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
pytest_plugins = ["scripts.pytest_spec"]
