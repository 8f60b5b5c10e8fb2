"""Shared configuration: the `spec` marker that links tests to requirements, and hypothesis without deadlines."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start background jobs with SIGINT ignored
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
pytest_plugins = ["scripts.pytest_spec"]
