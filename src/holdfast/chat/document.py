"""A `.chat` document: its text as nodes, and new documents made from it by edits that share all they leave alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Final, cast

from msgspec import Struct

from holdfast.agent.conversation import Diagnostic
from holdfast.chat.parser import OPEN_TEXT, Block, BlockNote, Frontmatter, MessageBlock, open_fence, read_block
from holdfast.chat.scanner import Mode, NodeKind, Piece, ScanState, scan

_BLOCKS: Final = frozenset[NodeKind | None](("frontmatter", "preamble", "marker"))
_BATCH: Final = 8

PiecePosition = tuple[int, int]
"""The index of a part, and of a piece in it."""


class LazyBlock(Struct, gc=False):
    """The pieces of one block, which is read when somebody wants it. Documents share parts."""

    pieces: tuple[Piece, ...]
    size: int
    block: Block | None = None
    notes: Sequence[BlockNote] = ()
    feeds: int = -1

    def read(self) -> Block:
        if self.block is None:
            self.block, self.notes = read_block(self.pieces)
        return self.block

    @property
    def source(self) -> str:
        return "".join([piece.source for piece in self.pieces])

    def count_newlines(self) -> int:
        if self.feeds < 0:
            self.feeds = sum([piece.source.count("\n") for piece in self.pieces])
        return self.feeds


def group_blocks(pieces: Sequence[Piece]) -> list[LazyBlock]:
    """One part for each block; the first may go on with a block before it."""
    pieces = tuple(pieces)
    begins = [index for index, piece in enumerate(pieces) if piece.opens in _BLOCKS or index == 0]
    return [_part(pieces[begin:end]) for begin, end in pairwise([*begins, len(pieces)])]


def _part(pieces: tuple[Piece, ...]) -> LazyBlock:
    return LazyBlock(pieces, sum([len(piece.source) for piece in pieces]))


def _linked(parts: Iterable[LazyBlock]) -> list[LazyBlock]:
    """What goes on with a block is put to it."""
    linked: list[LazyBlock] = []
    for part in parts:
        if not part.pieces:
            continue
        if linked and part.pieces[0].opens not in _BLOCKS:
            before = linked.pop()
            linked.append(LazyBlock(before.pieces + part.pieces, before.size + part.size))
        else:
            linked.append(part)
    return linked


def rescan(
    parts: Sequence[LazyBlock], first: PiecePosition, last: PiecePosition, text: str
) -> tuple[list[LazyBlock], ScanState | None]:
    """The parts after the pieces from `first` to `last` became this text, and the state at the end if that is new.

    Goes on until it meets an old piece in the state that piece was found in: from there on all is as it was.
    """
    begin, inner = first
    begun = parts[begin].pieces
    state = begun[inner].before
    rest = _Rest(parts, last)
    sources = [text, *rest.take(0, at_line=text.endswith("\n"))]
    scanned: list[Piece] = []
    batch = _BATCH
    while True:
        pieces, state = scan(sources, state)
        scanned += pieces
        if rest.ended or rest.before == state:
            break
        sources = rest.take(batch)
        batch *= 4
    replaced = sum([len(piece.source) for piece in begun[inner:]])
    head = LazyBlock(begun[:inner], parts[begin].size - replaced)
    before = begin if inner else max(begin - 1, 0)
    new = _linked([*parts[before:begin], head, *group_blocks(scanned), rest.of_its_part()])
    return [*parts[:before], *new, *parts[rest.next_part :]], state if rest.ended else None


class _Rest:
    """The old pieces after a place, taken one after the other."""

    def __init__(self, parts: Sequence[LazyBlock], last: PiecePosition) -> None:
        self._parts = parts
        self._part: int = last[0]
        self._inner: int = last[1]
        self._step(1)

    def _step(self, count: int) -> None:
        self._inner += count
        if self._inner == len(self._parts[self._part].pieces):
            self._part, self._inner = self._part + 1, 0

    @property
    def ended(self) -> bool:
        return self._part == len(self._parts)

    @property
    def before(self) -> ScanState:
        return self._parts[self._part].pieces[self._inner].before

    def take(self, count: int, *, at_line: bool = True) -> list[str]:
        """The texts of so many pieces, and of more up to the end of a line."""
        taken: list[str] = []
        while not self.ended and (len(taken) < count or not at_line):
            wanted = max(count - len(taken), 1)
            pieces = self._parts[self._part].pieces[self._inner : self._inner + wanted]
            taken += [piece.source for piece in pieces]
            at_line = taken[-1].endswith("\n")
            self._step(len(pieces))
        return taken

    def of_its_part(self) -> LazyBlock:
        """What is left of a part that was begun."""
        return _part(self._parts[self._part].pieces[self._inner :]) if self._inner else LazyBlock((), 0)

    @property
    def next_part(self) -> int:
        return self._part + (self._inner > 0)


class Document:
    """Immutable. A node is read when it is first asked for, and kept by all the documents that share it."""

    def __init__(self, parts: Sequence[LazyBlock], after: ScanState) -> None:
        self._parts = parts
        self._after = after

    @classmethod
    def parse(cls, text: str) -> Document:
        """Never raises: whatever is wrong is in `diagnostics`, and every character is in a node."""
        pieces, after = scan([text])
        return cls(group_blocks(pieces), after)

    @cached_property
    def blocks(self) -> Sequence[Block]:
        return tuple([part.block or part.read() for part in self._parts])

    @cached_property
    def messages(self) -> Sequence[MessageBlock]:
        blocks = self.blocks
        return cast("tuple[MessageBlock, ...]", blocks[self._leading :])

    @cached_property
    def _leading(self) -> int:
        """How many blocks stand before the first message: at most frontmatter and a preamble."""
        return sum(part.pieces[0].opens != "marker" for part in self._parts[:2])

    @property
    def frontmatter(self) -> Frontmatter | None:
        first = self._parts[0].read() if self._parts else None
        return first if isinstance(first, Frontmatter) else None

    @property
    def text(self) -> str:
        return "".join([piece.source for part in self._parts for piece in part.pieces])

    @property
    def newline(self) -> str:
        """How its first line ends; a line feed where it has none."""
        for part in self._parts:
            for piece in part.pieces:
                if (feed := piece.source.find("\n")) >= 0:
                    return "\r\n" if piece.source.endswith("\r", 0, feed) else "\n"
        return "\n"

    @cached_property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """In the order of the text. Errors are what would keep anything added from being read as it is meant."""
        blocks, parts = self.blocks, self._parts
        noted = {index: parts[index].notes for index in range(len(blocks)) if parts[index].notes}
        if self._after.fence and self._after.mode in (Mode.TEXT, Mode.THINKING):
            last = len(parts) - 1
            noted[last] = (*noted.get(last, ()), self._open_fence())
        return tuple(found for index, notes in noted.items() for found in self._placed(index, notes))

    def __len__(self) -> int:
        return self._starts[-1]

    def offset(self, message_index: int, segment_index: int | None = None) -> int:
        """Where a message begins in the text, or one of its segments."""
        message = self.messages[message_index]
        begin = self._starts[self._leading + range(len(self.messages))[message_index]]
        if segment_index is None:
            return begin
        before = message.segments[: range(len(message.segments))[segment_index]]
        return begin + len(message.marker) + sum(len(segment.source) for segment in before)

    def line(self, offset: int) -> int:
        """The line a place in the text is on, from 1."""
        if not self._parts:
            return 1
        index = min(bisect_right(self._starts, offset), len(self._parts)) - 1
        return self._feeds[index] + self._parts[index].source.count("\n", 0, offset - self._starts[index]) + 1

    def append(self, text: str) -> Document:
        if not self._parts:
            return Document.parse(text)
        pieces = self._parts[-1].pieces
        last = len(self._parts) - 1, len(pieces) - 1
        return self._changed(last, last, pieces[-1].source + text)

    def edit(self, start: int, end: int, new: str) -> Document:
        """The document with these characters replaced; the same as parsing the whole of the new text."""
        if not 0 <= start <= end <= len(self):
            raise ValueError(f"Cannot replace {start} to {end} in a document of {len(self)} characters.")
        if not self._parts:
            return Document.parse(new)
        first, first_begin = self._find(start)
        last, last_begin = self._find(end)
        head = self._source(first)[: start - first_begin]
        tail = self._source(last)[end - last_begin :]
        return self._changed(first, last, head + new + tail)

    def _changed(self, first: PiecePosition, last: PiecePosition, text: str) -> Document:
        parts, after = rescan(self._parts, first, last, text)
        return Document(parts, after or self._after)

    @cached_property
    def _starts(self) -> Sequence[int]:
        """Where each part begins, and where the last one ends."""
        return [0, *accumulate([part.size for part in self._parts])]

    @cached_property
    def _feeds(self) -> Sequence[int]:
        """How many line feeds stand before each part."""
        return [0, *accumulate([part.count_newlines() for part in self._parts])]

    def _find(self, offset: int) -> tuple[PiecePosition, int]:
        """The piece that has this character, or else the last one, and where it begins."""
        index = min(bisect_right(self._starts, offset), len(self._parts)) - 1
        begin = self._starts[index]
        pieces = self._parts[index].pieces
        inner = 0
        while inner < len(pieces) - 1 and begin + len(pieces[inner].source) <= offset:
            begin += len(pieces[inner].source)
            inner += 1
        return (index, inner), begin

    def _source(self, place: PiecePosition) -> str:
        return self._parts[place[0]].pieces[place[1]].source

    def _placed(self, index: int, notes: Sequence[BlockNote]) -> Iterator[Diagnostic]:
        """The notes of a part, with line and column."""
        source, line, at = self._parts[index].source, self._feeds[index] + 1, 0
        for note in sorted(notes):
            line += source.count("\n", at, note.offset)
            at = note.offset
            yield Diagnostic(note.severity, note.message, line, at - source.rfind("\n", 0, at))

    def _open_fence(self) -> BlockNote:
        """The fence that is open at the end of the text."""
        last = self._parts[-1]
        block = last.read()
        source = block.segments[-1].source if isinstance(block, MessageBlock) else block.source
        return BlockNote(last.size - len(source) + open_fence(source), "error", OPEN_TEXT)
