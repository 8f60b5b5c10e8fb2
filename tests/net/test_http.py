"""The HTTP transport: connects to checked addresses under the host name, and reports refusals as connect errors."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast.net.addresses import NOT_PUBLIC
from holdfast.net.gateway import Gateway
from holdfast.net.hosts import AllowList
from holdfast.net.http import GatewayTransport, HttpProxy
from tests.net.test_gateway import answering
from tests.runtime.support import run


@asynccontextmanager
async def server() -> AsyncGenerator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        host = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"host:"))
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + host)
        writer.close()
        await writer.wait_closed()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.spec("N2", "B6")
def test_a_name_is_resolved_once_and_the_request_keeps_the_host_name() -> None:
    asked: list[str] = []

    async def main() -> str:
        async with server() as port:
            gateway = Gateway(AllowList([f"some.example:{port}"]), resolver=answering("127.0.0.1", asked=asked))
            async with httpx2.AsyncClient(transport=GatewayTransport(gateway, verify=False), trust_env=False) as client:
                return (await client.get(f"http://some.example:{port}/")).text

    assert run(main()).startswith("Host: some.example:")
    assert asked == ["some.example"]


@pytest.mark.spec("N2b")
def test_the_environment_does_not_choose_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "certificates.pem"
    empty.touch()
    trusted = httpx2.create_ssl_context(trust_env=False).cert_store_stats()
    monkeypatch.setenv("SSL_CERT_FILE", str(empty))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    contexts: list[ssl.SSLContext] = []

    def note(_: httpx2.AsyncHTTPTransport, verify: ssl.SSLContext) -> None:
        contexts.append(verify)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "__init__", note)
    GatewayTransport(Gateway(AllowList()))
    assert contexts[0].cert_store_stats() == trusted
    assert contexts[0].verify_mode is ssl.CERT_REQUIRED


@pytest.mark.spec("N2b", "B10e")
@pytest.mark.parametrize("url", ["https://proxy.example", "socks5://proxy.example", "HTTPS://proxy.example"])
def test_only_a_proxy_without_tls_of_its_own_is_used(url: str) -> None:
    with pytest.raises(ValueError, match="Only http:// proxies"):
        HttpProxy(url)
    assert HttpProxy("http://proxy.example:3128").login is None


@pytest.mark.spec("B6")
def test_a_refusal_is_a_connect_error() -> None:
    async def main() -> None:
        gateway = Gateway(AllowList(), others=NOT_PUBLIC, resolver=answering("10.0.0.1"))
        async with httpx2.AsyncClient(transport=GatewayTransport(gateway, verify=False), trust_env=False) as client:
            with pytest.raises(httpx2.ConnectError, match="a private address"):
                await client.get("http://inside.example/")

    run(main())
