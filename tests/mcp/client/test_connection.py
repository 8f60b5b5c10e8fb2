"""The life of a connection: streams that end, floods, starts that take long, lists without an end, and the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types import Tool as McpTool

from holdfast.config.config import McpServer
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError
from holdfast.mcp.client import tool_list
from holdfast.mcp.client.connection import StartTimer
from holdfast.mcp.client.flow_control import flow_controlled
from tests.mcp.client.bridge_fixtures import bridged, methods, plain, script, until
from tests.mcp.client.memory_transport import Streams
from tests.runtime.support import run

pytestmark = pytest.mark.spec("K1")


def _answer(number: int) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={}))


def test_the_end_of_a_stream_is_told_once_with_what_the_transport_knows() -> None:
    async def work() -> list[str]:
        lost: list[str] = []
        streams = Streams()
        streams.reason = "it exited"
        async with flow_controlled(streams, lost.append) as (reading, writing), reading, writing:
            streams.to_us.send_nowait(_answer(1))
            streams.to_us.close()
            assert [item.message.id async for item in reading] == [1]
        return lost

    assert run(work()) == ["it exited"]


def ends_at(start: StartTimer) -> float | None:
    return None if start.limit is None else start.limit.when()


def test_a_start_waits_for_a_person_who_logs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[StartTimer] = []
    ends: list[float | None] = []

    class Watched(StartTimer):
        def __init__(self, seconds: float) -> None:
            super().__init__(seconds)
            starts.append(self)

    class Thoughtful(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            ends.append(ends_at(starts[0]))
            yield request

    def oauth_for(*_: Any) -> Thoughtful:
        return Thoughtful()

    monkeypatch.setattr("holdfast.mcp.client.connection.StartTimer", Watched)
    monkeypatch.setattr("holdfast.mcp.client.http_transport.oauth_for", oauth_for)

    async def work() -> None:
        nobody = await asyncio.start_server(lambda reading, writing: writing.close(), "127.0.0.1", 0)
        port = nobody.sockets[0].getsockname()[1]
        server = McpServer(url=f"http://127.0.0.1:{port}/", transport="http")
        async with nobody, bridged(tmp_path, {"far": server}, ready=False) as (_, bridge):
            await until(lambda: bridge.status()[0].state == "away")
            assert set(ends) == {None}
            assert "not ready" not in bridge.status()[0].reason

    run(work())


def test_the_time_of_a_start_goes_on_where_it_stood_when_nobody_is_waited_for_any_more() -> None:
    async def work() -> None:
        start = StartTimer(3600)
        now = asyncio.get_running_loop().time
        async with start.bounded():
            assert now() + 3500 < (ends_at(start) or 0) <= now() + 3600
            start.hold(True)
            start.hold(True)
            start.hold(False)
            assert ends_at(start) is None
            start.hold(False)
            assert now() + 3500 < (ends_at(start) or 0) <= now() + 3600
        with pytest.raises(HoldfastError, match="not ready after 0 s"):
            async with StartTimer(0).bounded():
                await asyncio.Event().wait()

    run(work())


def test_a_server_that_cannot_bear_to_be_asked_for_its_protocol_is_asked_in_the_old_way_next(tmp_path: Path) -> None:
    prudish = plain(tmp_path / "p")
    program = f"""
import runpy, sys, json
first = sys.stdin.readline()
if json.loads(first)["method"] != "initialize":
    sys.exit("what is that?")
lines = iter([first])
class Again:
    def __iter__(self):
        yield first
        yield from sys.__stdin__
sys.stdin = Again()
sys.argv = {["plain", *prudish.args[1:]]!r}
runpy.run_path({prudish.args[0]!r}, run_name="__main__")
"""

    async def work() -> None:
        async with bridged(tmp_path, {"p": script(program)}) as (runtime, bridge):
            await until(lambda: bridge.status()[0].state == "ready")
            await runtime.call("mcp:p:die")
            await until(lambda: methods(tmp_path / "p").count("tools/list") == 2)

    run(work())


def test_a_server_without_tools_is_ready_and_not_asked_for_them(tmp_path: Path) -> None:
    program = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": about}), flush=True)
    elif "id" in asked:
        error = {"code": -32601, "message": "no"}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)
"""

    async def work() -> None:
        async with bridged(tmp_path, {"p": script(program)}) as (runtime, bridge):
            assert (bridge.status()[0].state, runtime.registry.names()) == ("ready", ())

    run(work())


class Endless:
    """A client whose list has always one more page."""

    class server_capabilities:
        tools = True

    def __init__(self, description: str = "") -> None:
        self.pages = 0
        self._tool = McpTool(name="t", input_schema={}, description=description)

    async def list_tools(self, *, cursor: str | None) -> Any:
        self.pages += 1
        tools, number = [self._tool] * 15, str(self.pages)

        class Page:
            next_cursor = number

        Page.tools = tools  # pyright: ignore[reportAttributeAccessIssue]
        return Page


def test_a_list_without_an_end_is_read_to_a_bound() -> None:
    client: Any = Endless()
    tools, complete = run(tool_list.list_tools(client))
    assert (len(tools), complete) == (tool_list.MAX_TOOLS, False)
    client = Endless("x" * 1024 * 1024)
    tools, complete = run(tool_list.list_tools(client))
    assert (len(tools), complete, client.pages) == (30, False, 3)


def test_a_call_from_another_loop_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}) as (runtime, _):
            tool = runtime.registry.get("mcp:p:echo")
            assert tool is not None
            execute: Any = tool.execute
            result = await asyncio.to_thread(lambda: asyncio.run(execute({"text": "x"}, None)))
            assert (result.state, "another event loop" in result.text) == (State.FAILED, True)
            assert "tools/call" not in methods(tmp_path / "p")

    run(work())


def test_a_list_that_keeps_changing_is_read_more_and_more_rarely(tmp_path: Path) -> None:
    pauses: list[float] = []

    class Clock:
        def now(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) < 5:
                bridge.refresh("p")

    async def work() -> None:
        nonlocal bridge
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}, clock=Clock()) as (_, bridge):
            bridge.refresh("p")
            await until(lambda: len(pauses) == 5)
            for _ in range(50):  # until the pause has ended, which takes a few passes of the loop and no input
                await asyncio.sleep(0)
            bridge.refresh("p")
            await until(lambda: len(pauses) == 6)

    bridge: Any = None
    run(work())
    assert pauses == [0.5, 1, 2, 4, 8, 0.5]


def test_the_end_of_a_server_is_noticed_while_its_list_is_left_alone(tmp_path: Path) -> None:
    class Clock:
        def now(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            resting.set()
            if seconds == 0.5 and not died.is_set():
                await asyncio.Event().wait()

    resting, died = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with bridged(tmp_path, {"p": plain(tmp_path / "p")}, clock=Clock()) as (runtime, bridge):
            before = (await runtime.call("mcp:p:pid")).output
            bridge.refresh("p")
            await resting.wait()
            died.set()
            await runtime.call("mcp:p:die")
            await until(lambda: methods(tmp_path / "p").count("tools/list") == 3)
            await until(lambda: bridge.status()[0].state == "ready")
            assert (await runtime.call("mcp:p:pid")).output != before

    run(work())
