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


class Crowd:
    """The tools of one caller, as long as nothing changes: what follows from them is worked out once."""

    def __init__(self, tools: Sequence[Tool], search: Tool | None) -> None:
        """`tools` by name; `search` finds the others where there are too many, if the caller may use it."""
        self.tools: Final = tuple(tools)
        self.search: Final = search
        self.fixed: Final = sorted(
            (tool for tool in (*tools, search) if tool is not None and tool.source == "builtin"),
            key=attrgetter("name"),
        )
        self._named = {name: tool for tool in tools for name in (*tool.names, tool.api_name)}

    def find(self, name: str) -> Tool | None:
        return self._named.get(name)


class Loading:
    """Everything follows from the conversation and the ledger, so that another process sends the same list."""

    def __init__(self, searches: Notebook, threshold: int) -> None:
        self._searches = searches
        self._threshold = threshold

    def of(self, crowd: Crowd, messages: Sequence[Message]) -> list[Tool]:
        """What of this is sent: the fixed ones by name, then the loaded ones in the order they were loaded in.

        A caller that may not use `tool.search` could not find anything, and is sent everything.
        """
        if crowd.search is None or len(crowd.tools) <= self._threshold:
            return list(crowd.tools)
        return [*crowd.fixed, *self._loaded(crowd, messages)]

    def _loaded(self, crowd: Crowd, messages: Sequence[Message]) -> list[Tool]:
        loaded: dict[str, Tool] = {}
        for name in self._named(messages):
            tool = crowd.find(name)
            if tool is not None and tool.source != "builtin":
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


def in_own_names(parts: Sequence[Part], crowd: Crowd) -> tuple[Part, ...]:
    """A reply in which tools that it was not sent, but knows from a search, are called what they are called here."""
    return tuple(
        replace(part, name=tool.name)
        if isinstance(part, ToolUse) and (tool := crowd.find(part.name)) is not None and tool.api_name == part.name
        else part
        for part in parts
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
