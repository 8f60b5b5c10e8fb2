"""Servers with an address: a real HTTP server on this machine, both transports, both generations, and bad answers."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast import Config, Result, Runtime
from holdfast.config.config import McpServer, SecretSource
from holdfast.contract.elicitation import Elicitation, ElicitationReply
from holdfast.contract.enums import State
from holdfast.contract.event import Progress
from holdfast.mcp.client import http_transport
from holdfast.mcp.client.bridge import Bridge
from holdfast.mcp.client.http_transport import HttpTransport, _Unhurried  # pyright: ignore[reportPrivateUsage]
from tests.mcp.client.bridge_fixtures import SERVERS, bridged, until
from tests.runtime.support import run

pytestmark = pytest.mark.spec("K1")


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Where the server is."""
    server = subprocess.Popen(
        [sys.executable, str(SERVERS / "remote.py")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


def _happened(result: Result) -> Any:
    return result.structured


@pytest.mark.parametrize(
    ("path", "transport", "protocol"),
    [
        ("mcp", "auto", "2026-07-28"),
        ("mcp", "http", "2026-07-28"),
        ("legacy", "auto", "2025-11-25"),
        ("sse", "sse", "2026-07-28"),
        ("sse", "auto", "2026-07-28"),
    ],
)
def test_a_server_is_reached_by_its_address(
    site: str, tmp_path: Path, path: str, transport: Any, protocol: str
) -> None:
    async def work() -> None:
        server = McpServer(url=f"{site}/{path}", transport=transport)
        async with bridged(tmp_path, {"far": server}) as (runtime, bridge):
            assert bridge.status()[0].protocol == protocol
            result = await runtime.call("mcp:far:echo", {"text": "hi"})
            assert (result.output, result.structured) == (f"hi ({protocol})", {"result": f"hi ({protocol})"})

    run(work())


def test_a_server_of_both_generations_can_be_held_to_the_first(site: str, tmp_path: Path) -> None:
    async def work() -> None:
        server = McpServer(url=f"{site}/mcp", protocol="handshake")
        async with bridged(tmp_path, {"far": server}) as (runtime, _):
            assert (await runtime.call("mcp:far:echo", {"text": "hi"})).output == "hi (2025-11-25)"

    run(work())


@pytest.mark.parametrize("path", ["mcp", "legacy", "sse"])
def test_progress_comes_and_a_call_that_takes_too_long_is_cancelled_there(site: str, tmp_path: Path, path: str) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"far": McpServer(url=f"{site}/{path}", timeout=4)}) as (runtime, _):
            before = _happened(await runtime.call("mcp:far:happened"))
            with runtime.subscribe() as events:
                assert (await runtime.call("mcp:far:slow")).state is State.UNKNOWN
                steps = [event for event in events.take() if isinstance(event, Progress)]
            assert [(step.message, step.done, step.total) for step in steps] == [("half way", 1.0, 2.0)]
            after = before
            while len(after["cancelled"]) == len(before["cancelled"]):
                after = _happened(await runtime.call("mcp:far:happened"))

    run(work())


@pytest.mark.parametrize("path", ["mcp", "legacy"])
def test_what_is_asked_during_two_calls_at_once_is_put_down_to_the_right_one(
    site: str, tmp_path: Path, path: str
) -> None:
    both: set[str] = set()
    asked: list[Elicitation] = []

    async def person(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        asked.append(elicitation)
        both.add(elicitation.call_id)
        await until(lambda: len(both) == 2)
        return (ElicitationReply(action="accept", content={"name": elicitation.call_id}),)

    async def work() -> None:
        async with bridged(tmp_path, {"far": McpServer(url=f"{site}/{path}")}, elicitor=person) as (runtime, _):
            results = await asyncio.gather(runtime.call("mcp:far:greet"), runtime.call("mcp:far:greet"))
            assert [result.output for result in results] == [f"Hello {result.call_id}" for result in results]
            assert {elicitation.asked_by for elicitation in asked} == {"mcp:far"}

    run(work())


@pytest.mark.parametrize("path", ["mcp", "sse"])
def test_a_list_that_changes_is_followed(site: str, tmp_path: Path, path: str) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"far": McpServer(url=f"{site}/{path}")}) as (runtime, bridge):
            before = bridge.status()[0].tools
            listening = asyncio.create_task(until(lambda: bridge.status()[0].tools > before))
            while not listening.done():  # the first change may come before the server knows who listens
                await runtime.call("mcp:far:grow")
            await listening

    run(work())


def test_a_session_the_server_has_forgotten_is_begun_again(site: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"far": McpServer(url=f"{site}/legacy")}) as (runtime, bridge):
            assert (await runtime.call("mcp:far:forget")).output == "forgotten"
            lost = await runtime.call("mcp:far:echo", {"text": "x"})
            assert lost.state is State.FAILED
            assert "was not performed" in lost.text
            await until(lambda: bridge.status()[0].state == "away")
            await until(lambda: bridge.status()[0].state == "ready")
            assert (await runtime.call("mcp:far:echo", {"text": "x"})).output == "x (2025-11-25)"

    run(work())


def test_a_server_that_does_not_let_go_of_a_session_holds_up_nobody(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_transport, "_PROMPT_SECONDS", 0.2)

    async def work() -> float:
        async with bridged(tmp_path, {"far": McpServer(url=f"{site}/clingy/")}) as (runtime, _):
            assert (await runtime.call("mcp:far:echo", {"text": "x"})).success
            leaving = asyncio.get_running_loop().time()
        return asyncio.get_running_loop().time() - leaving

    assert run(work()) < 4


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("huge", "longer than 16,777,216 bytes"),
        ("packed", "compressed"),
        ("elsewhere", "not followed"),
        ("closed", "HTTP status 403"),
        ("nothing", "HTTP status 404"),
    ],
)
def test_a_bad_answer_is_the_reason_why_a_server_is_away(site: str, tmp_path: Path, path: str, words: str) -> None:
    async def work() -> None:
        async with bridged(tmp_path, {"far": McpServer(url=f"{site}/{path}")}) as (runtime, bridge):
            assert words in bridge.status()[0].reason
            assert any(words in warning and "mcp.far" in warning for warning in runtime.warnings())

    run(work())


def test_headers_are_sent_with_their_secrets_and_these_are_not_shown(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_TOKEN", "s3cr3t-value-123")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    server = McpServer(url=f"{site}/mcp", headers={"Authorization": "Bearer ${secret:far}", "X-Plain": "1"})

    async def work() -> None:
        async with _with_secrets(tmp_path, server) as runtime:
            result = await runtime.call("mcp:far:headers")
            sent: Any = result.structured
            assert sent["x-plain"] == "1"
            assert sent["authorization"].startswith("Bearer [secret far")
            assert sent["accept-encoding"] == "identity"
            assert "s3cr3t" not in result.text

    run(work())


@pytest.mark.parametrize("secret", ["line\nbreak-77", "cr\rlf-77", "nul\x00-77", "lätter-77", "end-77 ", "\x7f-77"])
def test_a_header_that_cannot_be_sent_is_named_without_its_value(tmp_path: Path, secret: str) -> None:
    (tmp_path / "secret").write_text(secret)
    server = McpServer(url="http://127.0.0.1:9/mcp", headers={"X-Key": "${secret:far}"})

    async def work() -> None:
        source = SecretSource(command=("cat", str(tmp_path / "secret")))
        async with _with_secrets(tmp_path, server, source) as runtime:
            (warning,) = [text for text in runtime.warnings() if "mcp.far" in text]
            assert "mcp.servers.far.headers.X-Key holds what a header cannot have" in warning
            assert "77" not in warning

    run(work())


def test_a_header_whose_name_is_none_is_named(tmp_path: Path) -> None:
    async def work() -> None:
        server = McpServer(url="http://127.0.0.1:9/mcp", headers={"X Key": "1"})
        async with bridged(tmp_path, {"far": server}) as (_, bridge):
            assert bridge.status()[0].reason.startswith('mcp.servers.far.headers."X Key" is not a valid header name')

    run(work())


def test_a_secret_that_takes_its_time_does_not_hold_up_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_TOKEN", "s3cr3t-value-123")
    gate = threading.Event()
    runtime = Runtime(config=Config(secrets={"far": SecretSource(env="FAR_TOKEN")}))
    server = McpServer(url="http://127.0.0.1:9/mcp", headers={"Authorization": "${secret:far}"})

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        busy = loop.run_in_executor(None, gate.wait)
        try:
            async with (
                asyncio.timeout(50),
                HttpTransport(runtime, "far", server, None, lambda waiting: None).transport(),
            ):
                pass
        finally:
            gate.set()
            await busy

    run(work())


def _with_secrets(folder: Path, server: McpServer, source: SecretSource | None = None) -> Any:
    from contextlib import asynccontextmanager

    from holdfast.config.config import ApprovalConfig, McpConfig

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[Runtime]:
        config = Config(
            mcp=McpConfig(servers={"far": server}),
            secrets={"far": source or SecretSource(env="FAR_TOKEN")},
            approval=ApprovalConfig(auto_approve=("mcp:*",)),
        )
        runtime = Runtime(config=config, root=folder)
        Bridge(runtime, {"far": server}, pins=None, state=None).attach()
        async with asyncio.timeout(30), runtime:
            await runtime.pipeline.wait_for_sources()
            yield runtime

    return open_it()


def test_http_without_encryption_to_another_machine_is_a_warning() -> None:
    runtime = Runtime()
    for url, warned in (("http://far.example/", True), ("http://127.0.0.1/", False), ("https://far.example/", False)):
        before = len(runtime.registry.warnings)
        HttpTransport(runtime, "far", McpServer(url=url), None, lambda waiting: None)
        assert (len(runtime.registry.warnings) > before) is warned


def test_only_the_refusals_the_protocol_names_lead_to_the_older_transport() -> None:
    def reach(**options: Any) -> HttpTransport:
        return HttpTransport(
            Runtime(), "far", McpServer(url="https://x.example/", **options), None, lambda waiting: None
        )

    for status, falls_back in ((404, True), (405, True), (400, True), (401, False), (500, False), (None, False)):
        tried = reach()
        tried.status = status
        assert tried.falls_back() is falls_back
        tried.status = 404
        assert tried.falls_back() is not falls_back  # never twice in a row
    fixed = reach(transport="http")
    fixed.status = 404
    assert not fixed.falls_back()


def test_time_stands_still_while_a_login_waits_and_runs_while_a_request_does() -> None:
    held: list[bool] = []

    class Slow(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
            assert held == [True]
            yield request
            assert held == [True, False, True]

    async def work() -> None:
        request = httpx2.Request("GET", "https://x.example/")
        flow = _Unhurried(Slow(), held.append).async_auth_flow(request)
        assert await flow.__anext__() is request
        assert held == [True, False]
        with pytest.raises(StopAsyncIteration):
            await flow.asend(httpx2.Response(200))
        assert held == [True, False, True, False]

    run(work())
