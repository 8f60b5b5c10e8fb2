"""Which tools a request holds where there are very many: those that come with holdfast, and what was searched for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, cast

from msgspec.structs import replace

from holdfast.agent.notebook import Notebook
from holdfast.contract.finding import TOOL_SEARCH
from holdfast.contract.message import Message, Part, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool

MOST: Final = 64
"""Tools that stay loaded; the one that was loaded first goes first, and can be searched for again."""


class Loading:
    """Everything follows from the conversation, so that another process sends the same list."""

    def __init__(self, searches: Notebook, threshold: int) -> None:
        self._searches = searches
        self._threshold = threshold

    def of(self, visible: Sequence[Tool], messages: Sequence[Message]) -> list[Tool]:
        """What of this is sent: the fixed ones by name, then the loaded ones in the order they were loaded in.

        A caller that is not left `tool.search` could not find anything, and is sent everything.
        """
        tools = sorted(visible, key=attrgetter("name"))
        others = [tool for tool in tools if tool.name != TOOL_SEARCH]
        if len(others) == len(tools) or len(others) <= self._threshold:
            return others
        fixed = [tool for tool in tools if tool.source == "builtin"]
        return [*fixed, *self._loaded([tool for tool in others if tool.source != "builtin"], messages)]

    def _loaded(self, tools: Sequence[Tool], messages: Sequence[Message]) -> list[Tool]:
        known = {name: tool for tool in tools for name in (*tool.names, tool.api_name)}
        loaded: dict[str, Tool] = {}
        for name in self._named(messages):
            tool = known.get(name)
            if tool is not None:
                loaded.setdefault(tool.name, tool)
                if len(loaded) > MOST:
                    del loaded[next(iter(loaded))]
        return list(loaded.values())

    def _named(self, messages: Sequence[Message]) -> Iterator[str]:
        """The tools that were called or found, in that order."""
        replies = [
            (message.tool_uses, _searched(messages[place + 1 : place + 2]))
            for place, message in enumerate(messages)
            if message.role == "assistant"
        ]
        told = [searched for _, searched in replies]
        typed = self._searches.results(told) if any(told) else [dict[str, Result]() for _ in told]
        for (uses, _), results in zip(replies, typed, strict=True):
            for use in uses:
                yield use.name
                yield from _found(results.get(use.id))


def in_own_names(parts: Sequence[Part], visible: Sequence[Tool]) -> tuple[Part, ...]:
    """A reply in which tools that it was not sent, but knows from a search, are called what they are called here."""
    if not any(isinstance(part, ToolUse) for part in parts):
        return tuple(parts)
    names = {tool.api_name: tool.name for tool in visible}
    return tuple(
        replace(part, name=names.get(part.name, part.name)) if isinstance(part, ToolUse) else part for part in parts
    )


def _searched(after: Sequence[Message]) -> list[ToolResult]:
    parts = after[0].parts if after else ()
    return [part for part in parts if isinstance(part, ToolResult) and part.name == TOOL_SEARCH]


def _found(result: Result | None) -> Iterator[str]:
    if result is None or not result.success or not isinstance(result.structured, Mapping):
        return
    matches: Any = result.structured.get("matches")
    for match in cast(list[Any], matches) if isinstance(matches, list) else ():
        name: Any = cast(dict[str, Any], match).get("name") if isinstance(match, dict) else None
        if isinstance(name, str):
            yield name
