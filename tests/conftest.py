"""Shared configuration: the `spec` marker that links tests to requirements, and hypothesis without deadlines."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

from tests.soak import SOAK, rounds

# A shell without job control starts `make test &` with SIGINT ignored, and every child inherits that: no test could
# send Ctrl-C to the processes it starts. A process with a handler passes the default on to what it executes; each
# worker imports this module.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test` tries the same sample each time, so that it fails because of a change and not by chance; `make soak` looks
# for what is rare.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=rounds(40, 400),
    derandomize=not SOAK,
    database=None,
)
settings.load_profile("patient")
pytest_plugins = ["scripts.pytest_spec"]
