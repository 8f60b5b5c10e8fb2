"""Logins to MCP servers: a person, a browser, an authorisation server on loopback, and everybody who gets it wrong."""

from __future__ import annotations

import asyncio
import gc
import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from weakref import ref

import httpx2
import pytest

from holdfast.config.model import Config, McpOAuth, McpServer, SecretSource
from holdfast.contract.event import Event
from holdfast.contract.inquiry import Inquiry, Reply
from holdfast.mcp import oauth
from holdfast.mcp.oauth import LoginFailed, LoginNeeded, oauth_for
from holdfast.mcp.oauth_store import forget_login, login_file
from holdfast.runtime.runtime import Runtime
from holdfast.store.ledger import Ledger
from tests.mcp.authority import Authority, authority
from tests.mcp.logging_in import Person, ask, client_of, kept_in, login_of, run, server_of

pytestmark = pytest.mark.spec("K1")


@pytest.fixture(scope="module")
def served() -> Iterator[Authority]:
    with authority() as made:
        yield made


@pytest.fixture
def there(served: Authority) -> Authority:
    served.reset()
    return served


async def _ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def test_a_person_logs_in_once_and_every_request_carries_the_token(there: Authority, tmp_path: Path) -> None:
    person = Person()
    login = login_of(there, person, tmp_path)
    assert [run(ask(login)), run(ask(login)), run(ask(login))] == [200, 200, 200]
    assert len(person.asked) == 1 and there.count("authorization_code") == 1
    assert there.authorised[0] == "" and len(set(there.authorised[1:])) == 1


def test_the_person_is_told_who_asks_and_where_the_page_is(there: Authority) -> None:
    person = Person()
    run(ask(login_of(there, person, given=McpOAuth(scopes=("read", "write")))))
    (visit,) = person.asked
    host = there.base.removeprefix("http://")
    assert visit.url.startswith(f"{there.base}/authorize?")
    assert "'docs'" in visit.message and f"log in at {host}" in visit.message and "read write" in visit.message


def test_the_browser_gets_a_small_page_and_the_listener_is_gone_afterwards(there: Authority) -> None:
    person = Person()
    run(ask(login_of(there, person)))
    assert person.pages == [(200, "holdfast has the answer of the login page. You can close this page.\n")]
    redirect = there.last("register")["redirect"]

    async def again() -> None:
        await person.open(redirect)

    with pytest.raises(httpx2.ConnectError):
        run(again())


def test_a_login_survives_the_process(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    assert run(ask(login_of(there, None, tmp_path))) == 200
    assert there.count("authorize") == 1


def test_without_a_state_folder_a_login_lasts_as_long_as_the_runtime(there: Authority) -> None:
    person = Person()
    runtime = Runtime(inquirer=person)
    run(ask(login_of(there, person, runtime=runtime)))
    assert run(ask(login_of(there, person, runtime=runtime))) == 200
    assert len(person.asked) == 1
    with pytest.raises(LoginNeeded):
        run(ask(login_of(there, None)))


def test_what_is_kept_is_for_this_account_only_and_no_half_file_is_left(there: Authority, tmp_path: Path) -> None:
    state = tmp_path / "state"
    run(ask(login_of(there, Person(), state)))
    (path,) = (state / "mcp" / "logins").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (state, state / "mcp", state / "mcp" / "logins"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_two_servers_with_one_name_do_not_share_a_login(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    other = McpServer(url="https://elsewhere.example/mcp")
    assert login_file("docs", other, tmp_path).read().tokens is None


def test_a_forgotten_login_is_gone_and_forgetting_twice_is_harmless(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    server = server_of(there)
    assert [forget_login("docs", server, tmp_path), forget_login("docs", server, tmp_path)] == [True, False]
    assert forget_login("docs", server, None) is False
    with pytest.raises(LoginNeeded):
        run(ask(login_of(there, None, tmp_path)))


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"tokens": {"access_token": 7}}', b"\xff\xfe"])
def test_a_damaged_file_is_no_login(there: Authority, tmp_path: Path, damage: bytes) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    (path,) = (tmp_path / "mcp" / "logins").iterdir()
    path.write_bytes(damage)
    person = Person()
    assert run(ask(login_of(there, person, tmp_path))) == 200
    assert len(person.asked) == 1


def test_a_link_in_place_of_the_file_is_not_followed(there: Authority, tmp_path: Path) -> None:
    run(ask(login_of(there, Person(), tmp_path)))
    (path,) = (tmp_path / "mcp" / "logins").iterdir()
    elsewhere = path.rename(tmp_path / "elsewhere.json")
    path.symlink_to(elsewhere)
    assert login_file("docs", server_of(there), tmp_path).read().tokens is None


def test_an_expired_token_is_renewed_without_asking_anybody(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.lifetime = 3600
    assert run(ask(login_of(there, None, tmp_path))) == 200
    assert there.count("refresh_token") == 1
    assert there.last("refresh_token")["resource"] == f"{there.base}/mcp"
    assert kept_in(tmp_path)["tokens"]["refresh_token"] != there.last("refresh_token")["refresh_token"]


def test_a_token_the_server_no_longer_takes_is_renewed_before_a_person_is_asked(
    there: Authority, tmp_path: Path
) -> None:
    there.lifetime = None
    run(ask(login_of(there, Person(), tmp_path)))
    there.valid.clear()
    assert run(ask(login_of(there, None, tmp_path))) == 200
    assert (there.count("refresh_token"), there.count("authorize")) == (1, 1)


def test_a_refresh_token_that_is_over_means_a_new_login(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.refreshers.clear()
    with pytest.raises(LoginNeeded, match=r"Log in with `holdfast mcp login docs`"):
        run(ask(login_of(there, None, tmp_path)))
    assert "tokens" not in {name for name, value in kept_in(tmp_path).items() if value is not None}
    person = Person()
    assert run(ask(login_of(there, person, tmp_path))) == 200
    assert len(person.asked) == 1


def test_a_login_service_in_trouble_costs_nobody_the_login(there: Authority, tmp_path: Path) -> None:
    there.lifetime, there.refresh_status = -1, 503
    run(ask(login_of(there, Person(), tmp_path)))
    person = Person()
    login = login_of(there, person, tmp_path)
    with pytest.raises(LoginFailed, match="HTTP 503"):
        run(ask(login))
    there.refresh_status, there.lifetime = 200, 3600
    assert run(ask(login)) == 200
    assert person.asked == []


def test_a_login_in_another_process_is_taken_up(there: Authority, tmp_path: Path) -> None:
    login = login_of(there, None, tmp_path)
    with pytest.raises(LoginNeeded):
        run(ask(login))
    run(ask(login_of(there, Person(), tmp_path)))
    assert run(ask(login)) == 200


def test_a_person_who_said_no_and_logged_in_elsewhere_is_asked_when_that_is_over(
    there: Authority, tmp_path: Path
) -> None:
    person = Person("decline")
    login = login_of(there, person, tmp_path)
    with pytest.raises(LoginNeeded):
        run(ask(login))
    run(ask(login_of(there, Person(), tmp_path)))
    assert run(ask(login)) == 200
    there.valid.clear()
    there.refreshers.clear()
    person.action = "accept"
    assert run(ask(login)) == 200
    assert len(person.asked) == 2


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_person_who_says_no_is_not_asked_again(there: Authority, action: Literal["decline", "cancel"]) -> None:
    person = Person(action)
    login = login_of(there, person)
    for _ in range(3):
        with pytest.raises(LoginNeeded, match=r"'docs' needs a login .*Log in with `holdfast mcp login docs`"):
            run(ask(login))
    assert len(person.asked) == 1 and there.count("authorization_code") == 0


def test_where_nobody_is_nothing_is_registered_and_nothing_listens(there: Authority) -> None:
    with pytest.raises(LoginNeeded, match="nobody is here"):
        run(ask(login_of(there, None)))
    assert there.seen == []


def test_a_login_that_nobody_finishes_ends(there: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "LOGIN_SECONDS", 0.2)
    login = login_of(there, Person(browser=False))
    with pytest.raises(LoginNeeded, match="nobody logged in"):
        run(ask(login))
    assert not login.waiting


def test_two_connections_that_need_a_login_at_once_ask_once(there: Authority, tmp_path: Path) -> None:
    person = Person()
    runtime = Runtime(inquirer=person)

    async def both() -> list[int]:
        logins = [login_of(there, person, tmp_path, runtime=runtime) for _ in range(4)]
        return await asyncio.gather(*map(ask, logins))

    assert run(both()) == [200, 200, 200, 200]
    assert len(person.asked) == 1 and there.count("register") == 1


def test_two_connections_whose_login_is_declined_at_once_ask_once(there: Authority) -> None:
    person = Person("decline")
    login = login_of(there, person)

    async def both() -> list[int | BaseException]:
        return await asyncio.gather(*(ask(login) for _ in range(3)), return_exceptions=True)

    assert [type(outcome) for outcome in run(both())] == [LoginNeeded] * 3
    assert len(person.asked) == 1


def test_connections_whose_token_has_expired_renew_it_once(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.lifetime = 3600
    login = login_of(there, None, tmp_path)

    async def all_at_once() -> list[int]:
        return await asyncio.gather(*(ask(login) for _ in range(4)))

    assert run(all_at_once()) == [200] * 4
    assert there.count("refresh_token") == 1


def test_a_login_that_waits_does_not_hold_up_requests_that_need_none(there: Authority) -> None:
    person = Person()
    runtime = Runtime(inquirer=person)
    login = login_of(there, None, runtime=runtime)

    async def work() -> None:
        await ask(login)
        asked, answered = asyncio.Event(), asyncio.Event()

        async def slow(inquiry: Inquiry) -> tuple[Reply, ...]:
            asked.set()
            await answered.wait()
            return await person(inquiry)

        runtime.inquirer = slow
        there.need = "write"
        stepping = [asyncio.create_task(ask(login)) for _ in range(2)]
        await asked.wait()
        there.need = ""
        assert await ask(login) == 200
        answered.set()
        assert await asyncio.gather(*stepping) == [200, 200]

    run(work())
    assert len(person.asked) == 2


def test_a_slow_request_does_not_hold_up_the_others(there: Authority) -> None:
    there.hold = threading.Event()
    login = login_of(there, Person())

    async def both() -> None:
        await ask(login)
        slow = asyncio.create_task(ask(login, "/mcp?slow=1"))
        assert await asyncio.to_thread(there.held.wait, 10)
        assert await ask(login) == 200
        assert not slow.done()
        assert there.hold is not None
        there.hold.set()
        assert await slow == 200

    try:
        run(both())
    finally:
        there.hold.set()


def test_the_token_goes_to_the_origin_of_the_server_and_nowhere_else(there: Authority) -> None:
    login = login_of(there, Person())

    async def elsewhere(other: Authority) -> None:
        await ask(login)
        async with client_of(login) as client:
            await client.post(f"{other.base}/mcp")

    with authority() as other:
        run(elsewhere(other))
        assert other.authorised == [""] and other.seen == []


def test_a_header_of_the_configuration_is_left_alone(there: Authority) -> None:
    login = login_of(there, Person())

    async def own() -> int:
        async with client_of(login) as client:
            return (await client.post(f"{there.base}/mcp", headers={"Authorization": "Bearer my-own"})).status_code

    assert run(own()) == 401
    assert there.authorised == ["Bearer my-own"] and there.seen == []


def test_closing_a_connection_asks_nobody(there: Authority) -> None:
    person = Person()
    with pytest.raises(LoginNeeded):
        run(ask(login_of(there, person), method="DELETE"))
    assert person.asked == []


def test_further_scopes_are_asked_for_on_top_of_those_there_were(there: Authority) -> None:
    person = Person()
    login = login_of(there, person, given=McpOAuth(scopes=("read",)))
    run(ask(login))
    there.need = "write"
    assert run(ask(login)) == 200
    assert [visit.message.rpartition("asks for: ")[2] for visit in person.asked] == ["read.", "read write."]


def test_scopes_of_the_configuration_stand_for_those_the_server_suggests(there: Authority) -> None:
    there.resource["scopes_supported"] = ["everything"]
    run(ask(login_of(there, Person(), given=McpOAuth(scopes=("read",)))))
    assert there.last("authorize")["scope"] == there.last("register")["scope"] == "read"


def test_a_server_that_refuses_what_it_has_just_given_is_not_logged_in_to_again(there: Authority) -> None:
    there.refuse_all = True
    person = Person()
    login = login_of(there, person)
    assert run(ask(login)) == 401
    for _ in range(2):
        with pytest.raises(LoginNeeded, match="refuses the login"):
            run(ask(login))
    assert len(person.asked) == 1


def test_the_address_of_the_callback_stays_while_it_can(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.refreshers.clear()
    run(ask(login_of(there, Person(), tmp_path)))
    assert there.count("register") == 1 and there.count("authorize") == 2


def test_a_callback_port_that_is_taken_means_a_new_registration(there: Authority, tmp_path: Path) -> None:
    there.lifetime = -1
    run(ask(login_of(there, Person(), tmp_path)))
    there.refreshers.clear()
    taken = int(there.last("register")["redirect"].rpartition(":")[2].partition("/")[0])

    async def occupied() -> int:
        blocker = await asyncio.start_server(_ignore, "127.0.0.1", taken)
        try:
            return await ask(login_of(there, Person(), tmp_path))
        finally:
            blocker.close()

    assert run(occupied()) == 200
    assert there.count("register") == 2


def test_a_configured_port_that_is_taken_is_named(there: Authority) -> None:
    async def occupied() -> None:
        blocker = await asyncio.start_server(_ignore, "127.0.0.1", 0)
        port = blocker.sockets[0].getsockname()[1]
        try:
            with pytest.raises(LoginFailed, match=f"port {port} "):
                await ask(login_of(there, Person(), given=McpOAuth(redirect_port=port)))
        finally:
            blocker.close()

    run(occupied())


def test_a_client_of_the_configuration_is_not_registered_and_its_secret_comes_from_the_secrets(
    there: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_SECRET", "s3cret/of the client")
    there.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    runtime = Runtime(inquirer=Person(), config=Config(secrets={"docs": SecretSource(env="DOCS_SECRET")}))
    given = McpOAuth(client_id="mine", client_secret="${secret:docs}")
    assert run(ask(login_of(there, None, tmp_path, runtime=runtime, given=given))) == 200
    assert there.count("register") == 0
    sent = there.last("authorization_code")
    assert (sent["client_id"], sent["client_secret"]) == ("mine", "s3cret/of the client")
    assert "s3cret" not in json.dumps(kept_in(tmp_path))
    assert "s3cret/of the client" not in runtime.redact("the s3cret/of the client")


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


def test_tokens_are_in_no_event_no_log_and_no_message(
    there: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="holdfast")
    caplog.set_level("DEBUG", logger="mcp")
    ledger = Ledger.in_memory()
    runtime = Runtime(inquirer=Person(), ledger=ledger)
    events: list[Event] = []

    async def work() -> None:
        async with runtime:
            with runtime.subscribe() as stream:
                await ask(login_of(there, None, tmp_path, runtime=runtime))
                kept = kept_in(tmp_path)["tokens"]
                runtime.warn(f"a server said {kept['access_token']} and {kept['refresh_token']}")
                events.extend(stream.take())

    run(work())
    tokens = kept_in(tmp_path)["tokens"]
    written = caplog.text + repr(events)
    assert "a server said" in written and "mcp:docs" in written
    assert tokens["access_token"] not in written and tokens["refresh_token"] not in written
    assert there.last("authorization_code")["code"] not in written


def test_the_logins_of_a_runtime_go_with_it(there: Authority) -> None:
    runtime = Runtime(inquirer=Person())
    gone = ref(oauth_for(runtime, "docs", server_of(there), None))
    assert gone() is not None
    del runtime
    gc.collect()
    gc.collect()  # the first frees the runtime, and with it what held the login
    assert gone() is None
