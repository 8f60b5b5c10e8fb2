"""Typed results of earlier calls, matched to the results in the conversation by reply and text."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from holdfast.agent.slot_state import DENIED, without_change_note
from holdfast.contract.enums import Failure
from holdfast.contract.errors import HoldfastError
from holdfast.contract.message import ToolResult, ToolUse
from holdfast.contract.result import Result
from holdfast.runtime.runtime import Runtime

_RESTORED_CALLS: Final = 200
"""Newest calls of this conversation to restore from the ledger: a turn is far shorter."""
MAX_SEARCHES: Final = 100
"""Calls to keep, and to restore, in the history of a single tool: they may be long ago."""
_KEPT_REPLIES: Final = 100

ReplyResults = dict[str, tuple[str, Result]]
"""Tool name and result by tool use id."""


class ResultHistory:
    """Results by reply, the most recently noted last. Reply numbers are not relied on: people move replies."""

    def __init__(self, runtime: Runtime, conversation: str, only: str | None = None) -> None:
        """With `only`, keep the results of this tool."""
        self._runtime = runtime
        self._prefix = f"{conversation}:"
        self._only = only
        self._replies: dict[int, ReplyResults] | None = None

    def note(self, reply: int, use: ToolUse, result: Result) -> None:
        if self._only not in (None, use.name):
            return
        replies = self._load()
        _add(replies, reply, use.id, (use.name, result))
        self._evict(replies)

    def results(self, replies: Sequence[Sequence[ToolResult]]) -> list[dict[str, Result]]:
        """For each reply's tool results, oldest reply first, the typed results by id.

        Replies are matched from the last to the first, by id and by text: models reuse ids.
        """
        left = list(self._load().values())[::-1]
        found: list[dict[str, Result]] = []
        for sent in reversed(replies):
            matching: dict[str, Result] = {}
            for index, kept in enumerate(left if sent else ()):
                matching = _matching(kept, sent)
                if matching:
                    left = left[index + 1 :]
                    break
            found.append(matching)
        return found[::-1]

    def _load(self) -> dict[int, ReplyResults]:
        if self._replies is None:
            self._replies = {}
            with suppress(HoldfastError):
                self._restore(self._replies)
        return self._replies

    def _restore(self, replies: dict[int, ReplyResults]) -> None:
        ledger = self._runtime.ledger
        limit = _RESTORED_CALLS if self._only is None else MAX_SEARCHES + 1
        records = [] if ledger is None else ledger.calls_for(self._prefix, limit, self._only)
        for record in reversed(records):
            call, result = record.call, record.result
            number = (call.request or "").removeprefix(self._prefix)
            if result is not None and call.given_id is not None and number.isdecimal():
                _add(replies, int(number), call.given_id, (call.name_used, result))
        self._evict(replies)

    def _evict(self, replies: dict[int, ReplyResults]) -> None:
        """Drop the oldest replies. A single-tool history keeps as many calls as another process would restore."""
        if self._only is None:
            while len(replies) > _KEPT_REPLIES:
                del replies[next(iter(replies))]
            return
        while sum(map(len, replies.values())) > MAX_SEARCHES:
            del replies[next(iter(replies))]


def _add(replies: dict[int, ReplyResults], reply: int, use_id: str, result: tuple[str, Result]) -> None:
    replies[reply] = {**replies.pop(reply, {}), use_id: result}


def _matching(kept: ReplyResults, sent: Sequence[ToolResult]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for each in sent:
        name, result = kept.get(each.id, ("", None))
        if result is not None and name == each.name and _is_sent_as(result, each):
            found[each.id] = result
    return found


def _is_sent_as(result: Result, sent: ToolResult) -> bool:
    """Whether the texts are equal, apart from a change note and the wording of a denial. Empty text matches nothing."""
    if sent.error is result.success:
        return False
    if result.failure is Failure.DENIED_BY_POLICY:
        return sent.output.startswith(DENIED)
    text = without_change_note(sent.output).strip()
    return bool(text) and text == without_change_note(result.text).strip()
