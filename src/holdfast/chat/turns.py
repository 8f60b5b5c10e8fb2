"""The turns of a document: a reply, the calls it asks for, and the results that stand after it.

A turn goes from one reply to the next. Ids are matched only inside it; the first call and the first result of an id
count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Status
from holdfast.chat.document import Document
from holdfast.chat.nodes import AbortedSegment, Message, Segment, TextSegment, ToolResultSegment, ToolUseSegment
from holdfast.contract.message import ToolUse

YOU: Final = "You"
ASSISTANT: Final = "Assistant"
SYSTEM: Final = "System"


class Answer(Struct, frozen=True):
    """A result block and where it is."""

    message: int
    start: int
    """Where it begins in the text."""
    node: ToolResultSegment

    @property
    def status(self) -> Status | None:
        """None for a result; for a placeholder what it says."""
        return None if self.node.status is None else Status(self.node.status)


class Asked(Struct, frozen=True):
    """A call, and what stands beside it."""

    use: ToolUse
    segment: int
    answer: Answer | None = None

    @property
    def is_open(self) -> bool:
        return self.answer is None or self.answer.status is not None


class Turn(Struct, frozen=True, kw_only=True):
    number: int
    message: int
    """Which message its reply is."""
    end: int
    """The first message that does not belong to it any more."""
    asked: tuple[Asked, ...]
    aborted: str | None = None


def starts(document: Document) -> list[int]:
    """Which messages are replies."""
    return [index for index, message in enumerate(document.messages) if message.role == ASSISTANT]


def turn(document: Document, replies: Sequence[int], number: int) -> Turn:
    first = replies[number]
    end = replies[number + 1] if number + 1 < len(replies) else len(document.messages)
    answers = _answers(document, first + 1, end)
    asked: dict[str, Asked] = {}
    reply = document.messages[first]
    for place, segment in enumerate(reply.segments):
        if isinstance(segment, ToolUseSegment) and segment.id not in asked:
            use = ToolUse(segment.id, segment.name, segment.body)
            asked[segment.id] = Asked(use, place, answers.get(segment.id))
    return Turn(number=number, message=first, end=end, asked=tuple(asked.values()), aborted=_aborted(reply))


def turns(document: Document) -> Iterator[Turn]:
    replies = starts(document)
    return (turn(document, replies, number) for number in range(len(replies)))


def last_turn(document: Document) -> Turn | None:
    replies = starts(document)
    return turn(document, replies, len(replies) - 1) if replies else None


def placed(document: Document, index: int) -> Iterator[tuple[int, Segment]]:
    """The segments of a message, each with where it begins in the text."""
    message = document.messages[index]
    at = document.offset(index) + len(message.marker)
    for segment in message.segments:
        yield at, segment
        at += len(segment.source)


def lines(document: Document, offsets: Iterable[int]) -> dict[int, int]:
    """The lines these places in the text are on, from 1, found in one go."""
    text = document.text
    found: dict[int, int] = {}
    at, line = 0, 1
    for offset in sorted(offsets):
        line += text.count("\n", at, offset)
        at = offset
        found[offset] = line
    return found


def words(document: Document, asked: Asked) -> str:
    """What stands in a placeholder, with plain line ends as a person means them."""
    content = asked.answer.node.content if asked.answer is not None and asked.is_open else ""
    return content.replace("\r\n", "\n") if document.newline == "\r\n" else content


def is_blank(message: Message) -> bool:
    return all(isinstance(segment, TextSegment) and not segment.text.strip() for segment in message.segments)


def _answers(document: Document, first: int, end: int) -> dict[str, Answer]:
    """A block whose fence is missing or never closed is no result yet. Placeholders of one call that disagree are
    pending."""
    found: dict[str, Answer] = {}
    for index in range(first, end):
        for start, segment in placed(document, index):
            if not isinstance(segment, ToolResultSegment) or segment.problem is not None:
                continue
            known = found.setdefault(segment.id, Answer(index, start, segment))
            if known.node.status not in (None, segment.status) and segment.status is not None:
                found[segment.id] = replace(known, node=replace(known.node, status=Status.PENDING.value))
    return found


def _aborted(reply: Message) -> str | None:
    """Why a reply was stopped; a marker counts only at its end."""
    for segment in reversed(reply.segments):
        if isinstance(segment, AbortedSegment):
            return segment.message
        if not isinstance(segment, TextSegment) or segment.text.strip():
            return None
    return None
