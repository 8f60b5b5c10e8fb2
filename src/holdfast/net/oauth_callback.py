"""The OAuth redirect target: an HTTP server on 127.0.0.1, open only while a login is in progress."""

from __future__ import annotations

import asyncio
import secrets
import socket
from contextlib import suppress
from typing import Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

_PATH: Final = "/callback"
_HEAD_BYTES: Final = 16_384
_HEAD_SECONDS: Final = 10.0
_AT_ONCE: Final = 16
_THANKS: Final = "Login received. You can close this page.\n"
_STRANGER: Final = "This is not the login that holdfast is waiting for.\n"


class CallbackResult(Struct, frozen=True, kw_only=True):
    """The parameters of the redirect."""

    code: str = ""
    state: str = ""
    issuer: str | None = None
    error: str = ""


class _Connection:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.is_silent = True


class CallbackServer:
    """Listens from `open` to `close`. The first request with the expected state is the result.

    A request with another state is rejected and changes nothing, because any page in the browser can send one.
    """

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._arrival: asyncio.Future[CallbackResult] = asyncio.get_running_loop().create_future()
        self._expected = ""
        self._server: asyncio.Server | None = None
        self._serving: dict[asyncio.Task[None], _Connection] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self.port: int = listener.getsockname()[1]

    @classmethod
    async def open(cls, port: int) -> CallbackServer:
        """Listen on a port; 0 takes any free one. Raises OSError if it is taken."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.setblocking(False)
            callback = cls(listener)
            callback._server = await asyncio.start_server(callback._serve, sock=listener, limit=_HEAD_BYTES)
        except BaseException:
            listener.close()
            raise
        return callback

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{_PATH}"

    def expect(self, state: str) -> None:
        self._expected = state

    async def arrival(self) -> CallbackResult:
        return await asyncio.shield(self._arrival)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._arrival.cancel()
        # Aborted, not cancelled: Python 3.11 prints a traceback for a cancelled task of a stream server.
        for connection in self._serving.values():
            connection.writer.transport.abort()
        await asyncio.gather(*self._serving, *self._leaving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._serving) >= _AT_ONCE:
            self._make_room()
        connection = self._serving[task] = _Connection(writer)
        try:
            if len(self._serving) > _AT_ONCE:
                return
            async with asyncio.timeout(_HEAD_SECONDS):
                start = await reader.readexactly(1)
                connection.is_silent = False
                found = self._read((start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1"))
                writer.write(_page(200, _THANKS) if found is not None else _page(400, _STRANGER))
                await writer.drain()
            if found is not None and not self._arrival.done():
                self._arrival.set_result(found)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            self._serving.pop(task, None)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _make_room(self) -> None:
        """Close the oldest connection that has sent nothing: browsers open some in advance, which would keep the
        redirect out."""
        for task, connection in self._serving.items():
            if connection.is_silent:
                del self._serving[task]
                self._leaving.add(task)
                task.add_done_callback(self._leaving.discard)
                connection.writer.transport.abort()
                return

    def _read(self, head: str) -> CallbackResult | None:
        line, _, rest = head.partition("\r\n")
        method, _, target = line.partition(" ")
        target, _, version = target.partition(" ")
        hosts = [part.partition(":")[2].strip() for part in rest.split("\r\n") if part.lower().startswith("host:")]
        if method != "GET" or not version.startswith("HTTP/1.") or hosts != [f"127.0.0.1:{self.port}"]:
            return None
        try:
            parts = urlsplit(target)
            values = parse_qs(parts.query, keep_blank_values=True, max_num_fields=32)
        except ValueError:
            return None
        if parts.scheme or parts.netloc or parts.path != _PATH or any(len(given) > 1 for given in values.values()):
            return None
        one = {name: given[0] for name, given in values.items()}
        state = one.get("state", "")
        if not self._expected or not secrets.compare_digest(state.encode(), self._expected.encode()):
            return None
        if not one.get("code") and not one.get("error"):
            return None
        return CallbackResult(code=one.get("code", ""), state=state, issuer=one.get("iss"), error=one.get("error", ""))


def _page(status: int, text: str) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Bad Request'}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + body
