"""Short ways to send requests to the operator and to read its replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.operator.operator import Operator
from holdfast.models.port import ModelEvent, PartEnded, ReplyEnded, Settings
from holdfast.tools import builtin_tools

TOOLS: tuple[Tool, ...] = tuple(sorted(builtin_tools(), key=lambda tool: tool.name))


def you(text: str) -> Message:
    return Message("user", (Text(text),))


async def collect(messages: Sequence[Message], tools: Sequence[Tool] = TOOLS) -> list[ModelEvent]:
    return [event async for event in Operator().stream(messages, tools, Settings())]


def events(messages: Sequence[Message], tools: Sequence[Tool] = TOOLS) -> list[ModelEvent]:
    return asyncio.run(collect(messages, tools))


def message_of(told: Sequence[ModelEvent]) -> Message:
    return Message("assistant", tuple(event.part for event in told if isinstance(event, PartEnded)))


def reply(messages: Sequence[Message], tools: Sequence[Tool] = TOOLS) -> Message:
    return message_of(events(messages, tools))


def ending(messages: Sequence[Message]) -> ReplyEnded:
    last = events(messages)[-1]
    assert isinstance(last, ReplyEnded)
    return last


def results(asked: Message, *outputs: str | Part, error: bool = False) -> Message:
    """The results of a reply's calls, in order."""
    parts = [
        ToolResult(use.id, use.name, output, error) if isinstance(output, str) else output
        for use, output in zip(asked.tool_uses, outputs, strict=True)
    ]
    return Message("user", tuple(parts))


def arguments(use: ToolUse) -> dict[str, Any]:
    """The arguments that are not null."""
    given = cast(dict[str, Any], json.loads(use.arguments))
    return {name: value for name, value in given.items() if value is not None}


def calls(message: Message) -> list[tuple[str, dict[str, Any]]]:
    return [(use.name, arguments(use)) for use in message.tool_uses]


def played(text: str, output: str = "done") -> list[list[tuple[str, dict[str, Any]]]]:
    """All steps of a request, with every call succeeding."""
    conversation = [you(text)]
    steps: list[list[tuple[str, dict[str, Any]]]] = []
    while (answer := reply(conversation)).tool_uses:
        steps.append(calls(answer))
        conversation += [answer, results(answer, *(output for _ in answer.tool_uses))]
        assert len(steps) <= 60
    return steps
