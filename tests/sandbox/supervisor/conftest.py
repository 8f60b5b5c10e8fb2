"""A supervisor that is closed after the test."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from holdfast.sandbox.supervisor.client import (
    Supervisor,
)


@pytest.fixture
def supervisor() -> Generator[Supervisor]:
    made = Supervisor()
    yield made
    made.close()
