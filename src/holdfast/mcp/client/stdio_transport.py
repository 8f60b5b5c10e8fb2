"""The stdio transport: a server in the sandbox, presented to the SDK as two streams.

The SDK pulls messages out of the pipe and pushes them into it directly. There is no queue that a server could fill, and
a server that floods is slowed by back-pressure.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from typing import Final, Self

from anyio import BrokenResourceError, CancelScope, ClosedResourceError, EndOfStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage

from holdfast.config.config import McpServer
from holdfast.mcp.client.server_process import ServerProcess, start_server
from holdfast.mcp.stdio_lines import LineSplitter, LineTooLong, NotAMessage, message_of
from holdfast.runtime.runtime import Runtime

MAX_BAD: Final = 100
"""Consecutive lines that are not messages."""
_BLOCK: Final = 64 * 1024
_BURST: Final = 32
"""Messages passed on before other tasks get their turn."""
_AS_LARGE: Final = 8 * 1024
"""Bytes that count as one more message."""
_LAST_WORDS: Final = 0.5
"""Seconds to learn the exit status of a server that closed one of its streams."""


class ServerBroken(Exception):
    """The server cannot be used any more. The message gives the reason and the end of its stderr."""


class StdioTransport:
    """Starts a server on entry and ends it on exit: `Client(StdioTransport(...))`."""

    def __init__(self, runtime: Runtime, name: str, server: McpServer) -> None:
        self._runtime = runtime
        self._name = name
        self._server = server
        self._process: ServerProcess | None = None
        self._reading: StdioReader | None = None
        self._writing: StdioWriter | None = None

    @property
    def reason(self) -> str:
        """Why the connection ended by itself; empty while it has not."""
        return "" if self._reading is None else self._reading.reason

    async def __aenter__(self) -> tuple[StdioReader, StdioWriter]:
        process = self._process = await start_server(self._runtime, self._name, self._server)
        self._reading = StdioReader(process, self._name)
        self._writing = StdioWriter(process, self._reading)
        return self._reading, self._writing

    async def __aexit__(self, *_: object) -> None:
        if self._process is None or self._reading is None or self._writing is None:
            return
        self._reading.close()
        self._writing.close()
        ending = asyncio.ensure_future(self._process.end())
        cancelled: asyncio.CancelledError | None = None
        with CancelScope(shield=True):
            while not ending.done():
                try:
                    await asyncio.shield(ending)
                except asyncio.CancelledError as again:
                    if ending.cancelled():
                        raise
                    cancelled = again
                    self._process.kill()  # a second cancellation means: do not wait
        ending.result()
        if cancelled is not None:
            raise cancelled


class _Half(ABC):
    """One direction of the connection, opened and closed by the SDK."""

    @abstractmethod
    def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def aclose(self) -> None:
        self.close()


class StdioReader(_Half):
    """Messages from the server. Reads only as much as is requested."""

    def __init__(self, process: ServerProcess, name: str) -> None:
        self.reason = ""
        self.gone = process.gone
        """Done when only the end can follow."""
        self._process = process
        self._name = name
        self._fd = process.stdout
        self._loop = asyncio.get_running_loop()
        self._lines = LineSplitter()
        self._bad = 0
        self._burst = 0
        self._over = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        process.gone.add_done_callback(lambda _: self.wake())

    async def receive(self) -> SessionMessage | Exception:
        ready = self._lines.ready
        while True:
            if self._closed:
                raise ClosedResourceError
            if self._over:
                raise EndOfStream
            if self.reason:
                self._over = True
                return ServerBroken(self.reason)
            if self._burst > _BURST:
                self._burst = 0
                await asyncio.sleep(0)
                continue
            if not ready:
                await self._fill()
                continue
            self._burst += 1
            message = self._message(ready.popleft())
            if message is not None:
                return SessionMessage(message)

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None

    def __aiter__(self) -> StdioReader:
        return self

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)
            self.wake()

    def fail(self, what: str) -> None:
        """End the connection with a reason."""
        if not self.reason and not self._closed:
            wrote = self._process.wrote()
            self.reason = f"The MCP server '{self._name}' {what}." + (f" It wrote:\n{wrote}" if wrote else "")
            self._lines.ready.clear()
            self._process.kill()
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _message(self, line: bytes | bytearray) -> JSONRPCMessage | None:
        try:
            message = message_of(line)
        except NotAMessage:
            self._process.note(line)
            self._bad += 1
            if self._bad >= MAX_BAD:
                self.fail(f"printed {MAX_BAD} consecutive lines that are not protocol messages")
            return None
        except LineTooLong as error:
            self.fail(f"sent {error}")
            return None
        self._bad = 0
        return message

    async def _fill(self) -> None:
        """Wait for data and read it."""
        try:
            block = os.read(self._fd, _BLOCK)
        except BlockingIOError:
            self._burst = 0
            await self._wait()
            return
        self._burst += len(block) // _AS_LARGE
        if not block:
            self.fail(await self._process.ended(_LAST_WORDS) or "closed its output")
            return
        try:
            self._lines.feed(block)
        except LineTooLong as error:
            self.fail(f"printed {error}")

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        self._loop.add_reader(self._fd, self.wake)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if not self._closed:  # after that the descriptor number may belong to another file
                self._loop.remove_reader(self._fd)


class StdioWriter(_Half):
    """Messages to the server. At most one is being written; further senders wait and can be cancelled."""

    def __init__(self, process: ServerProcess, reading: StdioReader) -> None:
        self._fd = process.stdin
        self._reading = reading
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._rest = memoryview(b"")
        self._emptied: asyncio.Future[None] | None = None
        self._closed = False
        self._broken = False

    async def send(self, item: SessionMessage, /) -> None:
        data = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        if self._rest or self._turn.locked():
            async with self._turn:
                while self._rest and not self._closed:
                    self._emptied = self._loop.create_future()
                    await self._emptied
                self._begin(data)
        else:
            self._begin(data)

    def close(self) -> None:
        """Close after finishing the current message, unless the process ends first."""
        self._closed = True
        self._wake()

    def _begin(self, data: bytes) -> None:
        if self._broken:
            raise BrokenResourceError
        if self._closed:
            raise ClosedResourceError
        self._rest = memoryview(data)
        self._write()
        if self._broken:
            raise BrokenResourceError
        if self._rest:
            self._loop.add_writer(self._fd, self._go_on)

    def _go_on(self) -> None:
        self._write()
        if not self._rest:
            self._loop.remove_writer(self._fd)
            self._wake()

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._fd, self._rest) :]
        except BlockingIOError:
            pass
        except OSError:
            self._rest = memoryview(b"")
            self._broken = True
            self._loop.call_later(
                _LAST_WORDS, self._reading.fail, "is no longer reading its input"
            )  # unless it has exited

    def _wake(self) -> None:
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)
