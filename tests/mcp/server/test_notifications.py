"""Progress and log messages reach the client that asked for the call, in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from holdfast.contract.tool import Tool
from tests.mcp.server.served_runtime import ERAS, Era, running, served

pytestmark = [pytest.mark.spec("K3a"), pytest.mark.parametrize("era", ERAS)]


def run(work: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


def empty(name: str) -> Tool:
    def execute(_: object) -> str:
        return ""

    return Tool(name=name, execute=execute, effects=frozenset())


def test_progress_only_grows_and_output_is_logged_before_the_answer(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        told: list[tuple[float, str | None]] = []
        logged: list[types.LoggingMessageNotificationParams] = []

        async def told_of(progress: float, total: float | None, message: str | None) -> None:
            assert total is None or total >= progress
            told.append((progress, message))

        async def log(params: types.LoggingMessageNotificationParams) -> None:
            logged.append(params)

        async with running(tmp_path) as runtime, served(runtime, era, logging_callback=log) as client:
            wanted: Any = {} if era == "legacy" else {"io.modelcontextprotocol/logLevel": "info"}
            await client.call_tool("tell", {}, progress_callback=told_of, meta=wanted)
            assert [message for _, message in told] == ["begun", "half", "still at half", "done"]
            numbers = [number for number, _ in told]
            assert numbers == sorted(set(numbers)) and numbers[-1] == 10
            assert [(item.level, item.logger, item.data) for item in logged] == [("info", "tell", "some output")]

    run(body())


def test_nothing_is_logged_to_a_client_that_does_not_want_it(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        logged: list[object] = []

        async def log(params: types.LoggingMessageNotificationParams) -> None:
            logged.append(params)

        async with running(tmp_path) as runtime, served(runtime, era, logging_callback=log) as client:
            if era == "legacy":
                request = types.SetLevelRequest(params=types.SetLevelRequestParams(level="error"))
                await client.session.send_request(request, types.EmptyResult)
            await client.call_tool("tell", {})
            assert logged == []

    run(body())
