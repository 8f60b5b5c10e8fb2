"""Who gets what: client secrets and refresh tokens go to the authorisation server they are for, and to no other."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.config.config import Config, McpOAuth, SecretSource
from holdfast.mcp.client.oauth import LoginFailed, LoginNeeded
from holdfast.runtime.runtime import Runtime
from tests.attached import attached
from tests.mcp.client.authorization_server import Authority, authority
from tests.mcp.client.login_fixtures import Person, ask, kept_in, login_of, run

pytestmark = pytest.mark.spec("K1")


@pytest.fixture(scope="module")
def served() -> Iterator[Authority]:
    with authority() as made:
        yield made


@pytest.fixture
def there(served: Authority) -> Authority:
    served.reset()
    return served


def test_a_client_of_the_configuration_is_not_registered_and_its_secret_comes_from_the_secrets(
    there: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_SECRET", "s3cret/of the client")
    there.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    runtime = attached(Runtime(config=Config(secrets={"docs": SecretSource(env="DOCS_SECRET")})), elicitor=Person())
    given = McpOAuth(client_id="mine", client_secret="${secret:docs}")
    assert run(ask(login_of(there, None, tmp_path, runtime=runtime, given=given))) == 200
    assert there.count("register") == 0
    sent = there.last("authorization_code")
    assert (sent["client_id"], sent["client_secret"]) == ("mine", "s3cret/of the client")
    assert "s3cret" not in json.dumps(kept_in(tmp_path))
    assert "s3cret/of the client" not in runtime.redactor("the s3cret/of the client")


def test_a_client_secret_is_not_sent_to_an_authorisation_server_it_was_not_for(
    there: Authority, tmp_path: Path
) -> None:
    given = McpOAuth(client_id="mine", client_secret="secret-of-mine")
    run(ask(login_of(there, Person(), tmp_path, given=given)))
    there.valid.clear()
    there.refreshers.clear()
    with authority() as other:
        there.resource["authorization_servers"] = [other.base]
        person = Person()
        with pytest.raises(LoginFailed, match="holdfast mcp logout docs"):
            run(ask(login_of(there, person, tmp_path, given=given)))
        assert person.asked == [] and other.count("authorization_code") == 0


def _tokens_asked_for(other: Authority) -> int:
    return other.count("authorization_code") + other.count("refresh_token")


def _astray(there: Authority, other: Authority, state: Path, given: McpOAuth | None, tries: int) -> None:
    """A server turns: it takes no token any more and names another authorisation server."""
    person = Person()
    login = login_of(there, person, state, given=given)
    run(ask(login))
    there.resource["authorization_servers"] = [other.base]
    there.refuse_all = True
    person.action = "decline"
    for _ in range(tries):
        with pytest.raises((LoginFailed, LoginNeeded)):
            run(ask(login))


def test_a_server_that_names_another_authorisation_server_does_not_get_the_secret_of_the_client(
    there: Authority, tmp_path: Path
) -> None:
    there.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    given = McpOAuth(client_id="mine", client_secret="secret-of-mine")
    with authority() as other:
        _astray(there, other, tmp_path, given, tries=3)
        assert other.count("server") > 0 and _tokens_asked_for(other) == 0
    assert there.count("refresh_token") > 1


@pytest.mark.parametrize("registers", [True, False])
def test_a_server_that_names_another_authorisation_server_does_not_get_the_refresh_token(
    there: Authority, tmp_path: Path, registers: bool
) -> None:
    there.lifetime = -1
    with authority() as other:
        if not registers:
            other.metadata["registration_endpoint"] = f"{other.base}/nothing"
        _astray(there, other, tmp_path, None, tries=3)
        assert other.count("server") > 0 and _tokens_asked_for(other) == 0
        # Nor does it from another process, which knows only the file.
        with pytest.raises((LoginFailed, LoginNeeded)):
            run(ask(login_of(there, Person("decline"), tmp_path)))
        assert _tokens_asked_for(other) == 0


def test_a_refresh_token_does_not_outlive_the_client_it_was_given_to(there: Authority, tmp_path: Path) -> None:
    login = login_of(there, Person(), tmp_path)
    run(ask(login))
    taken = int(there.last("register")["redirect"].rpartition(":")[2].partition("/")[0])
    there.refuse_all = True
    login = login_of(there, Person("decline"), tmp_path)

    async def occupied() -> None:
        blocker = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", taken)
        async with blocker:
            with pytest.raises(LoginNeeded):
                await ask(login)

    run(occupied())
    kept = kept_in(tmp_path)
    assert there.count("register") == 2 and kept["client"]["client_id"] != "client-1"
    assert kept["tokens"]["access_token"] and "refresh_token" not in kept["tokens"]


@pytest.mark.parametrize("part", ["resource", "issuer", "authorisation"])
def test_a_file_that_does_not_tell_who_gave_the_token_renews_nothing(
    there: Authority, tmp_path: Path, part: str
) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    (path,) = (tmp_path / "mcp" / "logins").iterdir()
    kept = json.loads(path.read_bytes())
    with authority() as other:
        if part == "resource":
            kept["resource"]["authorization_servers"] = [other.base]
        else:
            kept[part] = other.base if part == "issuer" else {"issuer": "no address"}
        path.write_text(json.dumps(kept))
        with pytest.raises(LoginFailed, match="holdfast mcp logout docs"):
            run(ask(login_of(there, None, tmp_path)))
        assert _tokens_asked_for(other) == there.count("refresh_token") == 0


def test_a_registration_made_in_a_roundabout_way_is_bound_to_the_server_it_was_made_for(
    there: Authority, tmp_path: Path
) -> None:
    with authority() as other:
        there.resource["authorization_servers"] = [other.base]
        other.metadata["registration_endpoint"] = None
        with pytest.raises(LoginNeeded):
            run(ask(login_of(there, Person("decline"), tmp_path)))
        assert there.count("register") == 1
        assert kept_in(tmp_path)["client"]["issuer"] == other.base


def test_a_client_secret_that_takes_its_time_does_not_hold_up_other_servers(there: Authority) -> None:
    gate = threading.Event()

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, gate.wait)
        try:
            async with asyncio.timeout(50):
                assert await ask(login_of(there, Person(), given=McpOAuth(client_id="mine", client_secret="s"))) == 200
        finally:
            gate.set()
            await busy

    run(work())
