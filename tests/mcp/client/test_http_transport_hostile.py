"""Servers with an address that do not take what they are sent, or send what nobody can take."""

from __future__ import annotations

import asyncio
import json
from contextvars import Context, copy_context
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from holdfast import Runtime
from holdfast.config.config import McpServer
from holdfast.mcp.client import http_transport
from holdfast.mcp.client.active_calls import ActiveCalls
from holdfast.runtime.context import RunContext
from tests.mcp.client.bridge_fixtures import bridged, until
from tests.mcp.client.login_fixtures import run
from tests.mcp.client.scripted_http_server import ByHand, Message, by_hand, reply

pytestmark = pytest.mark.spec("K1")


def _server(made: ByHand, sse: bool) -> McpServer:
    return McpServer(url=f"{made.base}/x", transport="sse" if sse else "http", timeout=20)


async def _as_usual(made: ByHand, method: str, message: Message, writer: asyncio.StreamWriter) -> bool:
    return False


@pytest.mark.parametrize("sse", [False, True])
def test_a_server_that_does_not_take_an_answer_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sse: bool
) -> None:
    monkeypatch.setattr(http_transport, "_PROMPT_SECONDS", 0.2)

    async def deaf(made: ByHand, method: str, message: Message, writer: asyncio.StreamWriter) -> bool:
        if "result" in message:
            await asyncio.Event().wait()
        return False

    async def work() -> None:
        async with by_hand(deaf, sse=sse) as made, bridged(tmp_path, {"far": _server(made, sse)}) as (_, bridge):
            await until(lambda: made.opened == 1)
            assert bridge.status()[0].state == "ready"
            await made.event(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}))
            await until(lambda: bridge.status()[0].state == "away")
            assert bridge.status()[0].reason == "it did not accept a message within 0.2 s"
            await until(lambda: bridge.status()[0].state == "ready")

    run(work())


@pytest.mark.parametrize("which", ["notification", "end"])
def test_an_answer_that_never_ends_to_what_needs_none_is_not_waited_for(tmp_path: Path, which: str) -> None:
    async def talkative(made: ByHand, method: str, message: Message, writer: asyncio.StreamWriter) -> bool:
        if method != "DELETE" if which == "end" else message.get("method") != "notifications/initialized":
            return False
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n ")
        await writer.drain()
        await asyncio.Event().wait()
        return True

    async def work() -> None:
        async with by_hand(talkative) as made:
            async with bridged(tmp_path, {"far": _server(made, False)}) as (runtime, _):
                assert (await runtime.call("mcp:far:look")).output == "seen"
                leaving = asyncio.get_running_loop().time()
            assert asyncio.get_running_loop().time() - leaving < 2

    run(work())


@pytest.mark.parametrize("stopping", [False, True])
def test_a_call_that_is_over_or_being_stopped_is_not_sent(stopping: bool) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look"}}

    async def sent(during: Context) -> list[str]:
        async with by_hand(_as_usual) as made:
            reached = http_transport.HttpTransport(Runtime(), "far", _server(made, False), None, lambda waiting: None)
            async with reached._client({}, None) as client:  # pyright: ignore[reportPrivateUsage]
                for message in (call, {**call, "method": "tools/list"}):
                    await asyncio.create_task(client.post(made.base, json=message), context=during)
            return [message["method"] for message in made.seen]

    async def work() -> None:
        with ActiveCalls().begin(cast("RunContext", SimpleNamespace(cancelled=stopping))):
            during = copy_context()
            if stopping:
                assert await sent(during) == ["tools/list"]
        assert await sent(during) == ["tools/list"]

    run(work())


def test_a_message_that_an_sse_server_refuses_ends_the_connection_with_that_reason(tmp_path: Path) -> None:
    async def closed(made: ByHand, method: str, message: Message, writer: asyncio.StreamWriter) -> bool:
        if message.get("method") != "tools/call":
            return False
        await reply(writer, 500)
        return True

    async def work() -> None:
        async with by_hand(closed, sse=True) as made, bridged(tmp_path, {"far": _server(made, True)}) as (runtime, far):
            result = await runtime.call("mcp:far:look")
            assert "HTTP status 500" in result.text and "did not respond" in result.text
            await until(lambda: made.opened == 2 and far.status()[0].state == "ready")

    run(work())


def test_an_sse_call_that_is_not_answered_holds_up_no_other(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def slow(made: ByHand, method: str, message: Message, writer: asyncio.StreamWriter) -> bool:
        if message.get("params", {}).get("arguments") == {"wait": True}:
            held.set()
            await asyncio.Event().wait()
        return False

    async def work() -> None:
        async with by_hand(slow, sse=True) as made, bridged(tmp_path, {"far": _server(made, True)}) as (runtime, _):
            waiting = asyncio.create_task(runtime.call("mcp:far:look", {"wait": True}))
            await held.wait()
            assert (await runtime.call("mcp:far:look")).output == "seen"
            waiting.cancel()

    run(work())


@pytest.mark.parametrize("sse", [False, True])
def test_an_event_may_be_as_long_as_any_answer_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sse: bool
) -> None:
    monkeypatch.setattr(http_transport, "MAX_ANSWER", 3_000_000)

    async def work() -> None:
        async with by_hand(_as_usual, sse=sse) as made, bridged(tmp_path, {"far": _server(made, sse)}) as (_, bridge):
            await until(lambda: made.opened == 1)
            ping = {"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"x": "x" * 2_000_000}}
            await made.event(json.dumps(ping))
            await until(lambda: any(message.get("id") == 5 and "result" in message for message in made.seen))
            assert bridge.status()[0].state == "ready"
            if sse:
                await made.event("x" * 3_000_001)
                await until(lambda: bridge.status()[0].state == "away")
                assert "3000000 byte" in bridge.status()[0].reason

    run(work())


def test_messages_are_not_sent_to_another_origin(tmp_path: Path) -> None:
    async def elsewhere(made: ByHand, method: str, message: Message, writer: asyncio.StreamWriter) -> bool:
        if method != "GET":
            return False
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        writer.write(head + b"event: endpoint\ndata: http://127.0.0.1:9/messages\n\n")
        await writer.drain()
        await asyncio.Event().wait()
        return True

    async def work() -> None:
        async with by_hand(elsewhere, sse=True) as made, bridged(tmp_path, {"far": _server(made, True)}) as (_, bridge):
            assert "another origin" in bridge.status()[0].reason

    run(work())


@pytest.mark.parametrize("location", ["/y", "http://127.0.0.1:9/y"])
def test_a_redirect_is_followed_within_the_origin_only(tmp_path: Path, location: str) -> None:
    redirected: list[str] = []

    async def moved(made: ByHand, method: str, message: Message, writer: asyncio.StreamWriter) -> bool:
        if redirected.count(method):
            return False
        redirected.append(method)
        await reply(writer, 307, headers=f"location: {location}\r\n")
        return True

    async def work() -> None:
        async with by_hand(moved, sse=True) as made, bridged(tmp_path, {"far": _server(made, True)}) as (_, bridge):
            assert (bridge.status()[0].state == "ready") is (location == "/y")
            assert ("POST" in redirected) is (location == "/y")

    run(work())
