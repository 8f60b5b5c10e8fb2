"""The tools that a model sees: surfaces, and tool search where there are too many tools for one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.result_history import ResultHistory
from holdfast.contract.message import Message, Part, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import OUTPUT_READ, TOOL_SEARCH
from holdfast.rules.policy import ToolMatcher


class Surface(Struct, frozen=True):
    """A named selection of tools: names, patterns and groups, as in the configuration."""

    name: str
    tools: tuple[str, ...]
    reads_only: bool = False
    """Exclude mutating tools."""

    def select(self, tools: Iterable[Tool]) -> list[Tool]:
        names = ToolMatcher(self.tools)
        return [tool for tool in tools if names.match(tool) is not None and not (self.reads_only and tool.mutates)]


RETRIEVAL_FIRST: Final = Surface("retrieval-first", ("group:fs", OUTPUT_READ), reads_only=True)
GIT_READ_ONLY: Final = Surface("git-read-only", ("group:git", OUTPUT_READ), reads_only=True)
MUTATION_ENABLED: Final = Surface("mutation-enabled", ("group:fs", OUTPUT_READ))
ANSWER_ONLY: Final = Surface("answer-only", ())

MAX_LOADED: Final = 64
"""Found tools that stay loaded. The oldest is evicted first, and can be searched for again."""


class ToolCatalog:
    """The tools of one caller, by every name."""

    def __init__(self, tools: Sequence[Tool], search: Tool | None) -> None:
        """`tools` sorted by name; `search` is `tool.search`, if the caller may use it."""
        self.tools: Final = tuple(tools)
        self.search: Final = search
        self.built_in: Final = sorted(
            (tool for tool in (*tools, search) if tool is not None and tool.source == "builtin"), key=attrgetter("name")
        )
        self._by_name = {name: tool for tool in tools for name in (*tool.names, tool.api_name)}

    def find(self, name: str) -> Tool | None:
        return self._by_name.get(name)


class ToolLoader:
    """Chooses the tools of a request from the conversation and the ledger alone, so another process sends the same."""

    def __init__(self, searches: ResultHistory, threshold: int) -> None:
        self._searches = searches
        self._threshold = threshold

    def tools_to_send(self, catalog: ToolCatalog, messages: Sequence[Message]) -> list[Tool]:
        """The built-in tools by name, then the loaded ones in the order they were loaded.

        A caller that may not use `tool.search` could not find the others, and gets every tool.
        """
        if catalog.search is None or len(catalog.tools) <= self._threshold:
            return list(catalog.tools)
        return [*catalog.built_in, *self._loaded(catalog, messages)]

    def _loaded(self, catalog: ToolCatalog, messages: Sequence[Message]) -> list[Tool]:
        loaded: dict[str, Tool] = {}
        for name in self._names(messages):
            tool = catalog.find(name)
            if tool is not None and tool.source != "builtin":
                loaded.setdefault(tool.name, tool)
                if len(loaded) > MAX_LOADED:
                    del loaded[next(iter(loaded))]
        return list(loaded.values())

    def _names(self, messages: Sequence[Message]) -> Iterator[str]:
        """The tools that were called or found, in order."""
        replies = [
            (message.tool_uses, _search_results(messages[index + 1 : index + 2]))
            for index, message in enumerate(messages)
            if message.role == "assistant"
        ]
        searches = [results for _, results in replies]
        typed = self._searches.results(searches) if any(searches) else [dict[str, Result]() for _ in searches]
        for (uses, _), results in zip(replies, typed, strict=True):
            for use in uses:
                yield use.name
                yield from _found_names(results.get(use.id))


def with_registered_names(parts: Sequence[Part], catalog: ToolCatalog) -> tuple[Part, ...]:
    """The parts with API names of tools replaced: a model knows those of unsent tools from a search."""
    return tuple(
        replace(part, name=tool.name)
        if isinstance(part, ToolUse) and (tool := catalog.find(part.name)) is not None and tool.api_name == part.name
        else part
        for part in parts
    )


def _search_results(after: Sequence[Message]) -> list[ToolResult]:
    parts = after[0].parts if after else ()
    return [part for part in parts if isinstance(part, ToolResult) and part.name == TOOL_SEARCH]


def _found_names(result: Result | None) -> Iterator[str]:
    if result is None or not result.success or not isinstance(result.structured, Mapping):
        return
    matches: Any = result.structured.get("matches")
    for match in cast(list[Any], matches) if isinstance(matches, list) else ():
        name: Any = cast(dict[str, Any], match).get("name") if isinstance(match, dict) else None
        if isinstance(name, str):
            yield name
