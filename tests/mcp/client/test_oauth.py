"""Logins to MCP servers: a person, a browser, an authorisation server on loopback, and everybody who gets it wrong."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from weakref import ref

import httpx2
import pytest

from holdfast.config.config import McpOAuth
from holdfast.contract.elicitation import Elicitation, ElicitationReply
from holdfast.contract.event import Event
from holdfast.mcp.client import oauth
from holdfast.mcp.client.oauth import LoginFailed, LoginNeeded, oauth_for
from holdfast.runtime.runtime import Runtime
from holdfast.store.ledger import Ledger
from tests.attached import attached
from tests.mcp.client.authorization_server import Authority, authority
from tests.mcp.client.login_fixtures import Person, ask, client_of, kept_in, login_of, run, server_of

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
    assert "'docs'" in visit.message and f"a login at {host}" in visit.message and "read write" in visit.message


def test_the_browser_gets_a_small_page_and_the_listener_is_gone_afterwards(there: Authority) -> None:
    person = Person()
    run(ask(login_of(there, person)))
    assert person.pages == [(200, "Login received. You can close this page.\n")]
    redirect = there.last("register")["redirect"]

    async def again() -> None:
        await person.open(redirect)

    with pytest.raises(httpx2.ConnectError):
        run(again())


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_person_who_says_no_is_not_asked_again(there: Authority, action: Literal["decline", "cancel"]) -> None:
    person = Person(action)
    login = login_of(there, person)
    for _ in range(3):
        with pytest.raises(LoginNeeded, match=r"'docs' needs a login .*Log in with `holdfast mcp login docs`"):
            run(ask(login))
    assert len(person.asked) == 1 and there.count("authorization_code") == 0


def test_where_nobody_is_nothing_is_registered_and_nothing_listens(there: Authority) -> None:
    with pytest.raises(LoginNeeded, match="no interface can ask you to log in"):
        run(ask(login_of(there, None)))
    assert there.seen == []


def test_a_login_that_nobody_finishes_ends(there: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "LOGIN_SECONDS", 0.2)
    login = login_of(there, Person(browser=False))
    with pytest.raises(LoginNeeded, match="no login was completed"):
        run(ask(login))


def test_two_connections_that_need_a_login_at_once_ask_once(there: Authority, tmp_path: Path) -> None:
    person = Person()
    runtime = attached(Runtime(), elicitor=person)

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


def test_a_login_that_waits_does_not_hold_up_requests_that_need_none(there: Authority) -> None:
    person = Person()
    runtime = attached(Runtime(), elicitor=person)
    login = login_of(there, None, runtime=runtime)

    async def work() -> None:
        await ask(login)
        asked, answered = asyncio.Event(), asyncio.Event()

        async def slow(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
            asked.set()
            await answered.wait()
            return await person(elicitation)

        runtime.attach(elicitor=slow)
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
        assert await asyncio.to_thread(there.held.wait, 50)
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
    assert [visit.message.rpartition("requests: ")[2] for visit in person.asked] == ["read.", "read write."]


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
        with pytest.raises(LoginNeeded, match="rejects the login"):
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


def test_tokens_are_in_no_event_no_log_and_no_message(
    there: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="holdfast")
    caplog.set_level("DEBUG", logger="mcp")
    ledger = Ledger.in_memory()
    runtime = attached(Runtime(ledger=ledger), elicitor=Person())
    events: list[Event] = []

    async def work() -> None:
        async with runtime:
            with runtime.subscribe() as stream:
                await ask(login_of(there, None, tmp_path, runtime=runtime))
                kept = kept_in(tmp_path)["tokens"]
                runtime.events.warn(f"a server said {kept['access_token']} and {kept['refresh_token']}")
                events.extend(stream.take())

    run(work())
    tokens = kept_in(tmp_path)["tokens"]
    written = caplog.text + repr(events)
    assert "a server said" in written and "mcp:docs" in written
    assert tokens["access_token"] not in written and tokens["refresh_token"] not in written
    assert there.last("authorization_code")["code"] not in written


def test_the_logins_of_a_runtime_go_with_it(there: Authority) -> None:
    runtime = attached(Runtime(), elicitor=Person())
    gone = ref(oauth_for(runtime, "docs", server_of(there), None))
    assert gone() is not None
    del runtime
    gc.collect()
    gc.collect()  # the first frees the runtime, and with it what held the login
    assert gone() is None
