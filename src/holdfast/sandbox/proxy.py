"""The way out to allowed hosts: an HTTP proxy in the runtime, which the sandbox reaches by sockets it passes."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from msgspec.structs import replace

from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError
from holdfast.helper_process import isolated_python
from holdfast.sandbox.launch import Launch
from holdfast.sandbox.warden.client import FIRST_FD

PORT: Final = 3128
MAX_HEAD: Final = 65_536
HEAD_SECONDS: Final = 30.0
DIAL_SECONDS: Final = 30.0
MAX_CONNECTIONS: Final = 128
_RELAY: Final = Path(__file__).with_name("relay.py")
_FD: Final = "{holdfast-relay}"
_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?)*")
_ABSOLUTE: Final = re.compile(rb"(?i:http)://([^/?#]+)([^#]*)")
_STRAY: Final = re.compile(rb"[\r\n\0]")
"""What a server might take for the end of a line, where we do not."""
_VARIABLES: Final = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")
_WEB: Final = (80, 443)


class Allowed:
    """The hosts of an allow-list: `host`, `*.host` for what is below it, each with `:port` or for the web's two."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._exact: set[tuple[str, int]] = set()
        self._below: set[tuple[str, int]] = set()
        for entry in entries:
            name, port = _split(entry, None)
            below = name.startswith("*.")
            host = to_host(name[2:] if below else name)
            if host is None or port == 0:
                raise ConfigError(f"sandbox.network names {entry!r}; write host, *.host or host:port.")
            target = self._below if below else self._exact
            target.update((host, one) for one in (_WEB if port is None else (port,)))

    def allows(self, host: str, port: int) -> bool:
        if (host, port) in self._exact:
            return True
        labels = host.split(".")
        return any((".".join(labels[at:]), port) in self._below for at in range(1, len(labels)))


def to_host(name: str) -> str | None:
    """A host as it is compared: lower case, in the letters of DNS, without the last dot; an address in one spelling.

    None for anything that two programs could read differently.
    """
    literal = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(literal))
    try:
        host = name.removesuffix(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None
    if len(host) > 253 or not _HOST.fullmatch(host) or re.fullmatch(r"(0x[0-9a-f]*|\d+)", host.rpartition(".")[2]):
        return None
    return host


def _split(text: str, default: int | None) -> tuple[str, int | None]:
    """Host and port; port 0 if there is one that is none."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.startswith("[") and text.endswith("]")):
        return text, default
    if ":" in host and not host.startswith("["):
        return text, default
    return host, int(port) if port.isascii() and port.isdigit() and 0 < int(port) < 65536 else 0


class Doorway:
    """One command's way out. Used as a context: it is closed when the command has ended."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._allowed = Allowed(hosts)
        self._loop = asyncio.get_running_loop()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def passed(self) -> tuple[int, ...]:
        return (self._theirs.fileno(),)

    def wrap(self, command: Command) -> Command:
        """The command, started by the relay, and told to use it."""
        url = f"http://127.0.0.1:{PORT}"
        proxies = {**dict.fromkeys(_VARIABLES, url), "no_proxy": "", "NO_PROXY": ""}
        program, *words = isolated_python(str(_RELAY), str(PORT), _FD)
        argv = (os.path.realpath(program), *words, *command.argv)
        return replace(command, argv=argv, env={**proxies, **command.env})

    def number(self, launch: Launch) -> Launch:
        """The launch with the descriptor the relay will find its socket at."""
        number = str(FIRST_FD + len(launch.files) + len(launch.opened.fds))
        at = launch.argv.index(_FD)
        return replace(launch, argv=(*launch.argv[:at], number, *launch.argv[at + 1 :]))

    def __enter__(self) -> Doorway:
        self._loop.add_reader(self._ours, self._arrived)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()
        for connection in self._connections:
            connection.cancel()

    def _arrived(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._ours, 1, 8)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if not data:
            self._loop.remove_reader(self._ours)
            return
        for fd in fds:
            connection = socket.socket(fileno=fd)
            if len(self._connections) >= MAX_CONNECTIONS:
                connection.close()
                continue
            task = self._loop.create_task(self._serve(connection))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_HEAD)
        except (OSError, ValueError):
            connection.close()
            return
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS)
            except (TimeoutError, asyncio.LimitOverrunError):
                return
            wanted = read_head(head)
            if wanted is None:
                await _refuse(writer, 400, "holdfast could not read this request; it serves CONNECT and http:// only.")
                return
            host, port, forward = wanted
            if not self._allowed.allows(host, port):
                await _refuse(writer, 403, f"holdfast: {host}:{port} is not in sandbox.network, so it is not reached.")
                return
            await _join(reader, writer, host, port, forward)


def read_head(head: bytes) -> tuple[str, int, bytes] | None:
    """(host, port, what to send on first) of a request to a proxy; None if it is not one we serve."""
    if _STRAY.search(head.replace(b"\r\n", b"")):
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
        name, port = _split(place.decode("ascii"), None if connect else 80)
    except UnicodeDecodeError:
        return None
    host = to_host(name)
    if host is None or not port or b"@" in place:
        return None
    if found is None:
        return host, port, b""
    path = found[2] if found[2].startswith(b"/") else b"/" + found[2]
    kept = [item for item in rest.split(b"\r\n") if item and not _is_dropped(item)]
    if any(item[:1] in b" \t" for item in kept):
        return None
    fresh = [b" ".join((method, path, version)), b"Host: " + place, b"Connection: close", *kept]
    return host, port, b"\r\n".join(fresh) + b"\r\n\r\n"


def _is_dropped(header: bytes) -> bool:
    """What is for the proxy, and what we say ourselves: a request names one host, in one place."""
    name = header.partition(b":")[0].strip().lower()
    return name in (b"host", b"connection", b"keep-alive") or name.startswith(b"proxy-")


async def _join(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, forward: bytes
) -> None:
    try:
        far_reader, far_writer = await asyncio.wait_for(asyncio.open_connection(host, port), DIAL_SECONDS)
    except (OSError, TimeoutError) as error:
        await _refuse(writer, 502, f"holdfast could not reach {host}:{port}: {error or 'no answer'}.")
        return
    with contextlib.closing(far_writer):
        if forward:
            far_writer.write(forward)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there = asyncio.ensure_future(_copy(reader, far_writer))
        try:
            await _copy(far_reader, writer)
        finally:
            there.cancel()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await reader.read(MAX_HEAD):
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _refuse(writer: asyncio.StreamWriter, code: int, sentence: str) -> None:
    body = sentence.encode() + b"\n"
    names = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}
    fields = ("Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "Connection: close")
    head = "\r\n".join((f"HTTP/1.1 {code} {names[code]}", *fields, "", ""))
    writer.write(head.encode() + body)
    with contextlib.suppress(OSError):
        await writer.drain()
