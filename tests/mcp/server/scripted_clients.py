"""The people behind a client in the tests: one who answers, nobody, and rounds that are made by hand."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from holdfast import Runtime
from tests.mcp.server.served_runtime import ERAS, Era, running, served

YES = types.ElicitResult(action="accept", content={"decision": "approve"})
BOTH = pytest.mark.parametrize("era", ERAS)


class Person:
    """Answers every question the same way and remembers what was asked."""

    def __init__(self, answer: types.ElicitResult = YES) -> None:
        self.answer = answer
        self.seen: list[str] = []

    async def __call__(self, _: object, params: Any) -> types.ElicitResult:
        self.seen.append(params.message)
        return self.answer


async def ask(client: Client, what: str = "all", **more: Any) -> types.CallToolResult | types.InputRequiredResult:
    """One round, by hand."""
    outcome = await client.session.call_tool("erase", {"what": what}, allow_input_required=True, **more)
    assert isinstance(outcome, types.CallToolResult | types.InputRequiredResult)
    return outcome


async def first_round(client: Client, what: str = "all") -> tuple[str, str]:
    """The key of the question and the sealed state."""
    asked = await ask(client, what)
    assert isinstance(asked, types.InputRequiredResult)
    assert asked.input_requests is not None and asked.request_state is not None
    (key,) = asked.input_requests
    return key, asked.request_state


@asynccontextmanager
async def at(folder: Path, era: Era, person: Any, **options: Any) -> AsyncGenerator[tuple[Runtime, Client]]:
    """A runtime over this folder and a client whose person answers like this."""
    async with running(folder, **options) as runtime, served(runtime, era, elicitation_callback=person) as client:
        yield runtime, client


async def nobody(*_: object) -> types.ElicitResult:
    raise AssertionError("nobody is asked by the client itself")
