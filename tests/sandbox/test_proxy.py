"""The proxy of the sandbox reaches only listed hosts, whatever the request says."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Result
from holdfast.net.gateway import Gateway
from holdfast.net.network import Network
from holdfast.sandbox.proxy import HostProxy
from tests.runtime.command_helpers import shell_in
from tests.runtime.support import run


@asynccontextmanager
async def _server() -> AsyncGenerator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nserved " + head.split(b"\r\n")[0])
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def _gateway(host: str) -> Gateway:
    return Network().gateway_to_listed("test", [host], name="sandbox.network")


async def _ask(host_proxy: HostProxy, request: bytes) -> bytes:
    """Act as the relay: pass one end of a socket pair and talk on the other."""
    ours, theirs = socket.socketpair()
    passing = socket.socket(fileno=socket.dup(host_proxy.passed_fds[0]))
    with theirs, passing:
        socket.send_fds(passing, [b"c"], [theirs.fileno()])
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.spec("N2")
def test_allowed_hosts_are_reached_and_others_get_an_error_message() -> None:
    async def main() -> list[bytes]:
        async with _server() as port:
            with HostProxy(_gateway(f"localhost:{port}")) as host_proxy:
                tunnel = f"CONNECT localhost:{port} HTTP/1.1\r\n\r\nGET /in HTTP/1.1\r\n\r\n"
                plain = f"GET http://localhost:{port}/path HTTP/1.1\r\nHost: x\r\n\r\n"
                address = f"GET http://127.0.0.1:{port}/path HTTP/1.1\r\n\r\n"
                return [await _ask(host_proxy, text.encode()) for text in (tunnel, plain, address, "junk\r\n\r\n")]

    tunnel, plain, address, junk = run(main())
    assert tunnel.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    assert tunnel.endswith(b"served GET /in HTTP/1.1")
    assert plain.endswith(b"served GET /path HTTP/1.1")
    assert address.startswith(b"HTTP/1.1 403 Forbidden")
    assert b"is not in sandbox.network" in address
    assert junk.startswith(b"HTTP/1.1 400")


@pytest.mark.spec("N2")
def test_a_host_that_does_not_answer_is_a_bad_gateway() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def main() -> bytes:
        with HostProxy(_gateway(f"127.0.0.1:{port}")) as host_proxy:
            return await _ask(host_proxy, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())

    answer = run(main())
    assert answer.startswith(b"HTTP/1.1 502")
    assert answer.endswith(f"could not reach 127.0.0.1:{port}: it refused the connection.\n".encode())


_CLIENT = """
import os, socket, sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url, timeout=20).read().decode())
    except Exception as error:
        print(type(error).__name__, getattr(error, "code", ""))
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1].split(":")[2].split("/")[0])), 5)
    print("reached directly")
except OSError:
    print("not reached directly")
"""


@pytest.mark.spec("N2", "B4")
def test_a_contained_command_reaches_the_listed_hosts_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "client.py").write_text(_CLIENT)
    python = Path(sys.executable).resolve()  # the virtual environment may be invisible in the sandbox

    async def main() -> Result:
        async with _server() as port:
            hosts: dict[str, Any] = {"network": (f"localhost:{port}",)}
            async with shell_in(tmp_path, "required", sandbox=hosts) as runtime:
                urls = f"http://localhost:{port}/one http://127.0.0.1:{port}/two"
                command = f"{python} -I client.py {urls}; exit 9"
                return await runtime.call("shell.exec", {"command": command, "timeout": 60_000})

    result = run(main(), 60)
    said = (result.error or "").splitlines()[:3]
    assert said == ["served GET /one HTTP/1.1", "HTTPError 403", "not reached directly"]
    assert (result.error or "").endswith("Command exited with code 9")
