"""Calls that need a login: they wait for the person, and one that is over by then is not carried out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast import Runtime
from holdfast.config.config import McpServer
from holdfast.contract.elicitation import Elicitation, ElicitationReply
from holdfast.contract.enums import State
from holdfast.mcp.client.bridge import Bridge
from tests.mcp.client.authorization_server import Authority, authority
from tests.mcp.client.bridge_fixtures import bridged, until
from tests.mcp.client.login_fixtures import Person, ask, client_of, login_of, run

pytestmark = pytest.mark.spec("K1")


@pytest.fixture(scope="module")
def served() -> Iterator[Authority]:
    with authority() as made:
        yield made


@pytest.fixture
def there(served: Authority) -> Authority:
    served.reset()
    return served


class Slow(Person):
    """Opens the login page when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        self.calls.append(elicitation.call_id)
        await self.go.wait()
        return await super().__call__(elicitation)


@asynccontextmanager
async def _logged_out(
    there: Authority, folder: Path, seconds: float = 20
) -> AsyncGenerator[tuple[Runtime, Bridge, Slow]]:
    """A server that runs and takes the token no longer, and a person in no hurry."""
    person = Slow()
    server = McpServer(url=f"{there.base}/mcp", timeout=seconds)
    async with bridged(folder, {"docs": server}, elicitor=person) as (runtime, bridge):
        assert bridge.status()[0].state == "ready" and person.calls == [""]
        there.valid.clear()
        there.refreshers.clear()
        person.go.clear()
        yield runtime, bridge, person


def test_the_time_of_a_call_does_not_run_while_its_person_logs_in(there: Authority, tmp_path: Path) -> None:
    async def work() -> None:
        async with _logged_out(there, tmp_path, seconds=4) as (runtime, _, person):
            calling = asyncio.create_task(runtime.call("mcp:docs:look"))
            await until(lambda: len(person.calls) == 2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(calling), 5)
            person.go.set()
            result = await calling
            assert (result.output, person.calls[1]) == ("seen", result.call_id)
            assert there.told.count("tools/call") == 1

    run(work())


@pytest.mark.parametrize("by", ["runtime", "task"])
def test_a_call_that_is_cancelled_while_its_person_logs_in_is_never_carried_out(
    there: Authority, tmp_path: Path, by: str
) -> None:
    async def work() -> None:
        async with _logged_out(there, tmp_path) as (runtime, bridge, person):
            calling = asyncio.create_task(runtime.call("mcp:docs:look"))
            await until(lambda: len(person.calls) == 2)
            if by == "runtime":
                assert runtime.cancel(person.calls[1])
                assert (await calling).state is not State.DONE
            else:
                calling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await calling
            person.go.set()
            after = await runtime.call("mcp:docs:look")
            assert (after.output, bridge.status()[0].state) == ("seen", "ready")
            assert person.calls[1:] == [person.calls[1], after.call_id]
            assert there.told.count("tools/call") == 1

    run(work())


def test_a_call_behind_the_login_of_another_waits_without_its_time_running_and_can_be_cancelled(
    there: Authority, tmp_path: Path
) -> None:
    async def work() -> None:
        async with _logged_out(there, tmp_path, seconds=4) as (runtime, _, person):
            first = asyncio.create_task(runtime.call("mcp:docs:look"))
            await until(lambda: len(person.calls) == 2)
            before = len(there.authorised)
            behind = [asyncio.create_task(runtime.call("mcp:docs:look")) for _ in range(2)]
            await until(lambda: len(there.authorised) == before + 2)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.gather(first, *behind)), 5)
            behind[0].cancel()
            with pytest.raises(asyncio.CancelledError):
                await behind[0]
            person.go.set()
            assert [(await call).output for call in (first, behind[1])] == ["seen", "seen"]
            assert there.told.count("tools/call") == 2 and len(person.calls) == 2

    run(work())


def test_a_call_whose_person_says_no_is_not_carried_out(there: Authority, tmp_path: Path) -> None:
    async def work() -> None:
        async with _logged_out(there, tmp_path) as (runtime, bridge, person):
            person.action = "decline"
            person.go.set()
            assert not (await runtime.call("mcp:docs:look")).success
            await until(lambda: bridge.status()[0].state == "away")
            assert "holdfast mcp login docs" in bridge.status()[0].reason
            assert there.told.count("tools/call") == 0

    run(work())


def test_what_needs_no_answer_does_not_wait_for_a_login_and_asks_nobody(there: Authority) -> None:
    person = Slow()
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled"}

    async def work() -> None:
        login = login_of(there, person)
        async with client_of(login) as client:
            assert (await client.post(f"{there.base}/mcp", json=message)).status_code == 401
            assert person.calls == []
            person.go.clear()
            waiting = asyncio.create_task(ask(login))
            await until(lambda: len(person.calls) == 1)
            assert (await client.post(f"{there.base}/mcp", json=message)).status_code == 401
            person.go.set()
            assert await waiting == 200
            assert (await client.post(f"{there.base}/mcp", json=message)).status_code == 202

    run(work())


def test_an_expired_token_is_renewed_for_what_needs_no_answer(there: Authority) -> None:
    there.lifetime = -1
    message: dict[str, object] = {"jsonrpc": "2.0", "id": 7, "result": {}}

    async def work() -> None:
        login = login_of(there, Person())
        assert await ask(login) == 200
        there.lifetime = 3600
        async with client_of(login) as client:
            assert (await client.post(f"{there.base}/mcp", json=message)).status_code == 202
        assert there.count("refresh_token") == 1

    run(work())
