"""The MCP server on stdin and stdout: lines of bounded length in, whole lines out, and nothing else on the wire."""

from __future__ import annotations

import asyncio
import os
import queue
import select
import stat
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from holdfast.doors.mcp.door import Door

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from holdfast.runtime.runtime import Runtime

MAX_LINE: Final = 16 * 1024 * 1024
_CHUNK: Final = 256 * 1024


async def serve(runtime: Runtime) -> None:
    async with Door(runtime) as door, _streams() as (incoming, outgoing):
        await door.server.run(incoming, outgoing, door.server.create_initialization_options())


@asynccontextmanager
async def _streams() -> AsyncGenerator[tuple[Any, Any]]:
    """The two streams the SDK serves. Until they are left, stdin is empty and stdout is stderr for everybody else."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    read_send, read_receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_send, write_receive = anyio.create_memory_object_stream[SessionMessage](0)
    writer = Writer(sink)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read_all, source, read_send, writer)
            group.start_soon(_write_all, writer, write_receive)
            yield read_receive, write_send
            await writer.flushed()
            group.cancel_scope.cancel()
    finally:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)  # the writer's own descriptor stays open: its thread may still wait for the client


async def _read_all(source: int, send: MemoryObjectSendStream[SessionMessage | Exception], writer: Writer) -> None:
    async with send:
        async for line in lines(source):
            if line is None:
                await writer.write(_refusal(f"A message of more than {MAX_LINE:,} bytes was left out."))
                continue
            try:
                message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                if line.strip():
                    await writer.write(_refusal("That line is no JSON-RPC message."))
                continue
            try:
                await send.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _write_all(writer: Writer, receive: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with receive:
        async for item in receive:
            await writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")


async def lines(source: int) -> AsyncIterator[bytes | None]:
    """Each line; None for one that is too long, which is not kept."""
    kept = bytearray()
    skipping = False
    while chunk := await _read(source):
        first, *rest = chunk.split(b"\n")
        kept += first
        for piece in rest:
            yield None if skipping else bytes(kept)
            skipping = False
            kept = bytearray(piece)
        if len(kept) > MAX_LINE:
            skipping = True
        if skipping:
            kept.clear()
    if kept:
        yield bytes(kept)


async def _read(source: int) -> bytes:
    """What is there, waiting for it; nothing at the end."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    with suppress(PermissionError):  # a file, or /dev/null: it is never waited for
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


class Writer:
    """Writes lines in order. What fits into the pipe is written at once; a thread waits for a client that is slow."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._pipe = stat.S_ISFIFO(os.fstat(sink).st_mode)
        self._poll = select.poll()
        self._poll.register(sink, select.POLLOUT)
        self._lock = asyncio.Lock()
        self._jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] | None = None
        self._broken = False

    async def write(self, line: bytes) -> None:
        async with self._lock:
            if self._broken:
                return
            if self._pipe and len(line) <= select.PIPE_BUF and self._poll.poll(0):
                self._write_now(line)
            else:
                await self._hand_over(line)

    async def flushed(self) -> None:
        """What has been begun is written, unless the client does not read."""
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

    async def _hand_over(self, line: bytes) -> None:
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(self._jobs,), name="holdfast-mcp-writer", daemon=True).start()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._jobs.put((line, done))
        await done

    def _work(self, jobs: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]]) -> None:
        while True:
            line, done = jobs.get()
            self._write_now(line)
            try:
                done.get_loop().call_soon_threadsafe(lambda done=done: done.done() or done.set_result(None))
            except RuntimeError:
                return  # the loop is closed


def _refusal(text: str) -> bytes:
    error = types.ErrorData(code=types.PARSE_ERROR, message=text)
    return types.JSONRPCError(jsonrpc="2.0", id=None, error=error).model_dump_json(by_alias=True).encode() + b"\n"
