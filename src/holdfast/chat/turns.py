"""The turns of a document: a reply, the calls it asks for, and the results that stand after it.

A turn goes from one reply to the next. Ids are matched only inside it; the first call and the first result of an id
count. A header without a whole body is not a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Status
from holdfast.chat import document_file
from holdfast.chat.document import Document
from holdfast.chat.grammar import escape_lines, markup_role
from holdfast.chat.parser import AbortedSegment, MessageBlock, Segment, TextSegment, ToolResultSegment, ToolUseSegment
from holdfast.contract.message import ToolUse

YOU: Final = "You"
ASSISTANT: Final = "Assistant"
SYSTEM: Final = "System"


class ResultBlock(Struct, frozen=True):
    """A result block and where it is."""

    message_index: int
    start: int
    """Where it begins in the text."""
    segment: ToolResultSegment

    @property
    def status(self) -> Status | None:
        """None for a result; for a placeholder what it says."""
        return None if self.segment.status is None else Status(self.segment.status)


class TurnCall(Struct, frozen=True):
    """A call, and what stands beside it."""

    use: ToolUse
    segment_index: int
    block: ResultBlock | None = None

    @property
    def is_open(self) -> bool:
        return self.block is None or self.block.status is not None


class Turn(Struct, frozen=True, kw_only=True):
    number: int
    message_index: int
    """Which message its reply is."""
    end_index: int
    """The first message that does not belong to it any more."""
    calls: tuple[TurnCall, ...]
    aborted: str | None = None


def reply_indexes(document: Document) -> list[int]:
    """Which messages are replies."""
    return [index for index, message in enumerate(document.messages) if message.role == ASSISTANT]


def read_turn(document: Document, replies: Sequence[int], number: int) -> Turn:
    first = replies[number]
    end = replies[number + 1] if number + 1 < len(replies) else len(document.messages)
    answers = _answers(document, first + 1, end)
    asked: dict[str, TurnCall] = {}
    reply = document.messages[first]
    for place, segment in enumerate(reply.segments):
        if isinstance(segment, ToolUseSegment) and segment.problem is None and segment.id not in asked:
            use = ToolUse(segment.id, segment.name, segment.body)
            asked[segment.id] = TurnCall(use, place, answers.get(segment.id))
    return Turn(number=number, message_index=first, end_index=end, calls=tuple(asked.values()), aborted=_aborted(reply))


def read_turns(document: Document) -> Iterator[Turn]:
    replies = reply_indexes(document)
    return (read_turn(document, replies, number) for number in range(len(replies)))


def last_turn(document: Document) -> Turn | None:
    replies = reply_indexes(document)
    return read_turn(document, replies, len(replies) - 1) if replies else None


def segments_with_offsets(document: Document, index: int) -> Iterator[tuple[int, Segment]]:
    """The segments of a message, each with where it begins in the text."""
    message = document.messages[index]
    at = document.offset(index) + len(message.marker)
    for segment in message.segments:
        yield at, segment
        at += len(segment.source)


def line_numbers(document: Document, offsets: Iterable[int]) -> dict[int, int]:
    """The lines these places in the text are on, from 1, found in one go."""
    text = document.text
    found: dict[int, int] = {}
    at, line = 0, 1
    for offset in sorted(offsets):
        line += text.count("\n", at, offset)
        at = offset
        found[offset] = line
    return found


def placeholder_text(document: Document, asked: TurnCall) -> str:
    """What stands in a placeholder, with plain line ends as a person means them."""
    content = asked.block.segment.content if asked.block is not None and asked.is_open else ""
    return content.replace("\r\n", "\n") if document.newline == "\r\n" else content


def is_blank(message: MessageBlock) -> bool:
    return all(isinstance(segment, TextSegment) and not segment.text.strip() for segment in message.segments)


def _answers(document: Document, first: int, end: int) -> dict[str, ResultBlock]:
    """A block whose fence is missing or never closed is no result yet. Placeholders of one call that disagree are
    pending."""
    found: dict[str, ResultBlock] = {}
    for index in range(first, end):
        for start, segment in segments_with_offsets(document, index):
            if not isinstance(segment, ToolResultSegment) or segment.problem is not None:
                continue
            known = found.setdefault(segment.id, ResultBlock(index, start, segment))
            if known.segment.status not in (None, segment.status) and segment.status is not None:
                found[segment.id] = replace(known, segment=replace(known.segment, status=Status.PENDING.value))
    return found


def _aborted(reply: MessageBlock) -> str | None:
    """Why a reply was stopped; a marker counts only at its end."""
    for segment in reversed(reply.segments):
        if isinstance(segment, AbortedSegment):
            return segment.message
        if not isinstance(segment, TextSegment) or segment.text.strip():
            return None
    return None


class Position(NamedTuple):
    """Where a cursor goes in a document, both from 1."""

    line: int
    column: int


def first_pending(document: Document) -> Position | None:
    """The first placeholder of the last reply's calls that waits for a person and is still empty."""
    last = last_turn(document)
    waiting = [
        asked.block
        for asked in (last.calls if last else ())
        if asked.block is not None and asked.block.status is Status.PENDING and not asked.block.segment.content.strip()
    ]
    return min((_at(document, answer) for answer in waiting), default=None)


def after_result(
    document: Document, number: int, use_id: str, mode: Literal["result", "stay", "next"], now: Position
) -> Position:
    """Where to go when call `use_id` of turn `number` got its result: to it, nowhere, or where a person writes next."""
    replies = reply_indexes(document)
    if mode == "stay" or number >= len(replies):
        return now
    found = read_turn(document, replies, number)
    if mode == "next":
        return _next_words(document, found)
    answers = (asked.block for asked in found.calls if asked.use.id == use_id)
    answer = next(answers, None)
    return now if answer is None else _at(document, answer)


def _next_words(document: Document, found: Turn) -> Position:
    """Below the next `@You:` after the results, else at the end of the document."""
    for index in range(found.message_index + 2, len(document.messages)):
        if document.messages[index].role == YOU:
            return Position(document.line(document.offset(index)) + 1, 1)
    last = document.text.rfind("\n") + 1
    return Position(document.line(len(document)), len(document.text) - last + 1)


def _at(document: Document, answer: ResultBlock) -> Position:
    return Position(document.line(answer.start), 1)


def append_user_text(document: Document, words: str) -> Document:
    """The document with the words at its end: in the person's message if it ends with one, else in a new one."""
    newline = document.newline
    block = _lines(words, YOU, newline)
    if not document.messages or document.messages[-1].role != YOU or _awaits_fence(document):
        block = f"@{YOU}:{newline}{block}"
    text = document.text
    last = text[text.rfind("\n", 0, max(0, len(text) - 1)) + 1 :]
    gap = "" if not last.strip() or last.startswith(f"@{YOU}:") else newline
    if text and not text.endswith("\n"):
        gap += newline
    return document.append(gap + block)


def new_document_text(*, frontmatter: str, system: str, prompt: str) -> str:
    """The text of a new document."""
    parts = [frontmatter] if frontmatter else []
    if system.strip():
        parts.append(f"@{SYSTEM}:\n{_lines(system, SYSTEM, chr(10))}")
    parts.append(f"@{YOU}:\n{_lines(prompt, YOU, chr(10))}")
    return "\n".join(parts)


def _awaits_fence(document: Document) -> bool:
    """Whether it ends with the header of a result, which would take what comes next for its content."""
    last = document.messages[-1].segments[-1:]
    return any(isinstance(segment, ToolResultSegment) and segment.problem is not None for segment in last)


def _lines(words: str, role: str, newline: str) -> str:
    escaped = escape_lines(document_file.replace_surrogates(words).strip("\n"), markup_role(role))
    return escaped.replace("\r\n", "\n").replace("\n", newline) + newline
