"""The typed results of a conversation's calls: those this process saw, and those the ledger still has."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from holdfast.agent.standing import DENIED, own_output
from holdfast.contract.errors import HoldfastError
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Failure
from holdfast.runtime.runtime import Runtime

_RESTORED: Final = 200
"""Calls of this conversation that are looked up in the ledger, from the newest: a turn is far shorter."""
SEARCHES: Final = 100
"""Calls that are kept, and looked up, where only those of one tool are wanted: they may be long ago."""
_KEPT: Final = 100
"""Replies whose results are kept."""

Kept = dict[str, tuple[str, Result]]
"""By the id of a use: the tool it names, and what came of it."""


class Notebook:
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
        limit = _RESTORED if self._only is None else SEARCHES + 1
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
        while sum(map(len, replies.values())) > SEARCHES:
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
    said = own_output(told.output).strip()
    return bool(said) and said == own_output(result.text).strip()
