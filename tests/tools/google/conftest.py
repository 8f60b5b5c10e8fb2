"""One Google server per test module, reset for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.google.google_server import GoogleServer, google_server


@pytest.fixture(scope="module")
def served() -> Iterator[GoogleServer]:
    with google_server() as made:
        yield made


@pytest.fixture
def there(served: GoogleServer) -> GoogleServer:
    served.reset()
    return served
