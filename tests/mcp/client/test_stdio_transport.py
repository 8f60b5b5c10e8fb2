"""The two streams of a server as the SDK sees them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import termios
from array import array
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from holdfast.config.config import McpServer
from holdfast.mcp.client.stdio_transport import StdioTransport
from tests.mcp.client.stdio_fixtures import peak_memory, runtime_in, server
from tests.runtime.command_helpers import mark, survivors, until
from tests.runtime.support import run

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 0.2)


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
            StdioTransport(runtime, "echo", _script(ECHO)) as (reading, writing),
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
        gate.parent.mkdir()
        os.mkfifo(gate)
        code = f"open({str(gate)!r}).close()\n{ECHO}"
        async with (
            runtime_in(tmp_path / "project") as runtime,
            StdioTransport(runtime, "slow", _script(code)) as (reading, writing),
        ):
            await asyncio.wait_for(writing.send(_note(1, "x" * 2_000_000)), 30)
            with peak_memory() as grown:
                for number in range(2, 40):
                    with pytest.raises(TimeoutError):
                        await asyncio.wait_for(writing.send(_note(number, "y" * 2_000_000)), 0.01)
            assert grown[0] < 32 * 1024**2
            gate.open("w").close()
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
            StdioTransport(runtime, "flood", flooding) as (reading, _),
        ):
            for _ in range(100):
                assert isinstance(await reading.receive(), SessionMessage)
            await until(lambda: _waits_in(reading._fd))  # pyright: ignore[reportPrivateUsage]
            assert count.stat().st_size < 1000
            assert len(reading._lines.ready) < 100  # pyright: ignore[reportPrivateUsage]

    run(go())


def _waits_in(pipe: int) -> bool:
    """Whether a pipe is filling up, since nobody reads it."""
    unread = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, unread)
    return unread[0] > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) // 2


@pytest.mark.spec("K1")
def test_streams_that_were_closed_say_so(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime:
            async with StdioTransport(runtime, "echo", _script(ECHO)) as (reading, writing):
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
                async with StdioTransport(runtime, "odd", server("linger", marker)):
                    await until(lambda: survivors(marker))
                    await asyncio.Event().wait()
            assert scope.cancelled_caught
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
def test_the_runtime_closes_what_was_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 3600)

    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project") as runtime:
            transport = StdioTransport(runtime, "odd", server("healthy", marker))
            await transport.__aenter__()
            await until(lambda: survivors(marker))
        await until(lambda: not survivors(marker))
        await transport.__aexit__(None, None, None)

    run(go())


@pytest.mark.spec("K1")
def test_a_runtime_without_servers_does_not_load_the_sdk() -> None:
    code = "import sys, holdfast.mcp, holdfast.runtime.runtime; print([m for m in sys.modules if m.startswith('mcp')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
