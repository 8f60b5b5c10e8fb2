"""Closing or cancelling a stream closes the connection at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.models.port import ModelEvent, Settings
from tests.models.exchanges import HELLO, TOOLS, run
from tests.models.servers.apis import APIS, Api
from tests.models.servers.http import Answer, Server, serving
from tests.models.servers.script import Say, Script

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
LONG = Script((Say("This is a sentence that comes in many pieces and is never finished."),))


async def _hear(api: Api, server: Server, heard: list[ModelEvent]) -> None:
    async for event in api.open(server).stream(HELLO, TOOLS, Settings()):
        heard.append(event)


@EACH
@pytest.mark.parametrize("begun", [0, 5])
@pytest.mark.spec("M1")
def test_cancelling_the_task_closes_the_connection(api: Api, begun: int) -> None:
    async def ask() -> int:
        async with serving(Answer(api.events(LONG)[:begun], then="stall")) as server:
            heard: list[ModelEvent] = []
            task = asyncio.create_task(_hear(api, server, heard))
            await server.sent.wait()
            assert not server.left.is_set()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(server.left.wait(), 30)
            return len(server.asked)

    assert run(ask()) == 1


@EACH
@pytest.mark.spec("M1")
def test_closing_the_stream_closes_the_connection(api: Api) -> None:
    async def ask() -> Any:
        async with serving(Answer(api.events(LONG)[:6], then="stall")) as server:
            stream = api.open(server).stream(HELLO, TOOLS, Settings())
            first = await anext(stream)
            await stream.aclose()
            await asyncio.wait_for(server.left.wait(), 30)
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            return first

    assert run(ask()) is not None


@EACH
@pytest.mark.spec("M1")
def test_a_complete_reply_leaves_no_connection_open(api: Api) -> None:
    async def ask() -> None:
        async with serving(Answer(api.events(LONG))) as server:
            await _hear(api, server, [])
            await asyncio.wait_for(server.done.wait(), 30)

    run(ask())
