"""What every test shares: the marker that ties a test to the requirements it proves."""

from __future__ import annotations

pytest_plugins = ["scripts.pytest_spec"]
