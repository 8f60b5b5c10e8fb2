"""What every test shares: the marker that ties a test to the requirements it proves, and examples without a clock."""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts in the background ignore it
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
pytest_plugins = ["scripts.pytest_spec"]
