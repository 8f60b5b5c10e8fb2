"""The MCP server on stdin and stdout: bounded lines in, whole lines out, and no other output on stdout."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import select
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, cast

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from holdfast.mcp.server.server import McpServer
from holdfast.mcp.server.wire import clean_text, refusal, writable
from holdfast.mcp.stdio_lines import MAX_LINE, LineSplitter, LineTooLong, NotAMessage, message_of
from holdfast.runtime.runtime import Runtime

LAST_ANSWERS: Final = 0.5
"""Seconds to answer the requests that arrived before the end of the input."""
_CHUNK: Final = 256 * 1024
_MAX_REFUSED: Final = 1024 * 1024
"""Lines up to this size that are not a message are searched for an id, for the error response."""


async def serve(runtime: Runtime) -> None:
    async with McpServer(runtime) as server, _streams() as (incoming, outgoing):
        await server.server.run(incoming, outgoing, server.server.create_initialization_options())


@asynccontextmanager
async def _streams() -> AsyncGenerator[tuple[Any, Any]]:
    """The two streams the SDK serves. Meanwhile stdin is empty and stdout goes to stderr for all other code."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    read_send, read_receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_send, write_receive = anyio.create_memory_object_stream[SessionMessage](0)
    writer = LineWriter(sink)
    try:
        async with anyio.create_task_group() as group:
            owed = OutstandingResponses()
            group.start_soon(_read_all, source, read_send, writer, owed)
            group.start_soon(write_all, writer, write_receive, owed)
            yield read_receive, write_send
            await writer.flushed()
            group.cancel_scope.cancel()
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)  # the writer keeps its own descriptor open: its thread may still be blocked on the client


class OutstandingResponses:
    """The requests that have no response yet."""

    def __init__(self) -> None:
        self._open: dict[types.RequestId, int] = {}
        self._none = asyncio.Event()
        self._none.set()

    def received(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self._open[message.id] = self._open.get(message.id, 0) + 1
            self._none.clear()
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._paid((message.params or {}).get("requestId"))

    def sent(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._paid(message.id)

    def _paid(self, number: Any) -> None:
        left = self._open.pop(number, 0) - 1 if isinstance(number, int | str) else 0
        if left > 0:
            self._open[number] = left
        if not self._open:
            self._none.set()

    async def paid(self) -> None:
        """Wait until every request is answered, bounded for a client that has disconnected."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_ANSWERS):
                await self._none.wait()


async def _read_all(
    source: int,
    send: MemoryObjectSendStream[SessionMessage | Exception],
    writer: LineWriter,
    owed: OutstandingResponses,
) -> None:
    lines = LineSplitter(skips=True)
    refused = 0
    async with send:
        while chunk := await _read(source):
            lines.feed(chunk)
            for _ in range(lines.skipped - refused):
                text = f"A message of more than {MAX_LINE:,} bytes was ignored."
                await writer.write(refusal(types.PARSE_ERROR, text) + b"\n")
            refused = lines.skipped
            if not await _hand_on(lines, send, writer, owed):
                return
        lines.feed(b"\n")
        if await _hand_on(lines, send, writer, owed):
            await owed.paid()


async def _hand_on(
    lines: LineSplitter,
    send: MemoryObjectSendStream[SessionMessage | Exception],
    writer: LineWriter,
    owed: OutstandingResponses,
) -> bool:
    """Pass on whole lines as messages; False if the receiver is closed."""
    while lines.ready:
        line = lines.ready.popleft()
        try:
            message = message_of(line)
        except (NotAMessage, LineTooLong) as error:
            if line.strip():
                await writer.write(_refused(line, error) + b"\n")
            continue
        owed.received(message)
        try:
            await send.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
    return True


async def write_all(
    writer: LineWriter, receive: MemoryObjectReceiveStream[SessionMessage], owed: OutstandingResponses
) -> None:
    async with receive:
        async for item in receive:
            line = writable(item.message)
            if line is not None:
                await writer.write(line + b"\n")
            owed.sent(item.message)


def _refused(line: bytes | bytearray, error: Exception) -> bytes:
    """An error response for a line that is not a message but has an id, so that its sender does not wait."""
    if isinstance(error, LineTooLong):
        return refusal(types.INVALID_REQUEST, f"The line is {error} and was ignored.")
    try:
        found: Any = json.loads(line) if len(line) <= _MAX_REFUSED else None
    except (ValueError, RecursionError):
        return refusal(types.PARSE_ERROR, "The line is not JSON, or is nested too deeply.")
    number = cast("dict[str, Any]", found).get("id") if isinstance(found, dict) else None
    usable = type(number) is int or (type(number) is str and number == clean_text(number))
    return refusal(types.INVALID_REQUEST, "The line is not a JSON-RPC message.", number if usable else None)


async def _read(source: int) -> bytes:
    """The available bytes, waiting for some; empty at the end of the input."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    with suppress(PermissionError):  # a regular file or /dev/null is always readable and cannot be polled
        loop.add_reader(source, lambda: readable.done() or readable.set_result(None))
        try:
            await readable
        finally:
            loop.remove_reader(source)
    try:
        return os.read(source, _CHUNK)
    except BlockingIOError:
        return await _read(source)
    except OSError:
        return b""


class LineWriter:
    """Writes lines in order, in a thread that can block on a slow client."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._lock = asyncio.Lock()
        self._jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] | None = None
        self._broken = False

    async def write(self, line: bytes) -> None:
        async with self._lock:
            if self._broken:
                return
            if self._jobs is None:
                self._jobs = queue.SimpleQueue()
                threading.Thread(target=self._work, args=(self._jobs,), name="holdfast-mcp-writer", daemon=True).start()
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._jobs.put((line, done))
            await done

    async def flushed(self) -> None:
        """Wait until what was started is written, unless the client does not read."""
        try:
            async with asyncio.timeout(0.5):
                async with self._lock:
                    return
        except TimeoutError:
            return

    def _write_now(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._sink, line) :]
        except BlockingIOError:
            select.select((), (self._sink,), ())
            self._write_now(line)
        except OSError:
            self._broken = True

    def _work(self, jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]]) -> None:
        while True:
            line, done = jobs.get()
            self._write_now(line)
            try:
                done.get_loop().call_soon_threadsafe(lambda done=done: done.done() or done.set_result(None))
            except RuntimeError:
                return  # the event loop is closed
