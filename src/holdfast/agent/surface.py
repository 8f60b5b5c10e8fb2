"""Which tools a request holds where there are very many: those that come with holdfast, and what was searched for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.slot_state import DENIED, without_change_note
from holdfast.contract.enums import Failure
from holdfast.contract.errors import HoldfastError
from holdfast.contract.message import Message, Part, ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import OUTPUT_READ, TOOL_SEARCH
from holdfast.rules.policy import ToolMatcher
from holdfast.runtime.runtime import Runtime


class Surface(Struct, frozen=True):
    """A name, and the tools it leaves: names, patterns and groups, as in the configuration."""

    name: str
    tools: tuple[str, ...]
    reads_only: bool = False
    """Of those tools, only the ones that leave everything as it is."""

    def select(self, tools: Iterable[Tool]) -> list[Tool]:
        names = ToolMatcher(self.tools)
        return [tool for tool in tools if names.match(tool) is not None and not (self.reads_only and tool.mutates)]


RETRIEVAL_FIRST: Final = Surface("retrieval-first", ("group:fs", OUTPUT_READ), reads_only=True)
GIT_READ_ONLY: Final = Surface("git-read-only", ("group:git", OUTPUT_READ), reads_only=True)
MUTATION_ENABLED: Final = Surface("mutation-enabled", ("group:fs", OUTPUT_READ))
ANSWER_ONLY: Final = Surface("answer-only", ())


_RESTORED: Final = 200
"""Calls of this conversation that are looked up in the ledger, from the newest: a turn is far shorter."""
MAX_SEARCHES: Final = 100
"""Calls that are kept, and looked up, where only those of one tool are wanted: they may be long ago."""
_KEPT: Final = 100
"""Replies whose results are kept."""

Kept = dict[str, tuple[str, Result]]
"""By the id of a use: the tool it names, and what came of it."""


class ResultHistory:
    """Results by reply, those noted last at the end. How replies are counted is not relied on: people move them."""

    def __init__(self, runtime: Runtime, conversation: str, only: str | None = None) -> None:
        """`only`: the one tool whose results are kept."""
        self._runtime = runtime
        self._prefix = f"{conversation}:"
        self._only = only
        self._replies: dict[int, Kept] | None = None

    def note(self, reply: int, use: ToolUse, result: Result) -> None:
        if self._only not in (None, use.name):
            return
        replies = self._read()
        _keep(replies, reply, use.id, (use.name, result))
        self._forget(replies)

    def results(self, replies: Sequence[Sequence[ToolResult]]) -> list[dict[str, Result]]:
        """For what was told about the calls of each of these replies, oldest first, the typed results by their ids.

        Replies are matched from the last one back, by ids and by what was told: ids alone come again and again.
        """
        left = list(self._read().values())[::-1]
        found: list[dict[str, Result]] = []
        for told in reversed(replies):
            matching: dict[str, Result] = {}
            for place, kept in enumerate(left if told else ()):
                matching = _matching(kept, told)
                if matching:
                    left = left[place + 1 :]
                    break
            found.append(matching)
        return found[::-1]

    def _read(self) -> dict[int, Kept]:
        if self._replies is None:
            self._replies = {}
            with suppress(HoldfastError):
                self._restore(self._replies)
        return self._replies

    def _restore(self, replies: dict[int, Kept]) -> None:
        ledger = self._runtime.ledger
        limit = _RESTORED if self._only is None else MAX_SEARCHES + 1
        records = [] if ledger is None else ledger.calls_for(self._prefix, limit, self._only)
        for record in reversed(records):
            call, result = record.call, record.result
            number = (call.request or "").removeprefix(self._prefix)
            if result is not None and call.given_id is not None and number.isdecimal():
                _keep(replies, int(number), call.given_id, (call.name_used, result))
        self._forget(replies)

    def _forget(self, replies: dict[int, Kept]) -> None:
        """The oldest replies go. Of one tool's calls as many are kept as another process would find in the ledger."""
        if self._only is None:
            while len(replies) > _KEPT:
                del replies[next(iter(replies))]
            return
        while sum(map(len, replies.values())) > MAX_SEARCHES:
            del replies[next(iter(replies))]


def _keep(replies: dict[int, Kept], reply: int, use_id: str, result: tuple[str, Result]) -> None:
    replies[reply] = {**replies.pop(reply, {}), use_id: result}


def _matching(kept: Kept, told: Sequence[ToolResult]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for each in told:
        name, result = kept.get(each.id, ("", None))
        if result is not None and name == each.name and _is_told(result, each):
            found[each.id] = result
    return found


def _is_told(result: Result, told: ToolResult) -> bool:
    """Word for word, but for the note a call may have, and but for a denial, which is told in other words.

    What says nothing could be anybody's.
    """
    if told.error is result.success:
        return False
    if result.failure is Failure.DENIED_BY_POLICY:
        return told.output.startswith(DENIED)
    said = without_change_note(told.output).strip()
    return bool(said) and said == without_change_note(result.text).strip()


MAX_LOADED: Final = 64
"""Tools that stay loaded; the one that was loaded first goes first, and can be searched for again."""


class ToolCatalog:
    """The tools of one caller, and what follows from them."""

    def __init__(self, tools: Sequence[Tool], search: Tool | None) -> None:
        """`tools` by name; `search` finds the others where there are too many, if the caller may use it."""
        self.tools: Final = tuple(tools)
        self.search: Final = search
        self.fixed: Final = sorted(
            (tool for tool in (*tools, search) if tool is not None and tool.source == "builtin"), key=attrgetter("name")
        )
        self._named = {name: tool for tool in tools for name in (*tool.names, tool.api_name)}

    def find(self, name: str) -> Tool | None:
        return self._named.get(name)


class ToolLoader:
    """Everything follows from the conversation and the ledger, so that another process sends the same list."""

    def __init__(self, searches: ResultHistory, threshold: int) -> None:
        self._searches = searches
        self._threshold = threshold

    def tools_to_send(self, crowd: ToolCatalog, messages: Sequence[Message]) -> list[Tool]:
        """What of this is sent: the fixed ones by name, then the loaded ones in the order they were loaded in.

        A caller that may not use `tool.search` could not find anything, and is sent everything.
        """
        if crowd.search is None or len(crowd.tools) <= self._threshold:
            return list(crowd.tools)
        return [*crowd.fixed, *self._loaded(crowd, messages)]

    def _loaded(self, crowd: ToolCatalog, messages: Sequence[Message]) -> list[Tool]:
        loaded: dict[str, Tool] = {}
        for name in self._named(messages):
            tool = crowd.find(name)
            if tool is not None and tool.source != "builtin":
                loaded.setdefault(tool.name, tool)
                if len(loaded) > MAX_LOADED:
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


def with_registered_names(parts: Sequence[Part], crowd: ToolCatalog) -> tuple[Part, ...]:
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
