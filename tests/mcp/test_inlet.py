"""The streams of a transport, watched."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, JSONRPCResponse

from holdfast.mcp.inlet import MAX_UNANSWERED, watched
from tests.runtime.support import run

pytestmark = pytest.mark.spec("K1")


@asynccontextmanager
async def _transport(messages: list[Any]) -> AsyncGenerator[tuple[Any, Any]]:
    send, receive = anyio.create_memory_object_stream[SessionMessage](len(messages))
    out, taken = anyio.create_memory_object_stream[SessionMessage](1)
    for message in messages:
        send.send_nowait(SessionMessage(message))
    send.close()
    try:
        yield receive, out
    finally:
        for stream in (receive, out, taken):
            stream.close()


def _through(*messages: Any) -> tuple[list[Any], list[str]]:
    lost: list[str] = []

    async def work() -> list[Any]:
        async with watched(_transport(list(messages)), lost.append) as (read, _):
            return [item.message async for item in read]

    return run(work()), lost


def test_an_answer_that_does_not_say_so_is_complete() -> None:
    got, _ = _through(
        JSONRPCResponse(jsonrpc="2.0", id=1, result={"content": []}),
        JSONRPCResponse(jsonrpc="2.0", id=2, result={"resultType": "input_required"}),
    )
    assert [message.result["resultType"] for message in got] == ["complete", "input_required"]


def test_the_end_is_told_once_it_is_seen() -> None:
    assert _through() == ([], [""])


def test_a_server_that_asks_and_takes_no_answer_is_given_up() -> None:
    asked = [JSONRPCRequest(jsonrpc="2.0", id=number, method="ping") for number in range(MAX_UNANSWERED + 1)]
    got, [reason, *_] = _through(*asked)
    assert len(got) == MAX_UNANSWERED and "took no answer" in reason
