"""HTTP servers: uvicorn with limits on what clients may keep open, and without signal handlers of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdfast.contract.errors import ConfigError

MAX_CONNECTIONS: Final = 512
MAX_NEWCOMERS: Final = 64
"""Connections that have not authenticated yet."""
BODY_SECONDS: Final = 30.0
HEADER_SECONDS: Final = 3.0
SHUTDOWN_SECONDS: Final = 1
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


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


class GuardedApp(Protocol):
    """An application that says which connections have authenticated, by removing them from `newcomers`."""

    newcomers: NewConnections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


def listen(host: str, port: int) -> socket.socket:
    """Listen on an IPv4 address. Raises `ConfigError` if the port cannot be used."""
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


def listen_unix(path: Path) -> socket.socket:
    """Listen on a socket in a private folder. A socket that no process listens on any more is replaced."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            if is_served(path):
                raise ConfigError(f"Another process serves {path}. Stop it first.")
            path.unlink()
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConfigError(f"The socket {path} cannot be used ({error}).") from error
    except ConfigError:
        listening.close()
        raise
    return listening


def is_served(path: Path) -> bool:
    """Whether a process listens on the socket. Raises `FileNotFoundError` if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(2.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, TimeoutError):
            return False
    return True


async def run(app: GuardedApp, sockets: Sequence[socket.socket], *, on_stop: Callable[[], None] | None = None) -> None:
    """Serve until cancelled. Then `on_stop` ends the replies that would go on, and the others get a second to end."""
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
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=list(sockets)))
    try:
        await asyncio.shield(task)
    finally:
        if on_stop is not None:
            on_stop()
        server.should_exit = True
        await asyncio.wait((task,), timeout=SHUTDOWN_SECONDS + 2)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leaves signals to the caller of the event loop."""
        yield


class TimedBody:
    """Requires the body to arrive in time. Messages after it, such as the disconnect, may take any time."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        self._whole = False
        self._late = False

    @classmethod
    async def call(cls, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        timed = cls(receive, send)
        await app(scope, timed.receive, timed.send)

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
        if self.client is not None:  # a unix socket, which has no address, is private already
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
