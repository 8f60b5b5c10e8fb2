"""What surrounds a pending call: why a person is asked, what was decided before, who said what, and nested calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from markupsafe import Markup
from msgspec import Struct

from holdfast.chat.document import Document
from holdfast.chat.parser import TextSegment, ToolUseSegment
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, LedgerError
from holdfast.rules.shapes import shape_of
from holdfast.serve.inbox import call_address, redactor_of
from holdfast.serve.projects import ServedProject
from holdfast.serve.proposal_view import decision_html
from holdfast.serve.text_view import block_html, fold_html

COMPARED: Final = 200
"""The number of newest calls of a tool that are compared with this one."""
_MAX_DOCUMENT: Final = 8 * 1024 * 1024
_MAX_ANCESTORS: Final = 16
_WORDS: Final = {"approve": "approved", "reject": "rejected", "respond": "answered in the tool's place"}


class CallContext(Struct, frozen=True, kw_only=True):
    """What a card shows around the proposal."""

    decision: Markup
    """Why a person is asked, with every rule that took part."""
    before: str
    """What was decided about calls of the same shape."""
    words: Sequence[Markup]
    """The last words of the person and of the model before the call, in its document."""
    ancestors: Sequence[str]
    """The calls that it is part of, outermost first."""
    siblings: Sequence[tuple[str, str]]
    """Address and preview of other pending calls of the same outermost call."""

    @classmethod
    async def of(cls, project: ServedProject, pending: PendingCall) -> CallContext:
        decision = await _decision(project, pending)
        before = await asyncio.to_thread(decided_before, project, pending)
        words = await asyncio.to_thread(words_around, pending)
        redactor = redactor_of(project)
        return cls(
            decision=decision,
            before=before,
            words=[_shown(who, redactor(text)) for who, text in words],
            ancestors=_ancestors(project, pending),
            siblings=_siblings(project, pending),
        )


async def _decision(project: ServedProject, pending: PendingCall) -> Markup:
    call = pending.call
    if call.caller.document is not None:
        return decision_html(pending.decision)  # the rules are those of its document
    try:
        runtime = await project.runtime()
        explained = await runtime.explain(call.tool, call.args, caller=call.caller)
    except HoldfastError:
        return decision_html(pending.decision)
    same = explained.decision.verdict is pending.decision.verdict
    return decision_html(pending.decision, explained if same else None)


def decided_before(project: ServedProject, pending: PendingCall) -> str:
    """What people decided about the newest calls of this shape: `12 × approved, 1 × rejected, last by cli:ann`."""
    shape = shape_of(pending)
    counts: Counter[str] = Counter()
    last = ""
    for asked in project.ledger.asked_calls(pending.call.tool, COMPARED):
        if asked.call.id == pending.call.id or shape_of(asked) != shape:
            continue
        try:
            record = project.ledger.call(asked.call.id)
        except LedgerError:
            continue
        given = next((given.answer for given in reversed(record.answers) if given.answer.kind in _WORDS), None)
        if given is not None:
            counts[_WORDS[given.kind]] += 1
            last = last or given.by
        elif record.state is State.EXPIRED:
            counts["expired"] += 1
    if not counts:
        return "Nothing like it was decided before."
    said = ", ".join(f"{count} × {word}" for word, count in counts.most_common())
    return f"{said}, last by {last}" if last else said


def words_around(pending: PendingCall) -> list[tuple[str, str]]:
    """The last text of the person and the model's text before a call of a document; nothing for other calls."""
    path = pending.call.caller.document
    if path is None:
        return []
    try:
        if Path(path).stat().st_size > _MAX_DOCUMENT:
            return []
        document = Document.parse(Path(path).read_text("utf-8", "replace"))
    except OSError:
        return []
    asked = model = ""
    found: list[tuple[str, str]] = []
    for message in document.messages:
        if message.role == "Assistant":
            model = ""
        for segment in message.segments:
            match segment:
                case TextSegment(text=text) if text.strip():
                    if message.role == "You":
                        asked = text
                    elif message.role == "Assistant":
                        model = text
                case ToolUseSegment(id=given) if given == pending.call.given_id:
                    found = [("You said", asked), ("The model said", model)]
                case _:
                    pass
    return [(who, text.strip("\n")) for who, text in found if text]


def _shown(who: str, text: str) -> Markup:
    return fold_html(who, text, block_html(text))


def _ancestors(project: ServedProject, pending: PendingCall) -> list[str]:
    names: list[str] = []
    parent = pending.call.parent
    while parent is not None and len(names) < _MAX_ANCESTORS:
        try:
            record = project.ledger.call(parent)
        except HoldfastError:
            break
        names.append(record.preview or record.call.tool)
        parent = record.call.parent
    return names[::-1]


def _siblings(project: ServedProject, pending: PendingCall) -> list[tuple[str, str]]:
    call = pending.call
    if not call.group or call.parent is None:
        return []
    return [
        (call_address(project.key, other.call.id), other.preview)
        for other in project.ledger.pending()
        if other.call.group == call.group and other.call.id != call.id and other.state is State.PENDING
    ]
