"""Changes to a document: where a reply, a status or a result goes, also beside edits made meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from holdfast.agent.conversation import NOT_RECORDED, SetResult, SetStatus, Slot, Status
from holdfast.agent.reply import with_unique_ids
from holdfast.chat import grammar
from holdfast.chat.document import Document
from holdfast.chat.document_file import DocumentError, replace_surrogates
from holdfast.chat.parser import ToolResultSegment, header_status
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


class TextEdit(NamedTuple):
    """This stretch of the text becomes that."""

    start: int
    end: int
    new: str


def apply_edits(document: Document, text: str, splices: Sequence[TextEdit]) -> Document:
    """All of them at once; `text` is the document's. They must not overlap."""
    if not splices:
        return document
    ordered = sorted(splices)
    pieces: list[str] = []
    at = ordered[0].start
    for splice in ordered:
        pieces += [text[at : splice.start], splice.new]
        at = splice.end
    return document.edit(ordered[0].start, at, replace_surrogates("".join(pieces)))


def place_blocks(document: Document, text: str, turn: Turn, blocks: Mapping[str, str]) -> list[TextEdit]:
    """Write blocks of a turn's calls, by id: over the block that is there, or in the order of the calls.

    `text` is the document's, made once because it may be long. New blocks go into the `@You:` right after the reply:
    after the result of the nearest call before, else before the first result, else right after the marker; where there
    is no such message, one is made.
    """
    after = document.messages[turn.message_index + 1 : turn.message_index + 2]
    host = turn.message_index + 1 if after and after[0].role == YOU else None
    splices: list[TextEdit] = []
    waiting: list[str] = []
    anchor: ResultBlock | None = None
    for asked in turn.calls:
        block = blocks.get(asked.use.id)
        if block is not None and asked.block is not None:
            splices.append(TextEdit(*block_span(asked.block), block.rstrip("\r\n")))
        elif block is not None:
            waiting.append(block)
        if asked.block is not None and asked.block.message_index == host:
            splices += _insertion(document, text, turn, host, anchor, waiting)
            waiting, anchor = [], asked.block
    return splices + _insertion(document, text, turn, host, anchor, waiting)


def insert_block(text: str, at: int, block: str, newline: str) -> TextEdit:
    """Put a block of whole lines between two lines, with blank lines around it."""
    before = after = ""
    if at and text[at - 1] != "\n":
        before = newline * 2
    elif at and text[text.rfind("\n", 0, at - 1) + 1 : at].strip():
        before = newline
    if at < len(text):
        end = text.find("\n", at)
        after = newline if text[at : end if end >= 0 else len(text)].strip() else ""
    return TextEdit(at, at, f"{before}{block}{after}")


def block_span(answer: ResultBlock) -> tuple[int, int]:
    """From a block's header to the end of its fence, without the end of that line and the blank lines after it."""
    return answer.start, answer.start + len(answer.segment.source.rstrip())


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
        return [insert_block(text, _line_end(text, block_span(anchor)[1]), body, newline)]
    return [insert_block(text, _head(document, text, host), body, newline)]


def _head(document: Document, text: str, host: int) -> int:
    """Before the first result of a message, or after its marker."""
    for start, segment in segments_with_offsets(document, host):
        if isinstance(segment, ToolResultSegment):
            return start
    return _line_end(text, document.offset(host))


def _line_end(text: str, at: int) -> int:
    """Where the next line begins."""
    return text.find("\n", at) + 1 or len(text)


_HEADER: Final = re.compile(r"\*\*Tool Result:\*\*[^`\n]*`[^`\n]*`(?P<suffix>[^\n]*?)\r?$", re.MULTILINE)
_FENCE: Final = re.compile(r"^`+(?P<info>[^`\n]*?)\r?$", re.MULTILINE)


class MergeConflict(Exception):
    """The document does not go together with what is to be written; says what was found, as half a sentence."""


def apply_changes(document: Document, changes: Sequence[SetStatus | SetResult]) -> Document:
    """Raises `Mismatch` if one of the calls, or what is said about it, is not what its slot says."""
    calls, text = _Calls(document), document.text
    said: dict[int, dict[str, Status | None]] = {}
    blocks: dict[int, dict[str, str]] = {}
    splices: list[TextEdit] = []
    for change in changes:
        number, asked = calls.find(change.slot)
        said.setdefault(number, {})[asked.use.id] = change.status if isinstance(change, SetStatus) else None
        if isinstance(change, SetResult) and asked.block is not None and _is_own(asked.block, change.result):
            splices += placeholder_to_result(asked.block)
        else:
            blocks.setdefault(number, {})[asked.use.id] = _block(document, change)
    for number, block in blocks.items():
        splices += place_blocks(document, text, calls.turns[number], block)
    new = apply_edits(document, text, splices)
    read = _Calls(new)
    if any(_said(read.calls(number), what) != what for number, what in said.items()):
        raise DocumentError(_never_closed(document))
    return new


def repair_orphans(document: Document) -> tuple[Document, int]:
    """Every call of an earlier reply gets a result; what a person wrote into a placeholder stays as one."""
    splices: list[TextEdit] = []
    orphans = 0
    text, last = document.text, len(reply_indexes(document)) - 1
    for found in read_turns(document):
        if found.number == last:
            break
        blocks: dict[str, str] = {}
        for asked in found.calls:
            if not asked.is_open:
                continue
            orphans += 1
            answer, said = asked.block, placeholder_text(document, asked)
            if answer is not None and said.strip() and answer.status in (Status.PENDING, Status.APPROVED):
                splices += placeholder_to_result(answer)
            else:
                error = said if said.strip() else NOT_RECORDED
                blocks[asked.use.id] = grammar.tool_result(asked.use.id, error, error=True, newline=document.newline)
        splices += place_blocks(document, text, found, blocks)
    return apply_edits(document, text, splices), orphans


def insert_reply(document: Document, answered: Document, parts: Sequence[Part], aborted: str | None) -> Document:
    """The reply goes behind what it answers. Raises `Mismatch` if that is not what it was any more."""
    length, text = len(answered.messages), document.text
    if document is not answered:
        _check_answered(document, answered)
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
        raise DocumentError(_never_closed(document))
    return new


def placeholder_to_result(answer: ResultBlock) -> list[TextEdit]:
    """A placeholder becomes a plain result: only what marks it goes, not a byte of what is in it."""
    source = answer.segment.source
    splices: list[TextEdit] = []
    header = _HEADER.match(source)
    if header is not None and header_status(header["suffix"]).status is not None:
        splices.append(TextEdit(answer.start + header.start("suffix"), answer.start + header.end("suffix"), ""))
    if answer.segment.form == "fence" and (fence := _FENCE.search(source)) is not None:
        splices.append(TextEdit(answer.start + fence.start("info"), answer.start + fence.end("info"), ""))
    return splices


def changes_appended(document: Document, changes: Sequence[SetStatus | SetResult]) -> str:
    """A version with what was to be written: in its place as far as the document has one, else at the end."""
    try:
        return apply_changes(document, changes).text
    except (MergeConflict, DocumentError):
        newline = document.newline
        blocks = newline.join(_block(document, change) for change in changes)
        text = document.text
        return apply_edits(document, text, [insert_block(text, len(text), blocks, newline)]).text


def text_difference(old: str, new: str) -> tuple[int, int, str]:
    """Which stretch of the old text became what, so that all before and after it is the same."""
    most = min(len(old), len(new))
    start = _common(lambda low, high: old[low:high] == new[low:high], most)
    ends = len(old), len(new)
    end = _common(
        lambda low, high: old[ends[0] - high : ends[0] - low] == new[ends[1] - high : ends[1] - low], most - start
    )
    return start, len(old) - end, new[start : len(new) - end]


def with_storable_ids(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Every call of a reply has an id that no other has and that can be written, whatever the model gave them."""
    return with_unique_ids(
        [replace(part, id=replace_surrogates(part.id)) if isinstance(part, ToolUse) else part for part in parts]
    )


class _Calls:
    """The calls of a document by turn and id, read when they are asked for."""

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
            self._calls[number] = {asked.use.id: asked for asked in self.turns[number].calls}
        return self._calls[number]

    def find(self, slot: Slot) -> tuple[int, TurnCall]:
        """The call of a slot as it was seen; replies before it may have come or gone meanwhile."""
        here = self._seen(slot.turn, slot)
        if here is not None:
            return slot.turn, here
        others = [
            (number, asked)
            for number in range(len(self._replies))
            if number != slot.turn and (asked := self._seen(number, slot)) is not None
        ]
        if len(others) == 1:
            return others[0]
        how = "changed" if slot.use.id in self.calls(slot.turn) else "removed"
        raise MergeConflict(f"call '{slot.use.id}' or its result was {how}")

    def _seen(self, number: int, slot: Slot) -> TurnCall | None:
        asked = self.calls(number).get(slot.use.id)
        if asked is None or asked.use != slot.use or not asked.is_open:
            return None
        said = (asked.block and asked.block.status, placeholder_text(self._document, asked))
        return asked if said == (slot.status, slot.text) else None


def _said(calls: Mapping[str, TurnCall], ids: Collection[str]) -> dict[str, Status | None]:
    """What the blocks of some calls say; those that have none are left out."""
    answers = ((name, asked.block) for name in ids if (asked := calls.get(name)) is not None)
    return {name: answer.status for name, answer in answers if answer is not None}


def _common(agree: Callable[[int, int], bool], most: int) -> int:
    """The greatest length up to which two texts agree."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if agree(least, middle):
            least = middle
        else:
            most = middle - 1
    return least


def _check_answered(document: Document, answered: Document) -> None:
    before, now = answered.messages, document.messages
    same = len(now) >= len(before) and all(
        old.role == new.role and old.source.rstrip() == new.source.rstrip()
        for old, new in zip(before, now, strict=False)
    )
    if not same:
        raise MergeConflict("what the model was answering was changed")
    if any(message.role == ASSISTANT for message in now[len(before) :]):
        raise MergeConflict("another reply was written")


def _block(document: Document, change: SetStatus | SetResult) -> str:
    name = change.slot.use.id
    if isinstance(change, SetStatus):
        return grammar.placeholder(name, change.status, document.newline)
    result = change.result
    text = result.text
    if not text and result.attachments:
        text = "\n".join(f"[{attachment.mime_type}]" for attachment in result.attachments)
    return grammar.tool_result(name, text, error=not result.success, newline=document.newline)


def _is_own(answer: ResultBlock, result: Result) -> bool:
    """Whether the result is what a person put into the placeholder."""
    words = answer.segment.content
    return (
        answer.status is Status.PENDING
        and result.success
        and bool(words.strip())
        and words.replace("\r\n", "\n").strip() == result.output.replace("\r\n", "\n").strip()
    )


def _never_closed(document: Document) -> str:
    return (
        f"Nothing can be written behind line {document.line(len(document))}, because a fence before it is never "
        "closed; close it and run again."
    )
