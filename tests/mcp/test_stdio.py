"""The two streams of a server as the SDK sees them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from holdfast.config.model import McpServer
from holdfast.mcp.stdio import ServerBroken, stdio_transport
from tests.mcp.hostile import peak_memory, runtime_in, server
from tests.runtime.commanding import mark, survivors, until
from tests.runtime.support import run

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr("holdfast.mcp.process.GRACE", 0.2)


def _script(code: str) -> McpServer:
    return McpServer(command=sys.executable, args=("-c", code))


def _note(number: int, text: str = "") -> SessionMessage:
    params: dict[str, Any] = {"number": number, "text": text}
    return SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="note", params=params))


@pytest.mark.spec("K1")
def test_messages_of_any_size_arrive_whole_and_in_order(tmp_path: Path) -> None:
    async def go() -> None:
        sizes = (0, 10, 1_000_000, 1, 3_000_000, 70_000)
        async with (
            runtime_in(tmp_path / "project") as runtime,
            stdio_transport(runtime, "echo", _script(ECHO)) as (reading, writing),
        ):
            async with asyncio.TaskGroup() as group:
                for number, size in enumerate(sizes):
                    group.create_task(writing.send(_note(number, "ä\n" * size)))
                found = [await reading.receive() for _ in sizes]
            assert found == [_note(number, "ä\n" * size) for number, size in enumerate(sizes)]

    run(go())


@pytest.mark.spec("K1")
def test_who_writes_to_a_server_that_does_not_read_can_be_cancelled_and_nothing_is_torn(tmp_path: Path) -> None:
    async def go() -> None:
        gate = tmp_path / "project" / "gate"
        code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n{ECHO}"
        async with (
            runtime_in(tmp_path / "project") as runtime,
            stdio_transport(runtime, "slow", _script(code)) as (reading, writing),
        ):
            await asyncio.wait_for(writing.send(_note(1, "x" * 2_000_000)), 5)
            with peak_memory() as grown:
                for number in range(2, 40):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(writing.send(_note(number, "y" * 2_000_000)), 0.01)
            assert grown[0] < 32 * 1024**2
            gate.touch()
            await writing.send(_note(99))
            assert await reading.receive() == _note(1, "x" * 2_000_000)
            assert await reading.receive() == _note(99)

    run(go())


@pytest.mark.spec("K1")
def test_a_server_that_floods_waits_until_it_is_read(tmp_path: Path) -> None:
    async def go() -> None:
        count = tmp_path / "project" / "count"
        code = (
            "import json, os\n"
            'message = {"jsonrpc": "2.0", "method": "note", "params": {"text": "x" * 1000}}\n'
            'line = json.dumps(message).encode() + b"\\n"\n'
            f"with open({str(count)!r}, 'wb', 0) as count:\n"
            "    while os.write(1, line): count.write(b'.')\n"
        )
        flooding = McpServer(command=sys.executable, args=("-c", code), writable=("$root",))
        async with (
            runtime_in(tmp_path / "project") as runtime,
            stdio_transport(runtime, "flood", flooding) as (reading, _),
        ):
            for _ in range(100):
                assert isinstance(await reading.receive(), SessionMessage)
            await until(lambda: count.stat().st_size > 150)
            with peak_memory() as grown:
                await asyncio.sleep(0.3)  # time in which it could go on
            assert count.stat().st_size < 1000
            assert grown[0] < 4 * 1024**2

    run(go())


@pytest.mark.spec("K1")
def test_requests_that_the_server_takes_back_make_room_for_others(tmp_path: Path) -> None:
    async def go() -> None:
        code = (
            "import json\n"
            "def say(**m): print(json.dumps({'jsonrpc': '2.0', **m}), flush=True)\n"
            "for n in range(1000):\n"
            "    say(id=n, method='ping')\n"
            "    if n % 2: say(method='notifications/cancelled', params={'requestId': str(n)})\n"
        )
        async with (
            runtime_in(tmp_path / "project") as runtime,
            stdio_transport(runtime, "fickle", _script(code)) as (reading, writing),
        ):
            seen = 0
            while not isinstance(item := await reading.receive(), ServerBroken):
                assert isinstance(item, SessionMessage)
                seen += 1
                if isinstance(item.message, JSONRPCRequest) and item.message.id in range(0, 1000, 2):
                    answer = JSONRPCResponse(jsonrpc="2.0", id=item.message.id, result={})
                    try:
                        await writing.send(SessionMessage(answer))
                    except anyio.BrokenResourceError:
                        reading.owed.pop(item.message.id, None)
            assert seen == 1500

    run(go())


@pytest.mark.spec("K1")
def test_a_request_under_the_id_of_one_that_is_still_open_is_no_message(tmp_path: Path) -> None:
    async def go() -> None:
        code = (
            "import json\n"
            "for n in (7, '7', 8, 7): print(json.dumps({'jsonrpc': '2.0', 'method': 'ping', 'id': n}))"
        )
        async with (
            runtime_in(tmp_path / "project") as runtime,
            stdio_transport(runtime, "twice", _script(code)) as (reading, _),
        ):
            found = [item async for item in reading if isinstance(item, SessionMessage)]
            assert [item.message.model_dump()["id"] for item in found] == [7, 8]

    run(go())


@pytest.mark.spec("K1")
def test_streams_that_were_closed_say_so(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime:
            async with stdio_transport(runtime, "echo", _script(ECHO)) as (reading, writing):
                waiting = asyncio.create_task(reading.receive())
                await asyncio.sleep(0)
                await reading.aclose()
                await writing.aclose()
                with pytest.raises(anyio.ClosedResourceError):
                    await waiting
                with pytest.raises(anyio.ClosedResourceError):
                    await writing.send(_note(1))
            with pytest.raises(anyio.ClosedResourceError):
                await reading.receive()

    run(go())


@pytest.mark.spec("K1")
def test_a_server_left_in_the_middle_of_a_cancelled_scope_is_killed(tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project") as runtime:
            with anyio.move_on_after(0.3) as scope:
                async with stdio_transport(runtime, "odd", server("linger", marker)):
                    await until(lambda: survivors(marker))
                    await asyncio.Event().wait()
            assert scope.cancelled_caught
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
def test_the_runtime_closes_what_was_not_left(tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project") as runtime:
            transport = stdio_transport(runtime, "odd", server("healthy", marker))
            await transport.__aenter__()
            await until(lambda: survivors(marker))
        await until(lambda: not survivors(marker))
        began = time.monotonic()
        await transport.__aexit__(None, None, None)
        assert time.monotonic() - began < 2

    run(go())


@pytest.mark.spec("K1")
def test_a_runtime_without_servers_does_not_load_the_sdk() -> None:
    code = "import sys, holdfast.mcp, holdfast.runtime.runtime; print([m for m in sys.modules if m.startswith('mcp')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
