"""The MCP server on HTTP, loopback only. Host, origin and token are checked before the body of a request is read."""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.contract.errors import ConfigError
from holdfast.mcp.server.server import McpServer
from holdfast.runtime.runtime import Runtime

MAX_BODY: Final = 4 * 1024 * 1024
MAX_SESSIONS: Final = 256
"""Concurrent sessions of clients that use the handshake protocols."""
MAX_CONNECTIONS: Final = 512
MAX_NEWCOMERS: Final = 64
"""Connections that have not presented the token yet."""
BODY_SECONDS: Final = 30.0
HEADER_SECONDS: Final = 3.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


async def serve(
    runtime: Runtime, *, token: str | None, host: str, path: str, port: int, started: Callable[[str], None] | None
) -> None:
    if token is not None and not token.strip():
        raise ConfigError("An empty token would let everybody in. Set a token, or none at all.")
    with _listen(host, port) as listening:
        async with McpServer(runtime) as server:
            app = server.server.streamable_http_app(
                streamable_http_path=path, max_request_body_size=MAX_BODY, max_sessions=MAX_SESSIONS
            )
            actual: int = listening.getsockname()[1]
            if started is not None:
                started(f"http://{host}:{actual}{path}")
            await _run(RequestFilter(app, token, actual), listening)


def _listen(host: str, port: int) -> socket.socket:
    # Naming the protocol makes asyncio set TCP_NODELAY; without it each response is delayed by 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigError(f"Port {port} cannot be used ({error}). Choose another one.") from error
    return listening


async def _run(app: RequestFilter, listening: socket.socket) -> None:
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await asyncio.wait((serving,), timeout=3)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals to the caller of the event loop."""
        yield


class NewConnections:
    """Connections without a valid token. Beyond a limit the oldest is closed, so that they cannot lock out others."""

    def __init__(self) -> None:
        self._transports: dict[object, asyncio.Transport] = {}

    def add(self, peer: object, transport: asyncio.Transport) -> None:
        self._transports[peer] = transport
        if len(self._transports) > MAX_NEWCOMERS:
            self._transports.pop(next(iter(self._transports))).abort()

    def remove(self, peer: object) -> None:
        self._transports.pop(peer, None)


class RequestFilter:
    """Rejects requests with a foreign `Host` or `Origin` (DNS rebinding) or without the token."""

    def __init__(self, app: ASGIApp, token: str | None, port: int) -> None:
        self._app = app
        self.newcomers = NewConnections()
        self._token = None if token is None else token.encode()
        self._hosts = frozenset(f"{name}:{port}" for name in _LOOPBACK)
        self._origins = frozenset(f"http://{host}" for host in self._hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        self.newcomers.remove(scope.get("client"))
        timed = _Timed(receive, send)
        await self._app(scope, timed.receive, timed.send)

    def _refusal(self, headers: Headers) -> PlainTextResponse | None:
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("This server accepts requests to its own address only.", 421)
        if any(origin.lower() not in self._origins for origin in origins):
            return PlainTextResponse("Pages of other origins may not use this server.", 403)
        if self._token is None or self._holds_token(headers.getlist("authorization")):
            return None
        challenge = {"WWW-Authenticate": 'Bearer realm="holdfast"'}
        return PlainTextResponse("This server needs its token: Authorization: Bearer TOKEN", 401, challenge)

    def _holds_token(self, given: list[str]) -> bool:
        scheme, _, credential = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        same = hmac.compare_digest(credential.strip().encode("latin-1"), self._token or b"")
        return same and scheme.lower() == "bearer"


class _Timed:
    """Requires the body to arrive in time. Messages after it, such as the disconnect, may take any time."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        self._whole = False
        self._late = False

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._late = self._whole = True
            return {"type": "http.disconnect"}
        self._whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if self._late and message["type"] == "http.response.start":
            message = {**message, "status": 408, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await self._send(message)


class TimedProtocol(H11Protocol):
    """Closes a connection on which no request arrives in time."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._newcomers.add(self.client, transport)
        self._wait()

    @property
    def _newcomers(self) -> NewConnections:
        app: Any = self.config.app
        return app.newcomers

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        busy = self._busy
        if busy and self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        elif not busy and self._waiting is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        self._newcomers.remove(self.client)
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._waiting = None
        if not self._busy:
            self.transport.close()

    @property
    def _busy(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        return cycle is not None and not cycle.response_complete
