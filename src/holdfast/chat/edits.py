"""Edits of a document that insert replies, statuses and results, also next to concurrent edits. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from holdfast.agent.conversation import NOT_RECORDED, SetResult, SetStatus, Slot, Status
from holdfast.agent.reply import with_unique_ids
from holdfast.chat import grammar
from holdfast.chat.document import Document
from holdfast.chat.document_file import DocumentError, replace_surrogates
from holdfast.chat.parser import AttachmentLink, ToolResultSegment, header_status
from holdfast.chat.turns import (
    ASSISTANT,
    YOU,
    ResultBlock,
    Turn,
    TurnCall,
    is_blank,
    placeholder_text,
    read_turn,
    read_turns,
    reply_indexes,
    segments_with_offsets,
)
from holdfast.contract.message import Part, ToolUse
from holdfast.contract.result import Result
from holdfast.text.diff import common_ends


class TextEdit(NamedTuple):
    """Replace the text from `start` to `end`."""

    start: int
    end: int
    new: str


def apply_edits(document: Document, text: str, edits: Sequence[TextEdit]) -> Document:
    """Apply edits that do not overlap as one edit; `text` is the document's."""
    if not edits:
        return document
    ordered = sorted(edits)
    pieces: list[str] = []
    at = ordered[0].start
    for splice in ordered:
        pieces += [text[at : splice.start], splice.new]
        at = splice.end
    return document.edit(ordered[0].start, at, replace_surrogates("".join(pieces)))


def place_blocks(document: Document, text: str, turn: Turn, blocks: Mapping[str, str]) -> list[TextEdit]:
    """The edits that write result blocks, by call id, over the existing ones or in the order of the calls.

    `text` is the document's, built once because it may be long. New blocks go into the `@You:` right after the reply,
    which is created if necessary: after the result of the nearest earlier call, else before the first result, else
    right after the marker.
    """
    after = document.messages[turn.message_index + 1 : turn.message_index + 2]
    host = turn.message_index + 1 if after and after[0].role == YOU else None
    edits: list[TextEdit] = []
    new_blocks: list[str] = []
    anchor: ResultBlock | None = None
    for call in turn.calls:
        block = blocks.get(call.use.id)
        if block is not None and call.block is not None:
            edits.append(TextEdit(*block_span(call.block), block.rstrip("\r\n")))
        elif block is not None:
            new_blocks.append(block)
        if call.block is not None and call.block.message_index == host:
            edits += _insertion(document, text, turn, host, anchor, new_blocks)
            new_blocks, anchor = [], call.block
    return edits + _insertion(document, text, turn, host, anchor, new_blocks)


def insert_block(text: str, at: int, block: str, newline: str) -> TextEdit:
    """Insert a block of complete lines between two lines, surrounded by blank lines."""
    before = after = ""
    if at and text[at - 1] != "\n":
        before = newline * 2
    elif at and text[text.rfind("\n", 0, at - 1) + 1 : at].strip():
        before = newline
    if at < len(text):
        end = text.find("\n", at)
        after = newline if text[at : end if end >= 0 else len(text)].strip() else ""
    return TextEdit(at, at, f"{before}{block}{after}")


def block_span(block: ResultBlock) -> tuple[int, int]:
    """The range from the header to the closing fence, without the line break and blank lines after it."""
    return block.start, block.start + len(block.segment.source.rstrip())


def message_end(document: Document, index: int) -> int:
    return document.offset(index + 1) if index + 1 < len(document.messages) else len(document)


def _insertion(
    document: Document, text: str, turn: Turn, host: int | None, anchor: ResultBlock | None, blocks: Sequence[str]
) -> list[TextEdit]:
    if not blocks:
        return []
    newline = document.newline
    body = newline.join(block if block.endswith("\n") else block + newline for block in blocks)
    if host is None:
        at = message_end(document, turn.message_index)
        return [insert_block(text, at, f"@{YOU}:{newline}{newline}{body}", newline)]
    if anchor is not None:
        return [insert_block(text, _next_line(text, anchor.end), body, newline)]
    return [insert_block(text, _first_result_offset(document, text, host), body, newline)]


def _first_result_offset(document: Document, text: str, host: int) -> int:
    """The offset of the first result of a message, or of the line after its marker."""
    for start, segment in segments_with_offsets(document, host):
        if isinstance(segment, ToolResultSegment):
            return start
    return _next_line(text, document.offset(host))


def _next_line(text: str, at: int) -> int:
    """The offset of the next line."""
    return text.find("\n", at) + 1 or len(text)


_HEADER: Final = re.compile(r"\*\*Tool Result:\*\*[^`\n]*`[^`\n]*`(?P<suffix>[^\n]*?)\r?$", re.MULTILINE)
_FENCE: Final = re.compile(r"^`+(?P<info>[^`\n]*?)\r?$", re.MULTILINE)


class MergeConflict(Exception):
    """A concurrent edit conflicts with the change; the message is a clause such as `call 'a' was removed`."""


class Links(Protocol):
    """The links to the attachments of results."""

    def new(self, change: SetResult) -> Sequence[str]:
        """The lines that name the attachments of a result."""
        ...

    def is_old(self, change: SetResult, link: AttachmentLink) -> bool:
        """Whether a link names an attachment of the result that this one replaces, and not one that a person added."""
        ...


class _NoLinks:
    def new(self, change: SetResult) -> Sequence[str]:
        return ()

    def is_old(self, change: SetResult, link: AttachmentLink) -> bool:
        return False


_NO_LINKS: Final = _NoLinks()


def apply_changes(document: Document, changes: Sequence[SetStatus | SetResult], links: Links = _NO_LINKS) -> Document:
    """Write statuses and results. Raises `MergeConflict` if a call or its placeholder differs from its slot."""
    index, text = _CallIndex(document), document.text
    expected: dict[int, dict[str, Status | None]] = {}
    blocks: dict[int, dict[str, str]] = {}
    edits: list[TextEdit] = []
    for change in changes:
        number, call = index.find(change.slot)
        expected.setdefault(number, {})[call.use.id] = change.status if isinstance(change, SetStatus) else None
        if isinstance(change, SetResult) and call.block is not None and _is_typed_result(call.block, change.result):
            edits += placeholder_to_result(call.block)
        else:
            blocks.setdefault(number, {})[call.use.id] = _result_block(document, change, links)
            if isinstance(change, SetResult) and call.block is not None:
                edits += _without_old_links(call.block, change, links)
    for number, block in blocks.items():
        edits += place_blocks(document, text, index.turns[number], block)
    new = apply_edits(document, text, edits)
    # Read it back: an unclosed fence before the blocks would have swallowed them.
    written = _CallIndex(new)
    if any(_statuses(written.calls(number), wanted) != wanted for number, wanted in expected.items()):
        raise DocumentError(_unclosed_fence_message(document))
    return new


def _without_old_links(block: ResultBlock, change: SetResult, links: Links) -> Iterator[TextEdit]:
    """The edits that remove the links of the result that is replaced, each with the blank lines before it."""
    before = block_span(block)[1]
    for start, link in block.links:
        end = start + len(link.source.rstrip())
        if links.is_old(change, link):
            yield TextEdit(before, end, "")
        before = end


def repair_orphans(document: Document) -> tuple[Document, int]:
    """Write an error result for every unfinished call of an earlier reply; typed text stays as the result."""
    edits: list[TextEdit] = []
    orphans = 0
    text, last = document.text, len(reply_indexes(document)) - 1
    for turn in read_turns(document):
        if turn.number == last:
            break
        blocks: dict[str, str] = {}
        for call in turn.calls:
            if not call.is_open:
                continue
            orphans += 1
            block, typed = call.block, placeholder_text(document, call)
            if block is not None and typed.strip() and block.status in (Status.PENDING, Status.APPROVED):
                edits += placeholder_to_result(block)
            else:
                error = typed if typed.strip() else NOT_RECORDED
                blocks[call.use.id] = grammar.tool_result(call.use.id, error, error=True, newline=document.newline)
        edits += place_blocks(document, text, turn, blocks)
    return apply_edits(document, text, edits), orphans


def insert_reply(document: Document, answered: Document, parts: Sequence[Part], aborted: str | None) -> Document:
    """Insert a reply after the messages it answers. Raises `MergeConflict` if those have changed."""
    length, text = len(answered.messages), document.text
    if document is not answered:
        _check_unchanged(document, answered)
    at = message_end(document, length - 1) if length else len(text)
    follows = length < len(document.messages)
    if not follows and length > 1 and document.messages[-1].role == YOU and is_blank(document.messages[-1]):
        at, follows = document.offset(length - 1), True
    newline = document.newline
    block = grammar.reply(parts, aborted, newline)
    if not follows and not any(isinstance(part, ToolUse) for part in parts):
        block += f"{newline}@{YOU}:{newline}{newline}"
    new = apply_edits(document, text, [insert_block(text, at, block, newline)])
    if len(reply_indexes(new)) != len(reply_indexes(document)) + 1:
        raise DocumentError(_unclosed_fence_message(document))
    return new


def placeholder_to_result(block: ResultBlock) -> list[TextEdit]:
    """The edits that turn a placeholder into a result: they remove its marks and nothing else."""
    source = block.segment.source
    edits: list[TextEdit] = []
    header = _HEADER.match(source)
    if header is not None and header_status(header["suffix"]).status is not None:
        edits.append(TextEdit(block.start + header.start("suffix"), block.start + header.end("suffix"), ""))
    if block.segment.form == "fence" and (fence := _FENCE.search(source)) is not None:
        edits.append(TextEdit(block.start + fence.start("info"), block.start + fence.end("info"), ""))
    return edits


def changes_appended(document: Document, changes: Sequence[SetStatus | SetResult], links: Links = _NO_LINKS) -> str:
    """The text with the changes in place, or at the end if they conflict. For a conflict copy."""
    try:
        return apply_changes(document, changes, links).text
    except (MergeConflict, DocumentError):
        newline = document.newline
        blocks = newline.join(_result_block(document, change, links) for change in changes)
        text = document.text
        return apply_edits(document, text, [insert_block(text, len(text), blocks, newline)]).text


def text_difference(old: str, new: str) -> tuple[int, int, str]:
    """The smallest replacement (start, end, new text) that turns the old text into the new one."""
    start, end = common_ends(old, new)
    return start, len(old) - end, new[start : len(new) - end]


def with_storable_ids(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts with call ids that are unique and valid UTF-8."""
    return with_unique_ids(
        [replace(part, id=replace_surrogates(part.id)) if isinstance(part, ToolUse) else part for part in parts]
    )


class _CallIndex:
    """The calls of a document by turn and id, parsed on demand."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._replies = reply_indexes(document)
        self.turns: dict[int, Turn] = {}
        self._calls: dict[int, dict[str, TurnCall]] = {}

    def calls(self, number: int) -> dict[str, TurnCall]:
        if number >= len(self._replies):
            return {}
        if number not in self._calls:
            self.turns[number] = read_turn(self._document, self._replies, number)
            self._calls[number] = {call.use.id: call for call in self.turns[number].calls}
        return self._calls[number]

    def find(self, slot: Slot) -> tuple[int, TurnCall]:
        """The turn and the call of a slot, also if earlier replies were added or removed. Raises `MergeConflict`."""
        here = self._unchanged(slot.turn, slot)
        if here is not None:
            return slot.turn, here
        others = [
            (number, call)
            for number in range(len(self._replies))
            if number != slot.turn and (call := self._unchanged(number, slot)) is not None
        ]
        if len(others) == 1:
            return others[0]
        how = "changed" if slot.use.id in self.calls(slot.turn) else "removed"
        raise MergeConflict(f"call '{slot.use.id}' or its result was {how}")

    def _unchanged(self, number: int, slot: Slot) -> TurnCall | None:
        call = self.calls(number).get(slot.use.id)
        if call is None or call.use != slot.use or not call.is_open:
            return None
        now = (call.block and call.block.status, placeholder_text(self._document, call))
        return call if now == (slot.status, slot.text) else None


def _statuses(calls: Mapping[str, TurnCall], ids: Collection[str]) -> dict[str, Status | None]:
    """The statuses of the result blocks of these calls; calls without a block are left out."""
    blocks = ((use_id, call.block) for use_id in ids if (call := calls.get(use_id)) is not None)
    return {use_id: block.status for use_id, block in blocks if block is not None}


def _check_unchanged(document: Document, answered: Document) -> None:
    before, now = answered.messages, document.messages
    same = len(now) >= len(before) and all(
        old.role == new.role and old.source.rstrip() == new.source.rstrip()
        for old, new in zip(before, now, strict=False)
    )
    if not same:
        raise MergeConflict("a message that the model was answering was changed")
    if any(message.role == ASSISTANT for message in now[len(before) :]):
        raise MergeConflict("another reply was written")


def _result_block(document: Document, change: SetStatus | SetResult, links: Links) -> str:
    name = change.slot.use.id
    if isinstance(change, SetStatus):
        return grammar.placeholder(name, change.status, document.newline)
    result = change.result
    return grammar.tool_result(
        name, result.text, error=not result.success, newline=document.newline, links=links.new(change)
    )


def _is_typed_result(block: ResultBlock, result: Result) -> bool:
    """Whether the result is the text that a person typed into the placeholder."""
    typed = block.segment.content
    return (
        block.status is Status.PENDING
        and result.success
        and bool(typed.strip())
        and typed.replace("\r\n", "\n").strip() == result.output.replace("\r\n", "\n").strip()
    )


def _unclosed_fence_message(document: Document) -> str:
    return (
        f"Cannot write after line {document.line(len(document))}: a fence before it is not closed. "
        "Close it and run again."
    )
