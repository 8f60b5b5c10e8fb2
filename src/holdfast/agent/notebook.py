"""The typed results of a conversation's calls: those this process saw, and those the ledger still has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from holdfast.contract.errors import HoldfastError
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.runtime.runtime import Runtime

_LOOKED_AT: Final = 100
"""Calls of the ledger, from the newest: a turn is far shorter."""

_KEPT: Final = 100
"""Replies whose results are kept."""

Kept = dict[str, tuple[str, Result]]
"""By the id of a use: the tool it names, and what came of it."""


class Notebook:
    """Results by reply. Replies are counted from 0, as slots count them."""

    def __init__(self, runtime: Runtime, conversation: str) -> None:
        self._runtime = runtime
        self._prefix = f"{conversation}:"
        self._replies: dict[int, Kept] | None = None

    def note(self, reply: int, use: ToolUse, result: Result) -> None:
        replies = self._read()
        replies.setdefault(reply, {})[use.id] = (use.name, result)
        if len(replies) > _KEPT:
            del replies[min(replies)]

    def results(self, replies: Sequence[Sequence[ToolResult]]) -> list[dict[str, Result]]:
        """For what was told about the calls of each of these replies, oldest first, the typed results by their ids.

        Replies are matched from the last one back, by ids and by what was told: ids alone come again and again.
        """
        kept = self._read()
        numbers = sorted(kept, reverse=True)
        found: list[dict[str, Result]] = []
        for told in reversed(replies):
            matching: dict[str, Result] = {}
            for place, number in enumerate(numbers):
                matching = _matching(kept[number], told)
                if matching:
                    numbers = numbers[place + 1 :]
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
        for record in self._runtime.ledger.calls(limit=_LOOKED_AT) if self._runtime.ledger is not None else ():
            call, result = record.call, record.result
            request, given = call.request or "", call.given_id
            number = request.removeprefix(self._prefix)
            if result is not None and given is not None and number != request and number.isdecimal():
                replies.setdefault(int(number), {}).setdefault(given, (call.name_used, result))


def _matching(kept: Kept, told: Sequence[ToolResult]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for each in told:
        name, result = kept.get(each.id, ("", None))
        if result is not None and name == each.name and result.text.strip() == each.output.strip():
            found[each.id] = result
    return found
