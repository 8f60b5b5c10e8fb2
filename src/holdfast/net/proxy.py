"""The HTTP proxy for sandboxed commands and the browser: one request per connection, to hosts that a gateway allows."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Final, Self

from msgspec import Struct

from holdfast.contract.errors import NetworkRefused
from holdfast.net.gateway import Gateway, Streams, why_unreachable
from holdfast.net.hosts import normalize_host, shown_host, split_port

MAX_HEAD: Final = 65_536
PROXY_ANSWER: Final = "Proxy-Answer"
"""The header of what the proxy itself answers. Servers cannot send it over http: like all fields of proxies, it is not
passed on."""
MAX_CONNECTIONS: Final = 256
MAX_REFUSALS: Final = 100
HEAD_SECONDS: Final = 30.0
DIAL_SECONDS: Final = 30.0
LINGER_SECONDS: Final = 60.0
"""Seconds without data from the server after which a connection ends whose client sends no more."""
_HEAD_END: Final = b"\r\n\r\n"
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: |\r\n)")
_ABSOLUTE: Final = re.compile(rb"(?i:http)://([^/?#]+)([^#]*)")
_BARE_CONTROL: Final = re.compile(rb"[\r\n\0]")
"""Bare CR, LF or NUL: a server might parse it as a line end where the proxy does not (request smuggling)."""


class Refusal(Struct, frozen=True):
    """A connection that the proxy did not open."""

    host: str
    """As shown in messages: normalized, or bounded and escaped."""
    port: int
    """0 if the request has no valid one."""
    reason: str


OnRefused = Callable[[str, int, str], None]
"""Called with host, port and reason, as in `Refusal`."""


class ProxyServer:
    """A proxy for the browser on a port of 127.0.0.1. Every request needs its user name and password, because other
    users and programs of the machine can connect to the port too.

    Use it as an async context manager. `gateway_for` is the gateway, or returns the one for the next request.
    Chromium reaches loopback addresses without its proxy, unless its bypass list is `<-loopback>`.
    """

    def __init__(self, gateway_for: Gateway | Callable[[], Gateway], *, on_refused: OnRefused | None = None) -> None:
        self.username = "holdfast"
        self.password = token_urlsafe(32)
        self.refusals: deque[Refusal] = deque(maxlen=MAX_REFUSALS)
        """The latest refusals, oldest first."""
        self._gateway_for = gateway_for
        self._on_refused = on_refused
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def server(self) -> str:
        """The URL of the proxy, without its user name and password."""
        assert self._server is not None, "the proxy is not running"
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve_streams(
            reader, writer, self._gateway_for, authorized=self._is_authorized, on_refused=self._refused
        )

    def _is_authorized(self, head: bytes) -> bool:
        expected = b"Basic " + b64encode(f"{self.username}:{self.password}".encode())
        return compare_digest(_proxy_authorization(head), expected)

    def _refused(self, host: str, port: int, reason: str) -> None:
        self.refusals.append(Refusal(host, port, reason))
        if self._on_refused is not None:
            self._on_refused(host, port, reason)


async def serve(connection: socket.socket, gateway: Gateway) -> None:
    """Serve one request on a connection of a sandboxed command and close it."""
    try:
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_HEAD)
    except (OSError, ValueError):
        connection.close()
        return
    await _serve_streams(reader, writer, gateway)


async def _serve_streams(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    gateway_for: Gateway | Callable[[], Gateway],
    *,
    authorized: Callable[[bytes], bool] | None = None,
    on_refused: OnRefused | None = None,
) -> None:
    with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
        try:
            head = await asyncio.wait_for(reader.readuntil(_HEAD_END), HEAD_SECONDS)
        except (TimeoutError, asyncio.LimitOverrunError):
            return
        if authorized is not None and not authorized(head):
            await _reply(writer, 407, "holdfast: this proxy needs its user name and password.")
            return
        wanted = parse_request(head)
        if wanted is None:
            sentence = "holdfast cannot parse this request; only CONNECT and http:// are supported."
            if on_refused is not None:
                on_refused(_shown_target(head), 0, sentence)
            await _reply(writer, 400, sentence)
            return
        host, port, forward = wanted
        # Asked now, because Chromium opens connections long before it uses them.
        gateway = gateway_for if isinstance(gateway_for, Gateway) else gateway_for()
        try:
            far_reader, far_writer = await asyncio.wait_for(gateway.connect(host, port), DIAL_SECONDS)
        except NetworkRefused as refused:
            if on_refused is not None:
                on_refused(host, port, str(refused))
            await _reply(writer, 403, f"holdfast: {refused}")
            return
        except OSError as error:  # a timeout, too
            await _reply(writer, 502, f"holdfast could not reach {host}:{port}: {why_unreachable(error)}.")
            return
        with contextlib.closing(far_writer):
            if forward:
                far_writer.write(forward)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _relay((reader, writer), (far_reader, far_writer), head=bool(forward))


def _proxy_authorization(head: bytes) -> bytes:
    """Return the one `Proxy-Authorization` of a head, else nothing."""
    fields = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    found = [value.strip() for name, _, value in fields if name.lower() == b"proxy-authorization"]
    return found[0] if len(found) == 1 else b""


def _shown_target(head: bytes) -> str:
    target = head.split(b"\r\n", 1)[0].split(b" ")[1:2]
    return shown_host(b"".join(target).decode("latin-1").partition("://")[2] or b"".join(target).decode("latin-1"))


def parse_request(head: bytes) -> tuple[str, int, bytes] | None:
    """Parse the head of a proxy request into (host, port, head to forward); None if it is invalid or unsupported."""
    if _BARE_CONTROL.search(head.replace(b"\r\n", b"")):
        return None
    line, _, rest = head.partition(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or words[2] not in (b"HTTP/1.0", b"HTTP/1.1"):
        return None
    method, target, version = words
    connect = method == b"CONNECT"
    found = None if connect else _ABSOLUTE.fullmatch(target)
    if not connect and found is None:
        return None
    place = target if found is None else found[1]
    try:
        name, port = split_port(place.decode("ascii"), None if connect else 80)
    except UnicodeDecodeError:
        return None
    host = normalize_host(name)
    if host is None or not port or b"@" in place:
        return None
    if found is None:
        return host, port, b""
    path = found[2] if found[2].startswith(b"/") else b"/" + found[2]
    kept = [item for item in rest.split(b"\r\n") if item and not _is_hop_header(item)]
    if any(item[:1] in b" \t" for item in kept):
        return None
    fresh = [b" ".join((method, path, version)), b"Host: " + place, b"Connection: close", *kept]
    return host, port, b"\r\n".join(fresh) + b"\r\n\r\n"


def _is_hop_header(header: bytes) -> bool:
    """Whether a header is for the proxy, or is set by the proxy, so that the request has exactly one host."""
    name = header.partition(b":")[0].strip().lower()
    return name == b"host" or _is_connection_header(header)


def _is_connection_header(header: bytes) -> bool:
    name = header.partition(b":")[0].strip().lower()
    return name in (b"connection", b"keep-alive") or name.startswith(b"proxy-")


async def _relay(near: Streams, far: Streams, *, head: bool) -> None:
    """Copy in both directions until the far end closes. `head`: it answers with one response, not a tunnel."""
    there = _Transfer(near[0], far[1])
    back = _Transfer(far[0], near[1], head=head)
    try:
        await asyncio.wait((there.task, back.task), return_when=asyncio.FIRST_COMPLETED)
        seen = -1
        # A client that sends no more may still be reading, or be gone: then the far end might never notice.
        while not back.task.done() and back.copied != seen:
            seen = back.copied
            await asyncio.wait((back.task,), timeout=LINGER_SECONDS)
    finally:
        there.task.cancel()
        back.task.cancel()
        await asyncio.gather(there.task, back.task, return_exceptions=True)


class _Transfer:
    """Copies a stream in a task, and counts the bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, head: bool = False) -> None:
        self._reader = reader
        self._writer = writer
        self.copied = 0
        self.task = asyncio.ensure_future(self._copy(head=head))

    async def _copy(self, *, head: bool) -> None:
        with contextlib.suppress(OSError):
            if head and not await self._copy_response_head():
                await _reply(self._writer, 502, "holdfast cannot parse the response of the server.")
                return
            while block := await self._reader.read(MAX_HEAD):
                self.copied += len(block)
                self._writer.write(block)
                await self._writer.drain()
            if self._writer.can_write_eof():
                self._writer.write_eof()

    async def _copy_response_head(self) -> bool:
        """Copy the head of a response, and say that the connection ends with it; False if it is not a valid head.

        A client that kept the connection would send its next request to the same server, whatever host it is for.
        """
        while True:
            try:
                head = await self._reader.readuntil(_HEAD_END)
            except (asyncio.LimitOverrunError, asyncio.IncompleteReadError):
                return False
            status = _STATUS.match(head)
            if status is None or _BARE_CONTROL.search(head.replace(b"\r\n", b"")):
                return False
            final = status[1] == b"101" or not status[1].startswith(b"1")
            if final and status[1] != b"101":
                line, *fields = head.removesuffix(_HEAD_END).split(b"\r\n")
                kept = [field for field in fields if not _is_connection_header(field)]
                head = b"\r\n".join((line, *kept, b"Connection: close")) + _HEAD_END
            self.copied += len(head)
            self._writer.write(head)
            await self._writer.drain()
            if final:
                return True


async def _reply(writer: asyncio.StreamWriter, code: int, sentence: str) -> None:
    body = sentence.encode() + b"\n"
    names = {400: "Bad Request", 403: "Forbidden", 407: "Proxy Authentication Required", 502: "Bad Gateway"}
    fields = ["Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "Connection: close"]
    fields.append(f"{PROXY_ANSWER}: {code}")
    if code == 407:
        fields.append('Proxy-Authenticate: Basic realm="holdfast"')
    head = "\r\n".join((f"HTTP/1.1 {code} {names[code]}", *fields, "", ""))
    writer.write(head.encode() + body)
    with contextlib.suppress(OSError):
        await writer.drain()
