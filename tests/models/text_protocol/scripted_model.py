"""A scripted model that records its requests, and the tools that have short forms."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from holdfast import Tool
from holdfast.contract.message import Message, Text
from holdfast.models.port import ModelEvent, PartEnded, ReplyEnded, Settings, StopReason, TextDelta, Usage

SPENT = Usage(input=100, output=10, cache_read=3, cost=Decimal("0.01"))


def _tool(name: str, description: str, required: str = "", optional: str = "") -> Tool:
    names = [*required.split(), *optional.split()]
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each: {"type": "string"} for each in names},
        "required": required.split(),
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, input_schema=schema)


SHORT_FORM_TOOLS = (
    _tool("code.search", "Search the project. More about it.", "query", "path"),
    _tool("file.edit", "Replace an exact piece of text.", "path search replace mode"),
    _tool("file.list", "List a folder.", "", "path"),
    _tool("file.read", "Read a file.", "path", "offset"),
    _tool("file.write", "Create a file.", "path content"),
    _tool("git.diff", "What is changed."),
    _tool("git.log", "The last commits."),
    _tool("git.status", "The branch and what is changed."),
)
SHELL = _tool("shell.exec", "Run a command.", "command", "cwd label")
TOOLS = (*SHORT_FORM_TOOLS, SHELL)


def written(
    text: str, *, stop: StopReason = "end", size: int = 5, usage: Usage = SPENT
) -> list[ModelEvent | Exception]:
    """A text reply in chunks."""
    deltas = (TextDelta(text[start : start + size]) for start in range(0, len(text), size))
    return [*deltas, PartEnded(Text(text)), ReplyEnded(stop, usage, "writer-1b")]


@dataclass
class Scripted:
    """Answers with each reply in turn, then repeats the last one."""

    replies: Sequence[Sequence[ModelEvent | Exception]]
    provider: str = "small"
    name: str = "small:writer"
    asked: list[tuple[Sequence[Message], Sequence[Tool], Settings]] = field(default_factory=list[Any])
    closed: int = 0

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        reply = self.replies[min(len(self.asked), len(self.replies) - 1)]
        self.asked.append((messages, tools, settings))
        try:
            for event in reply:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.closed += 1

    def last(self, place: int = -1) -> Message:
        """The last message of a request."""
        return self.asked[place][0][-1]
