"""The server on HTTP: for this machine, for who holds the token, and for requests of a bearable size and pace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import mcp_types as types
import pytest
from fastmcp import Client as FastClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from holdfast.contract.errors import ConfigError
from holdfast.mcp.server import http, serve_http
from holdfast.net import server
from tests.mcp.server.served_runtime import ERAS, Deeds, Era, running, text_of
from tests.mcp.server.test_server import run

pytestmark = pytest.mark.spec("K3a")

TOKEN: Final = "a token of the tests"
HOLDER: Final = {"Authorization": f"Bearer {TOKEN}"}
JSON: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HELLO: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


@asynccontextmanager
async def listening(folder: Path, **options: Any) -> AsyncGenerator[str]:
    """The address of a server in this loop, which is stopped like one that is interrupted."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with running(folder, **options) as runtime:
        serving = asyncio.create_task(serve_http(runtime, token=TOKEN, started=address.set_result))
        try:
            yield await address
        finally:
            serving.cancel()
            await asyncio.wait((serving,), timeout=60)
            assert serving.done()


async def post(address: str, headers: dict[str, str], content: bytes | None = None) -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        body = json.dumps(HELLO).encode() if content is None else content
        return await client.post(address, headers={**JSON, **headers}, content=body)


async def yes(context: object, params: object) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"decision": "approve"})


@pytest.mark.parametrize("era", ERAS)
def test_the_official_client_calls_and_approves_over_http(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with (
            listening(tmp_path, deeds=deeds) as address,
            httpx2.AsyncClient(headers=HOLDER) as web,
            Client(streamable_http_client(address, http_client=web), mode=era, elicitation_callback=yes) as client,
        ):
            told: list[str | None] = []

            async def told_of(progress: float, total: float | None, message: str | None) -> None:
                assert total is None or total >= progress
                told.append(message)

            assert text_of(await client.call_tool("tell", {}, progress_callback=told_of)) == "told"
            assert told == ["begun", "half", "still at half", "done"]
            assert text_of(await client.call_tool("erase", {"what": "all"})) == "Erased all."
            assert deeds.done == ["all"]

    run(body())


@pytest.mark.parametrize("era", ERAS)
def test_a_client_does_not_get_the_call_of_another_one_of_its_name(tmp_path: Path, era: Era) -> None:
    async def waiting(address: str) -> str:
        async with (
            httpx2.AsyncClient(headers=HOLDER) as web,
            Client(streamable_http_client(address, http_client=web), mode=era) as client,
        ):
            return text_of(await client.call_tool("erase", {"what": "all"}))

    async def body() -> None:
        async with listening(tmp_path) as address:
            assert await waiting(address) != await waiting(address)

    run(body())


def test_fastmcps_client_calls_and_approves(tmp_path: Path) -> None:
    async def approve(_message: str, answer: Any, *_: object) -> Any:
        return answer(decision="approve")

    async def body() -> None:
        deeds = Deeds()
        async with listening(tmp_path, deeds=deeds) as address:
            transport = StreamableHttpTransport(address, headers=HOLDER)
            async with FastClient(transport, elicitation_handler=approve) as client:
                assert "math--add" in {item.name for item in await client.list_tools()}
                assert (await client.call_tool("math--add", {"a": 1, "b": 2})).data == {"sum": 3}
                await client.call_tool("erase", {"what": "all"})
                assert deeds.done == ["all"]

    run(body())


def test_without_the_token_nothing_is_answered(tmp_path: Path) -> None:
    async def body() -> None:
        async with listening(tmp_path) as address:
            assert (await post(address, {})).status_code == 401
            for wrong in ("", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN):
                refused = await post(address, {"Authorization": wrong})
                assert refused.status_code == 401 and refused.headers["www-authenticate"].startswith("Bearer")
            assert (await post(address, HOLDER)).status_code == 200

    run(body())


def test_other_hosts_and_origins_are_refused_even_with_the_token(tmp_path: Path) -> None:
    async def body() -> None:
        async with listening(tmp_path) as address:
            port = address.split(":")[2].split("/")[0]
            own = f"127.0.0.1:{port}"
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", f"{own}.evil.example"):
                assert (await post(address, {**HOLDER, "Host": host})).status_code == 421
            for origin in ("http://evil.example", "null", f"https://{own}", f"http://{own}.evil.example"):
                assert (await post(address, {**HOLDER, "Origin": origin})).status_code == 403
            page = {**HOLDER, "Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
            assert (await post(address, page)).status_code == 200

    run(body())


def test_a_huge_body_is_refused_whether_or_not_it_says_so(tmp_path: Path) -> None:
    async def body() -> None:
        async with listening(tmp_path) as address:
            assert (await post(address, HOLDER, b"x" * (http.MAX_BODY + 1))).status_code == 413

            async def pieces() -> AsyncGenerator[bytes]:
                for _ in range(http.MAX_BODY // 65536 + 2):
                    yield b"x" * 65536

            async with httpx2.AsyncClient() as client:
                answer = await client.post(address, headers={**JSON, **HOLDER}, content=pieces())
            assert answer.status_code == 413

    run(body())


def test_a_guessed_session_is_nobodys(tmp_path: Path) -> None:
    async def body() -> None:
        async with listening(tmp_path) as address:
            opened = await post(address, HOLDER)
            session = opened.headers["mcp-session-id"]
            assert len(session) >= 32
            guess = {**HOLDER, "Mcp-Session-Id": "0" * 32}
            assert (await post(address, guess, b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}')).status_code == 404
            stolen = {"Mcp-Session-Id": session}
            assert (await post(address, stolen, b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}')).status_code == 401

    run(body())


def test_a_connection_that_never_sends_its_request_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.2)

    async def body() -> None:
        async with listening(tmp_path) as address:
            port = int(address.split(":")[2].split("/")[0])
            for begun in (b"", b"POST /mcp HTTP/1.1\r\nHost: 127"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begun)
                assert await reader.read() == b""
                writer.close()
                await writer.wait_closed()

    run(body())


def test_a_body_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)

    async def body() -> None:
        async with listening(tmp_path) as address:
            port = int(address.split(":")[2].split("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = {**JSON, **HOLDER, "Host": f"127.0.0.1:{port}", "Content-Length": "100"}
            lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            writer.write(f"POST /mcp HTTP/1.1\r\n{lines}\r\n{{".encode())
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 408 ")
            writer.close()
            await writer.wait_closed()

    run(body())


def test_a_server_that_is_stopped_ends_although_clients_listen(tmp_path: Path) -> None:
    async def body() -> None:
        async with listening(tmp_path) as address:
            opened = await post(address, HOLDER)
            web = httpx2.AsyncClient()
            headers = {**JSON, **HOLDER, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
            stream = await web.send(web.build_request("GET", address, headers=headers), stream=True)
            assert stream.status_code == 200
        await stream.aclose()
        await web.aclose()

    run(body())


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::", "example.org", "localhost"])
def test_it_listens_on_loopback_only(tmp_path: Path, host: str) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime:
            with pytest.raises(ConfigError, match="this machine only"):
                await serve_http(runtime, token=TOKEN, host=host)
            with pytest.raises(ConfigError, match="empty token"):
                await serve_http(runtime, token=" ")

    run(body())


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async def body() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            async with running(tmp_path) as runtime:
                with pytest.raises(ConfigError, match=f"Port {port} cannot be used"):
                    await serve_http(runtime, token=TOKEN, port=port)

    run(body())


def test_connections_without_the_token_make_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_NEWCOMERS", 3)
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 8)

    async def body() -> None:
        async with listening(tmp_path) as address:
            port = int(address.split(":")[2].split("/")[0])
            request = f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
            known, known_writer = await asyncio.open_connection("127.0.0.1", port)
            known_writer.write(request)
            assert b" 404 " in await known.readuntil(b"Not Found\r\n")
            await known.readuntil(b"\r\n\r\nNot Found")
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for reader, _ in idle[:17]:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b"", "the oldest are closed"
            known_writer.write(request)
            assert b" 404 " in await known.readuntil(b"Not Found\r\n"), "one that is known stays"
            assert (await post(address, HOLDER)).status_code == 200, "and others can come"
            for writer in (known_writer, *(writer for _, writer in idle)):
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()

    run(body())


def test_a_wrong_token_makes_nobody_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_NEWCOMERS", 1)

    async def body() -> None:
        async with listening(tmp_path) as address:
            port = int(address.split(":")[2].split("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer x\r\n\r\n".encode())
            assert b" 401 " in await reader.readuntil(b"\r\n\r\n")
            assert (await post(address, HOLDER)).status_code == 200
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    run(body())


def test_a_signal_ends_it_in_order(tmp_path: Path) -> None:
    async def body() -> None:
        before = signal.getsignal(signal.SIGTERM)
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with running(tmp_path) as runtime:
            serving = asyncio.create_task(serve_http(runtime, token=TOKEN, started=address.set_result))
            assert (await post(await address, HOLDER)).status_code == 200
            os.kill(os.getpid(), signal.SIGTERM)
            await serving
        assert signal.getsignal(signal.SIGTERM) == before

    run(body())


def test_in_another_thread_signals_are_left_alone(tmp_path: Path) -> None:
    def serve() -> None:
        async def body() -> None:
            async with listening(tmp_path) as address:
                assert (await post(address, HOLDER)).status_code == 200

        run(body())

    with ThreadPoolExecutor(1) as pool:
        pool.submit(serve).result(30)
