"""The HTTP proxy for sandboxed commands: one request per connection, to hosts that the gateway allows."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from typing import Final

from holdfast.contract.errors import NetworkRefused
from holdfast.net.gateway import Gateway
from holdfast.net.hosts import normalize_host, split_port

MAX_HEAD: Final = 65_536
HEAD_SECONDS: Final = 30.0
DIAL_SECONDS: Final = 30.0
_ABSOLUTE: Final = re.compile(rb"(?i:http)://([^/?#]+)([^#]*)")
_BARE_CONTROL: Final = re.compile(rb"[\r\n\0]")
"""Bare CR, LF or NUL: a server might parse it as a line end where the proxy does not (request smuggling)."""


async def serve(connection: socket.socket, gateway: Gateway) -> None:
    """Serve one request on a connection and close it."""
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
        wanted = parse_request(head)
        if wanted is None:
            await _refuse(writer, 400, "holdfast cannot parse this request; only CONNECT and http:// are supported.")
            return
        host, port, forward = wanted
        try:
            far_reader, far_writer = await asyncio.wait_for(gateway.connect(host, port), DIAL_SECONDS)
        except NetworkRefused as refused:
            await _refuse(writer, 403, f"holdfast: {refused}")
            return
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
    return name in (b"host", b"connection", b"keep-alive") or name.startswith(b"proxy-")


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
