"""One server of each kind for all storage tests of a process."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack

import pytest

from tests.tools.storage.servers import NAMES, SECRET_KEY, S3Server, serving
from tests.tools.storage.storage_runtime import SECRET_VARIABLE


@pytest.fixture(scope="session")
def _servers(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, S3Server]]:
    """Started on first use."""
    with ExitStack() as stack:

        class Started(dict[str, S3Server]):
            def __missing__(self, name: str) -> S3Server:
                self[name] = stack.enter_context(serving(name, tmp_path_factory.mktemp(name)))
                return self[name]

        yield Started()


@pytest.fixture(params=NAMES)
def server(request: pytest.FixtureRequest, _servers: dict[str, S3Server]) -> S3Server:
    return _servers[request.param]


@pytest.fixture
def minio(_servers: dict[str, S3Server]) -> S3Server:
    """The faster server, for tests in which the kind of server does not matter."""
    return _servers["juicefs"]


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, SECRET_KEY)
