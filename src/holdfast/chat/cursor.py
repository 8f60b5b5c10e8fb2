"""Where a cursor goes in a document, as a line and a column, both from 1."""

from __future__ import annotations

from typing import Literal, NamedTuple

from holdfast.agent.conversation import Status
from holdfast.chat.document import Document
from holdfast.chat.turns import YOU, Answer, Turn, last_turn, starts, turn


class Position(NamedTuple):
    line: int
    column: int


def first_pending(document: Document) -> Position | None:
    """The first placeholder of the last reply's calls that waits for a person and is still empty."""
    last = last_turn(document)
    waiting = [
        asked.answer
        for asked in (last.asked if last else ())
        if asked.answer is not None
        and asked.answer.status is Status.PENDING
        and not asked.answer.node.content.strip()
    ]
    return min((_at(document, answer) for answer in waiting), default=None)


def after_result(
    document: Document,
    number: int,
    use_id: str,
    mode: Literal["result", "stay", "next"],
    now: Position,
) -> Position:
    """Where to go when call `use_id` of turn `number` got its result: to it, nowhere, or where a person writes next."""
    replies = starts(document)
    if mode == "stay" or number >= len(replies):
        return now
    found = turn(document, replies, number)
    if mode == "next":
        return _next_words(document, found)
    answers = (asked.answer for asked in found.asked if asked.use.id == use_id)
    answer = next(answers, None)
    return now if answer is None else _at(document, answer)


def _next_words(document: Document, found: Turn) -> Position:
    """Below the next `@You:` after the results, else at the end of the document."""
    for index in range(found.message + 2, len(document.messages)):
        if document.messages[index].role == YOU:
            return Position(document.line(document.offset(index)) + 1, 1)
    last = document.text.rfind("\n") + 1
    return Position(document.line(len(document)), len(document.text) - last + 1)


def _at(document: Document, answer: Answer) -> Position:
    return Position(document.line(answer.start), 1)
