"""Shared by the tests of models: a few tools, a conversation, and bounded ways to collect a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from holdfast import Tool
from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.models.port import Model, ModelError, ModelEvent, PartEnded, ReplyEnded, Settings
from tests.models.servers.apis import Api
from tests.models.servers.http import Answer, Asked, serving
from tests.models.servers.script import Say, Script

T = TypeVar("T")

READ = Tool(
    name="file.read",
    description="Read a file.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Read",
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "pattern": "^[^\\x00]*$"},
            "lines": {"$ref": "#/$defs/n"},
        },
        "required": ["path"],
        "additionalProperties": False,
        "$defs": {"n": {"anyOf": [{"type": "integer", "default": 5}, {"type": "null"}], "title": "Lines"}},
    },
)
RUN = Tool(name="shell.run", description="Run a command.", aliases=("bash",))
TOOLS = (READ, RUN)
HELLO = (Message("user", (Text("Hello"),)),)


def run(work: Coroutine[Any, Any, T], seconds: float = 20) -> T:
    async def bounded() -> T:
        return await asyncio.wait_for(work, seconds)

    return asyncio.run(bounded())


async def hear(
    model: Model, messages: Sequence[Message] = HELLO, tools: Sequence[Tool] = TOOLS, settings: Settings | None = None
) -> list[ModelEvent]:
    return [event async for event in model.stream(messages, tools, settings or Settings())]


def parts(events: Sequence[ModelEvent]) -> list[Part]:
    return [event.part for event in events if isinstance(event, PartEnded)]


def end(events: Sequence[ModelEvent]) -> ReplyEnded:
    assert isinstance(events[-1], ReplyEnded)
    return events[-1]


def sent(
    api: Api,
    messages: Sequence[Message] = HELLO,
    settings: Settings | None = None,
    tools: Sequence[Tool] = TOOLS,
    **changes: Any,
) -> Asked:
    """The request an API is sent, checked against its SDK's types."""

    async def ask() -> Asked:
        async with serving(Answer(api.events(Script((Say("ok"),))))) as server:
            await hear(api.open(server, **changes), messages, tools, settings)
            return server.asked[0]

    asked = run(ask())
    api.check(asked.json)
    return asked


def body(api: Api, messages: Sequence[Message] = HELLO, **given: Any) -> dict[str, Any]:
    return sent(api, messages, **given).json


def replied(api: Api, script: Script, **changes: Any) -> list[ModelEvent]:
    async def ask() -> list[ModelEvent]:
        async with serving(Answer(api.events(script))) as server:
            return await hear(api.open(server, **changes))

    return run(ask())


def fault(api: Api, *answers: Answer, settings: Settings | None = None) -> tuple[ModelError, list[ModelEvent]]:
    """The error of a request that these answers make fail, and the events before it."""
    heard: list[ModelEvent] = []

    async def ask() -> ModelError:
        async with serving(*answers) as server:
            try:
                async for event in api.open(server).stream(HELLO, TOOLS, settings or Settings(retries=0)):
                    heard.append(event)
            except ModelError as error:
                return error
        raise AssertionError(f"it did not fail: {heard}")

    return run(ask()), heard


def call(id: str, name: str = "file.read", arguments: str = '{"path": "a"}') -> Message:  # noqa: A002
    return Message("assistant", (ToolUse(id, name, arguments),))


def result(id: str, output: str = "fine", *, error: bool = False) -> Message:  # noqa: A002
    return Message("user", (ToolResult(id, "file.read", output, error),))
