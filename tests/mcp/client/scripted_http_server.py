"""An MCP server over HTTP on loopback, written by hand so that it can do what no server should."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Message = dict[str, Any]
Odd = Callable[["ByHand", str, Message, asyncio.StreamWriter], Awaitable[bool]]
"""Sees a request first; False: it is answered as usual."""

RESULTS: dict[str, Message] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hand", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "seen"}]},
}


class ByHand:
    def __init__(self, odd: Odd, *, sse: bool) -> None:
        self.base = ""
        self.seen: list[Message] = []
        self.opened = 0
        """How often a stream of events was opened."""
        self._odd = odd
        self._sse = sse
        self._events: asyncio.StreamWriter | None = None
        self.going: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.going.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                sizes = [int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:")]
                body = await reader.readexactly(sizes[0]) if sizes else b""
                message: Message = json.loads(body) if body else {}
                method = head[0].split()[0]
                self.seen.append(message)
                if not await self._odd(self, method, message, writer):
                    await self._usual(method, message, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def _usual(self, method: str, message: Message, writer: asyncio.StreamWriter) -> None:
        if method == "GET":
            self.opened += 1
            self._events = writer
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            await self.event("/messages" if self._sse else "", "endpoint" if self._sse else "message")
            await asyncio.Event().wait()
        if "id" not in message or "method" not in message:
            await reply(writer, 202)
            return
        known = RESULTS.get(message["method"])
        outcome = {"result": known} if known else {"error": {"code": -32601, "message": "unknown"}}
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome})
        if self._sse:
            await reply(writer, 202)
            await self.event(answer)
        else:
            await reply(writer, 200, answer, "mcp-session-id: 1\r\n" if message["method"] == "initialize" else "")

    async def event(self, data: str, kind: str = "message") -> None:
        assert self._events is not None
        self._events.write(f"event: {kind}\ndata: {data}\n\n".encode())
        await self._events.drain()


async def reply(writer: asyncio.StreamWriter, status: int, body: str = "", headers: str = "") -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body.encode())
    await writer.drain()


@asynccontextmanager
async def by_hand(odd: Odd, *, sse: bool = False) -> AsyncGenerator[ByHand]:
    made = ByHand(odd, sse=sse)
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 20)
    made.base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
        for task in made.going:
            task.cancel()
        await asyncio.gather(*made.going, return_exceptions=True)
