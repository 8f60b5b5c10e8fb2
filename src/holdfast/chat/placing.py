"""Where blocks go in a document: beside the calls they belong to, with as few bytes changed as can be.

Nothing here looks at files; every function takes a document and says which stretches of it become what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from holdfast.chat.document import Document
from holdfast.chat.files import storable
from holdfast.chat.nodes import ToolResultSegment
from holdfast.chat.turns import YOU, Answer, Turn, placed


class Splice(NamedTuple):
    """This stretch of the text becomes that."""

    start: int
    end: int
    new: str


def apply(document: Document, text: str, splices: Sequence[Splice]) -> Document:
    """All of them at once; `text` is the document's. They must not overlap."""
    if not splices:
        return document
    ordered = sorted(splices)
    pieces: list[str] = []
    at = ordered[0].start
    for splice in ordered:
        pieces += [text[at : splice.start], splice.new]
        at = splice.end
    return document.edit(ordered[0].start, at, storable("".join(pieces)))


def place_blocks(document: Document, text: str, turn: Turn, blocks: Mapping[str, str]) -> list[Splice]:
    """Write blocks of a turn's calls, by id: over the block that is there, or in the order of the calls.

    `text` is the document's, made once because it may be long. New blocks go into the `@You:` right after the reply:
    after the result of the nearest call before, else before the first result, else right after the marker; where there
    is no such message, one is made.
    """
    host = turn.message + 1 if _is_you(document, turn.message + 1) else None
    splices: list[Splice] = []
    waiting: list[str] = []
    anchor: Answer | None = None
    for asked in turn.asked:
        block = blocks.get(asked.use.id)
        if block is not None and asked.answer is not None:
            splices.append(Splice(*span(asked.answer), block.rstrip("\r\n")))
        elif block is not None:
            waiting.append(block)
        if asked.answer is not None and asked.answer.message == host:
            splices += _insertion(document, text, turn, host, anchor, waiting)
            waiting, anchor = [], asked.answer
    return splices + _insertion(document, text, turn, host, anchor, waiting)


def insert(text: str, at: int, block: str, newline: str) -> Splice:
    """Put a block of whole lines between two lines, with blank lines around it."""
    before = after = ""
    if at and text[at - 1] != "\n":
        before = newline * 2
    elif at and text[text.rfind("\n", 0, at - 1) + 1 : at].strip():
        before = newline
    if at < len(text):
        end = text.find("\n", at)
        after = newline if text[at : end if end >= 0 else len(text)].strip() else ""
    return Splice(at, at, f"{before}{block}{after}")


def span(answer: Answer) -> tuple[int, int]:
    """From a block's header to the end of its fence, without the end of that line and the blank lines after it."""
    return answer.start, answer.start + len(answer.node.source.rstrip())


def message_end(document: Document, index: int) -> int:
    return document.offset(index + 1) if index + 1 < len(document.messages) else len(document)


def _insertion(
    document: Document, text: str, turn: Turn, host: int | None, anchor: Answer | None, blocks: Sequence[str]
) -> list[Splice]:
    if not blocks:
        return []
    newline = document.newline
    body = newline.join(_ended(block, newline) for block in blocks)
    if host is None:
        at = message_end(document, turn.message)
        return [insert(text, at, f"@{YOU}:{newline}{newline}{body}", newline)]
    if anchor is not None:
        return [insert(text, _line_end(text, span(anchor)[1]), body, newline)]
    return [insert(text, _head(document, text, host), body, newline)]


def _head(document: Document, text: str, host: int) -> int:
    """Before the first result of a message, or after its marker."""
    for start, segment in placed(document, host):
        if isinstance(segment, ToolResultSegment):
            return start
    return _line_end(text, document.offset(host))


def _line_end(text: str, at: int) -> int:
    """Where the next line begins."""
    return text.find("\n", at) + 1 or len(text)


def _ended(block: str, newline: str) -> str:
    return block if block.endswith("\n") else block + newline


def _is_you(document: Document, index: int) -> bool:
    return index < len(document.messages) and document.messages[index].role == YOU
