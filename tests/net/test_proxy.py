"""The proxy: each request has exactly one host, or is refused; the browser's proxy needs its password."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.net import proxy as proxy_module
from holdfast.net.network import Network
from holdfast.net.proxy import MAX_HEAD, ProxyServer, Refusal, parse_request
from tests.net.test_gateway import answering
from tests.runtime.support import run


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("CONNECT example.org:443 HTTP/1.1", ("example.org", 443)),
        ("CONNECT EXAMPLE.org.:443 HTTP/1.1", ("example.org", 443)),
        ("CONNECT [::1]:443 HTTP/1.1", ("::1", 443)),
        ("GET http://example.org/a?b HTTP/1.1", ("example.org", 80)),
        ("GET HTTP://example.org:8080 HTTP/1.0", ("example.org", 8080)),
        ("CONNECT example.org HTTP/1.1", None),
        ("CONNECT good.org@evil.test:443 HTTP/1.1", None),
        ("GET http://good.org@evil.test/ HTTP/1.1", None),
        ("GET http://good.org\\@evil.test/ HTTP/1.1", None),
        ("GET https://example.org/ HTTP/1.1", None),
        ("GET ftp://example.org/ HTTP/1.1", None),
        ("GET /path HTTP/1.1", None),
        ("GET http:///path HTTP/1.1", None),
        ("GET http://example.org/ HTTP/2", None),
        ("GET http://example.org/", None),
        ("\x16\x03\x01", None),
    ],
)
@pytest.mark.spec("N2")
def test_a_request_is_parsed_to_one_host_or_refused(line: str, wanted: tuple[str, int] | None) -> None:
    found = parse_request(line.encode("latin-1") + b"\r\nHost: evil.test\r\nProxy-Authorization: x\r\n\r\n")
    assert (found and found[:2]) == wanted
    if found is not None and found[2]:
        assert b"evil" not in found[2]
        assert b"Proxy" not in found[2]


@pytest.mark.parametrize("stray", [b"\n", b"\r", b"\0", b"\r\r\n\n", b"\nHost: evil.test"])
@pytest.mark.parametrize(
    "head",
    [
        b"GET http://example.org/a%sb HTTP/1.1\r\n\r\n",
        b"GET%s http://example.org/ HTTP/1.1\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nX-A: b%sc\r\n\r\n",
        b"GET http://example.org/ HTTP/1.1\r\nProxy-A: b%sc\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nX-A: b%sc\r\n\r\n",
    ],
)
@pytest.mark.spec("N2")
def test_a_head_with_bare_control_characters_is_refused(head: bytes, stray: bytes) -> None:
    assert parse_request(head % b"") is not None
    assert parse_request(head % stray) is None


@given(st.binary(max_size=200))
@pytest.mark.spec("N2")
def test_a_forwarded_head_is_one_request_to_the_host_that_is_dialled(noise: bytes) -> None:
    for head in (noise + b"\r\n\r\n", b"GET http://example.org/" + noise + b" HTTP/1.1\r\nA: " + noise + b"\r\n\r\n"):
        found = parse_request(head)
        if found is not None and found[2]:
            lines = found[2].split(b"\r\n")
            assert found[2].count(b"\r\n\r\n") == 1
            assert sum(line.lower().startswith(b"host") and line[4:5] == b":" for line in lines) == 1
            assert not any(mark in b"".join(lines) for mark in (b"\r", b"\n", b"\0"))


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def server(talk: Talk) -> AsyncGenerator[int]:
    """A server whose connections are closed when `talk` returns."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()


def network(port: int) -> Network:
    return Network(private=[f"site.test:{port}"], resolver=answering("127.0.0.1"))


def token(proxy: ProxyServer) -> str:
    words = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    return f"Proxy-Authorization: Basic {words}\r\n"


async def opened(proxy: ProxyServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(proxy.server.rpartition(":")[2]))


async def ask(proxy: ProxyServer, request: str) -> bytes:
    reader, writer = await opened(proxy)
    try:
        writer.write(request.encode())
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    fields = "Connection: keep-alive\r\nKeep-Alive: timeout=9\r\nProxy-Connection: keep-alive\r\n"
    writer.write(f"HTTP/1.1 200 OK\r\n{fields}Content-Length: {len(head)}\r\n\r\n".encode() + head)
    await writer.drain()


@pytest.mark.spec("N2d", "B7")
@pytest.mark.parametrize(
    "fields",
    [
        "",
        "Proxy-Authorization: Basic aG9sZGZhc3Q6\r\n",
        "Proxy-Authorization: Bearer TOKEN\r\n",
        "Authorization: Basic TOKEN\r\n",
        "Proxy-Authorization: Basic TOKEN\r\nProxy-Authorization: Basic TOKEN\r\n",
        "Proxy-Authorization : Basic TOKEN\r\n",
        "Proxy-Authorization: Basic TOKENx\r\n",
        "Proxy-Authorization: Basic \u00e9\r\n",
    ],
)
def test_a_request_without_the_password_is_not_served(fields: str) -> None:
    async def main() -> bytes:
        async with server(plain) as port, ProxyServer(network(port).gateway("test")) as proxy:
            given_token = token(proxy).removeprefix("Proxy-Authorization: Basic ").strip()
            request = f"GET http://site.test:{port}/ HTTP/1.1\r\n{fields.replace('TOKEN', given_token)}\r\n"
            return await ask(proxy, request)

    answer = run(main())
    assert answer.startswith(b"HTTP/1.1 407")
    assert b"Proxy-Authenticate: Basic" in answer


@pytest.mark.spec("N2d", "B7")
def test_a_plain_request_is_served_once_and_the_client_is_told_to_close() -> None:
    async def main() -> tuple[bytes, str, str]:
        async with server(plain) as port, ProxyServer(network(port).gateway("test")) as proxy:
            request = f"GET http://site.test:{port}/a?b HTTP/1.1\r\n{token(proxy)}X-A: b\r\n\r\n"
            return await ask(proxy, request), proxy.password, f"Host: site.test:{port}"

    answer, password, host = run(main())
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.lower().count(b"connection:") == head.count(b"Connection: close") == 1
    assert b"Keep-Alive" not in head
    assert body.startswith(b"GET /a?b HTTP/1.1\r\n" + host.encode())
    assert b"X-A: b" in body
    assert b"Proxy" not in body and password.encode() not in body


@pytest.mark.spec("N2d", "B7")
def test_a_tunnel_copies_bytes_in_both_directions() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while block := await reader.read(1000):
            writer.write(block.upper())
            await writer.drain()

    async def main() -> bytes:
        async with server(echo) as port, ProxyServer(network(port).gateway("test")) as proxy:
            reader, writer = await opened(proxy)
            writer.write(f"CONNECT site.test:{port} HTTP/1.1\r\n{token(proxy)}\r\n".encode())
            said = await reader.readuntil(b"\r\n\r\n")
            for word in (b"first", b"second"):
                writer.write(word)
                said += await reader.readexactly(len(word))
            writer.write_eof()
            said += await reader.read()
            writer.close()
            return said

    assert run(main()) == b"HTTP/1.1 200 Connection established\r\n\r\nFIRSTSECOND"


@pytest.mark.spec("N2d", "B7")
def test_refusals_are_kept_with_their_reason_and_the_gateway_is_chosen_for_each_request() -> None:
    told: list[tuple[str, int, str]] = []
    made: list[str] = []

    async def main() -> list[Refusal]:
        def gateway() -> Any:
            made.append("test")
            return Network().gateway("test", hosts=["one.test"])

        def tell(host: str, port: int, reason: str) -> None:
            told.append((host, port, reason))

        async with ProxyServer(gateway, on_refused=tell) as proxy:
            for target in ("127.0.0.1:80", "two.test:443", "a@b:1", "one.test:22"):
                await ask(proxy, f"CONNECT {target} HTTP/1.1\r\n{token(proxy)}\r\n")
            return list(proxy.refusals)

    kept = run(main())
    assert [(each.host, each.port) for each in kept] == [
        ("127.0.0.1", 80),
        ("two.test", 443),
        ("b:1", 0),
        ("one.test", 22),
    ]
    assert all(each.reason for each in kept)
    assert told == [(each.host, each.port, each.reason) for each in kept]
    assert len(made) == 3, "one for each request that names a host"


@pytest.mark.spec("N2")
def test_a_connection_that_was_opened_early_uses_the_gateway_of_the_moment_of_its_request() -> None:
    hosts: list[str] = []

    async def main() -> bytes:
        async with ProxyServer(lambda: Network().gateway("test", hosts=hosts)) as proxy:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.server.rpartition(":")[2]))
            await ask(proxy, f"CONNECT 127.0.0.1:80 HTTP/1.1\r\n{token(proxy)}\r\n")  # accepted after the first one
            hosts.append("127.0.0.1:80")
            writer.write(f"CONNECT 127.0.0.1:80 HTTP/1.1\r\n{token(proxy)}\r\n".encode())
            answer = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return answer

    assert b"127.0.0.1 is this machine" in run(main())


@pytest.mark.spec("N2d", "B7")
def test_a_head_that_is_too_long_or_too_slow_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[bytes]:
        async with ProxyServer(Network().gateway("test")) as proxy:
            long = await ask(proxy, "GET http://site.test/ HTTP/1.1\r\nA: " + "a" * MAX_HEAD)
            monkeypatch.setattr(proxy_module, "HEAD_SECONDS", 0.01)
            return [long, await ask(proxy, "GET http://site.test/ HTTP/1.1\r\n")]

    assert run(main()) == [b"", b""]


@pytest.mark.spec("N2d", "B7")
def test_connections_beyond_the_limit_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MAX_CONNECTIONS", 1)

    async def main() -> bytes:
        async with ProxyServer(Network().gateway("test")) as proxy:
            _, first = await opened(proxy)
            first.write(b"GET")
            reader, second = await opened(proxy)
            try:
                return await asyncio.wait_for(reader.read(), 60)
            except ConnectionResetError:
                return b""
            finally:
                first.close()
                second.close()

    assert run(main()) == b""


@pytest.mark.spec("N2d", "B7")
def test_a_client_that_has_gone_frees_its_connection_although_the_server_never_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_module, "LINGER_SECONDS", 0.01)

    async def main() -> None:
        asked, ended = asyncio.Event(), asyncio.Event()
        relay = getattr(proxy_module, "_relay")  # noqa: B009 - private

        async def relay_until_the_end(*args: Any, **options: Any) -> None:
            await relay(*args, **options)
            ended.set()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(proxy_module, "_relay", relay_until_the_end)
        async with server(silent) as port, ProxyServer(network(port).gateway("test")) as proxy:
            _, writer = await opened(proxy)
            writer.write(f"GET http://site.test:{port}/ HTTP/1.1\r\n{token(proxy)}\r\n".encode())
            await asked.wait()
            writer.close()
            await ended.wait()

    run(main())


@pytest.mark.spec("N2d", "B7")
@pytest.mark.parametrize("response", [b"", b"junk\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: " + b"a" * MAX_HEAD])
def test_a_server_that_does_not_speak_http_is_a_bad_gateway(response: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)

    async def main() -> bytes:
        async with server(talk) as port, ProxyServer(network(port).gateway("test")) as proxy:
            return await ask(proxy, f"GET http://site.test:{port}/ HTTP/1.1\r\n{token(proxy)}\r\n")

    assert run(main()).startswith(b"HTTP/1.1 502")


@pytest.mark.spec("N2d", "B7")
def test_interim_responses_come_before_the_response() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def main() -> bytes:
        async with server(talk) as port, ProxyServer(network(port).gateway("test")) as proxy:
            return await ask(proxy, f"GET http://site.test:{port}/ HTTP/1.1\r\n{token(proxy)}\r\n")

    interim, head, body = run(main()).split(b"\r\n\r\n")
    assert interim == b"HTTP/1.1 100 Continue"
    assert head == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close"
    assert body == b"ok"


@pytest.mark.spec("N2d", "B7")
def test_closing_the_proxy_ends_its_connections() -> None:
    async def main() -> bytes:
        reached = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            reached.set()
            await reader.read()

        async with server(silent) as port:
            async with ProxyServer(network(port).gateway("test")) as proxy:
                reader, writer = await opened(proxy)
                writer.write(f"CONNECT site.test:{port} HTTP/1.1\r\n{token(proxy)}\r\n".encode())
                await reached.wait()
                await reader.readuntil(b"\r\n\r\n")
            said = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return said

    assert run(main()) == b""
