"""A small loopback HTTP server: scripted answers, recorded requests, and detection of disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

STREAM = "text/event-stream; charset=utf-8"
_TLS = b"\x16"
"""How a handshake begins."""


@dataclass
class Answer:
    """`then`: after the chunks, the body ends, the connection drops, or nothing more arrives."""

    chunks: Sequence[bytes] = ()
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": STREAM})
    then: Literal["end", "cut", "close", "stall"] = "end"


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return cast(dict[str, Any], json.loads(self.body))


@dataclass
class Server:
    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list[Asked])
    sent: asyncio.Event = field(default_factory=asyncio.Event)
    """Everything of an answer that stalls has been sent."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """A client closed its end while an answer stalled."""
    done: asyncio.Event = field(default_factory=asyncio.Event)
    """A client closed its end after its answer, or was cut off."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await _read(reader, writer):
                self.asked.append(request)
                if not await self._answer(self.answers.pop(0), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        except asyncio.CancelledError:
            return
        finally:
            writer.close()
            self.done.set()

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        chunked = answer.then != "close"
        framing = "transfer-encoding: chunked" if chunked else "connection: close"
        lines = [f"HTTP/1.1 {answer.status} X", framing, *(f"{key}: {value}" for key, value in answer.headers.items())]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        for chunk in answer.chunks:
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
            await writer.drain()
        if answer.then == "end":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        if answer.then == "stall":
            await writer.drain()
            self.sent.set()
            await reader.read()
            self.left.set()
        return answer.then == "end"


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    head = await reader.read(1)
    if head == _TLS:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
        return None
    while not head.endswith(b"\r\n\r\n"):
        line = await reader.readline()
        if not line:
            return None
        head += line
    first, *rest = head.decode().strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in rest)}
    return Asked(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


@asynccontextmanager
async def serving(*answers: Answer) -> AsyncGenerator[Server]:
    server = Server(list(answers))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()


def event(data: object, name: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def error(status: int, body: object, **headers: str) -> Answer:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return Answer([json.dumps(body).encode()], status, {"content-type": "application/json", **named})
