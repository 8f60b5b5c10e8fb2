"""The turns of a document: a reply, its calls and their result blocks; cursor positions; appending user text.

A turn extends from one reply to the next. Ids are matched only inside it; the first call and the first result of an id
count. A header without a complete body is not a call.
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
from holdfast.chat.parser import (
    AbortedSegment,
    AttachmentLink,
    MessageBlock,
    Segment,
    TextSegment,
    ToolResultSegment,
    ToolUseSegment,
)
from holdfast.contract.message import ToolUse

YOU: Final = "You"
ASSISTANT: Final = "Assistant"
SYSTEM: Final = "System"


class ResultBlock(Struct, frozen=True):
    """A tool result or placeholder and its position."""

    message_index: int
    start: int
    """Offset in the text."""
    segment: ToolResultSegment
    links: tuple[tuple[int, AttachmentLink], ...] = ()
    """The attachments of the result, each with its offset."""

    @property
    def end(self) -> int:
        """The end of the closing fence or of the last link, without the line break."""
        start, last = self.links[-1] if self.links else (self.start, self.segment)
        return start + len(last.source.rstrip())

    @property
    def status(self) -> Status | None:
        """The status of a placeholder; None for a result."""
        return None if self.segment.status is None else Status(self.segment.status)


class TurnCall(Struct, frozen=True):
    """A call and its result block."""

    use: ToolUse
    segment_index: int
    block: ResultBlock | None = None

    @property
    def is_open(self) -> bool:
        return self.block is None or self.block.status is not None


class Turn(Struct, frozen=True, kw_only=True):
    number: int
    message_index: int
    """Index of the reply among the messages."""
    end_index: int
    """Index of the first message after the turn."""
    calls: tuple[TurnCall, ...]
    aborted: str | None = None


def reply_indexes(document: Document) -> list[int]:
    """The indexes of the messages that are replies."""
    return [index for index, message in enumerate(document.messages) if message.role == ASSISTANT]


def read_turn(document: Document, replies: Sequence[int], number: int) -> Turn:
    first = replies[number]
    end = replies[number + 1] if number + 1 < len(replies) else len(document.messages)
    blocks = _result_blocks(document, first + 1, end)
    calls: dict[str, TurnCall] = {}
    reply = document.messages[first]
    for index, segment in enumerate(reply.segments):
        if isinstance(segment, ToolUseSegment) and segment.problem is None and segment.id not in calls:
            use = ToolUse(segment.id, segment.name, segment.body)
            calls[segment.id] = TurnCall(use, index, blocks.get(segment.id))
    return Turn(number=number, message_index=first, end_index=end, calls=tuple(calls.values()), aborted=_aborted(reply))


def read_turns(document: Document) -> Iterator[Turn]:
    replies = reply_indexes(document)
    return (read_turn(document, replies, number) for number in range(len(replies)))


def last_turn(document: Document) -> Turn | None:
    replies = reply_indexes(document)
    return read_turn(document, replies, len(replies) - 1) if replies else None


def segments_with_offsets(document: Document, index: int) -> Iterator[tuple[int, Segment]]:
    """The segments of a message, each with its offset in the text."""
    message = document.messages[index]
    at = document.offset(index) + len(message.marker)
    for segment in message.segments:
        yield at, segment
        at += len(segment.source)


def line_numbers(document: Document, offsets: Iterable[int]) -> dict[int, int]:
    """The line numbers of these offsets, from 1, counted in a single pass."""
    text = document.text
    found: dict[int, int] = {}
    at, line = 0, 1
    for offset in sorted(offsets):
        line += text.count("\n", at, offset)
        at = offset
        found[offset] = line
    return found


def placeholder_text(document: Document, call: TurnCall) -> str:
    """The text in a placeholder, with LF line endings."""
    content = call.block.segment.content if call.block is not None and call.is_open else ""
    return content.replace("\r\n", "\n") if document.newline == "\r\n" else content


def user_texts(message: MessageBlock) -> Iterator[tuple[int, str]]:
    """The texts that the user wrote, each with the index of its segment. A link that follows no result is text."""
    after_result = False
    for index, segment in enumerate(message.segments):
        if isinstance(segment, TextSegment) and segment.text.strip():
            yield index, segment.text
        elif isinstance(segment, AttachmentLink) and not after_result:
            yield index, segment.source.strip()
        after_result = isinstance(segment, ToolResultSegment) or (after_result and isinstance(segment, AttachmentLink))


def is_blank(message: MessageBlock) -> bool:
    return all(isinstance(segment, TextSegment) and not segment.text.strip() for segment in message.segments)


def _result_blocks(document: Document, first: int, end: int) -> dict[str, ResultBlock]:
    """The complete result blocks by id. A call with disagreeing placeholders is pending."""
    found: dict[str, ResultBlock] = {}
    links: dict[str, list[tuple[int, AttachmentLink]]] = {}
    for index in range(first, end):
        owner: str | None = None
        for start, segment in segments_with_offsets(document, index):
            if isinstance(segment, AttachmentLink) and owner is not None:
                links.setdefault(owner, []).append((start, segment))
                continue
            owner = None
            if not isinstance(segment, ToolResultSegment) or segment.problem is not None:
                continue
            owner = None if segment.id in found else segment.id
            known = found.setdefault(segment.id, ResultBlock(index, start, segment))
            if known.segment.status not in (None, segment.status) and segment.status is not None:
                found[segment.id] = replace(known, segment=replace(known.segment, status=Status.PENDING.value))
    return found | {owner: replace(found[owner], links=tuple(those)) for owner, those in links.items()}


def _aborted(reply: MessageBlock) -> str | None:
    """Why a reply was stopped; the marker counts only at its end."""
    for segment in reversed(reply.segments):
        if isinstance(segment, AbortedSegment):
            return segment.message
        if not isinstance(segment, TextSegment) or segment.text.strip():
            return None
    return None


class Position(NamedTuple):
    """A cursor position, from 1."""

    line: int
    column: int


def first_pending(document: Document) -> Position | None:
    """The position of the first empty pending placeholder of the last reply."""
    last = last_turn(document)
    pending = [
        call.block
        for call in (last.calls if last else ())
        if call.block is not None and call.block.status is Status.PENDING and not call.block.segment.content.strip()
    ]
    return min((_position(document, block) for block in pending), default=None)


def after_result(
    document: Document, number: int, use_id: str, mode: Literal["result", "stay", "next"], now: Position
) -> Position:
    """The cursor position after call `use_id` of turn `number` got its result, by `chat.cursor_after_result`."""
    replies = reply_indexes(document)
    if mode == "stay" or number >= len(replies):
        return now
    found = read_turn(document, replies, number)
    if mode == "next":
        return _next_input(document, found)
    block = next((call.block for call in found.calls if call.use.id == use_id), None)
    return now if block is None else _position(document, block)


def _next_input(document: Document, found: Turn) -> Position:
    """The line below the next `@You:` after the results, else the end of the document."""
    for index in range(found.message_index + 2, len(document.messages)):
        if document.messages[index].role == YOU:
            return Position(document.line(document.offset(index)) + 1, 1)
    last = document.text.rfind("\n") + 1
    return Position(document.line(len(document)), len(document.text) - last + 1)


def _position(document: Document, block: ResultBlock) -> Position:
    return Position(document.line(block.start), 1)


def append_user_text(document: Document, text: str) -> Document:
    """Append text to the user message at the end of the document, or in a new one."""
    newline = document.newline
    block = _escaped(text, YOU, newline)
    if not document.messages or document.messages[-1].role != YOU or _awaits_fence(document):
        block = f"@{YOU}:{newline}{block}"
    before = document.text
    last_line = before[before.rfind("\n", 0, max(0, len(before) - 1)) + 1 :]
    gap = "" if not last_line.strip() or last_line.startswith(f"@{YOU}:") else newline
    if before and not before.endswith("\n"):
        gap += newline
    return document.append(gap + block)


def new_document_text(*, frontmatter: str, system: str, prompt: str) -> str:
    """The text of a new document."""
    parts = [frontmatter] if frontmatter else []
    if system.strip():
        parts.append(f"@{SYSTEM}:\n{_escaped(system, SYSTEM, chr(10))}")
    parts.append(f"@{YOU}:\n{_escaped(prompt, YOU, chr(10))}")
    return "\n".join(parts)


def _awaits_fence(document: Document) -> bool:
    """Whether the document ends with a bare result header, which would take the next fence for its content."""
    last = document.messages[-1].segments[-1:]
    return any(isinstance(segment, ToolResultSegment) and segment.problem is not None for segment in last)


def _escaped(text: str, role: str, newline: str) -> str:
    escaped = escape_lines(document_file.replace_surrogates(text).strip("\n"), markup_role(role))
    return escaped.replace("\r\n", "\n").replace("\n", newline) + newline
