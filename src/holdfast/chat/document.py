"""An immutable `.chat` document: lazily parsed blocks, diagnostics, and incremental edits that share old blocks."""

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
"""The index of a block, and of a piece in it."""


class LazyBlock(Struct, gc=False):
    """The pieces of a block, which is parsed on first access and shared by documents."""

    pieces: tuple[Piece, ...]
    size: int
    block: Block | None = None
    notes: Sequence[BlockNote] = ()
    newlines: int = -1

    def read(self) -> Block:
        if self.block is None:
            self.block, self.notes = read_block(self.pieces)
        return self.block

    @property
    def source(self) -> str:
        return "".join([piece.source for piece in self.pieces])

    def count_newlines(self) -> int:
        if self.newlines < 0:
            self.newlines = sum([piece.source.count("\n") for piece in self.pieces])
        return self.newlines


def group_blocks(pieces: Sequence[Piece]) -> list[LazyBlock]:
    """Group pieces by block. The first group may continue the block before it."""
    pieces = tuple(pieces)
    begins = [index for index, piece in enumerate(pieces) if piece.opens in _BLOCKS or index == 0]
    return [_lazy_block(pieces[begin:end]) for begin, end in pairwise([*begins, len(pieces)])]


def _lazy_block(pieces: tuple[Piece, ...]) -> LazyBlock:
    return LazyBlock(pieces, sum([len(piece.source) for piece in pieces]))


def _merge_continuations(lazy_blocks: Iterable[LazyBlock]) -> list[LazyBlock]:
    """Merge blocks that continue the one before them."""
    merged: list[LazyBlock] = []
    for lazy_block in lazy_blocks:
        if not lazy_block.pieces:
            continue
        if merged and lazy_block.pieces[0].opens not in _BLOCKS:
            before = merged.pop()
            merged.append(LazyBlock(before.pieces + lazy_block.pieces, before.size + lazy_block.size))
        else:
            merged.append(lazy_block)
    return merged


def rescan(
    lazy_blocks: Sequence[LazyBlock], first: PiecePosition, last: PiecePosition, text: str
) -> tuple[list[LazyBlock], ScanState | None]:
    """Replace the pieces from `first` to `last` by this text; return the blocks, and the state at the end if it is new.

    Scans until it reaches an old piece in the state that piece was scanned in: everything after it is unchanged.
    """
    begin, inner = first
    begun = lazy_blocks[begin].pieces
    state = begun[inner].before
    old = _OldPieces(lazy_blocks, last)
    sources = [text, *old.take(0, at_line=text.endswith("\n"))]
    scanned: list[Piece] = []
    batch = _BATCH
    while True:
        pieces, state = scan(sources, state)
        scanned += pieces
        if old.ended or old.before == state:
            break
        sources = old.take(batch)
        batch *= 4
    replaced = sum([len(piece.source) for piece in begun[inner:]])
    head = LazyBlock(begun[:inner], lazy_blocks[begin].size - replaced)
    before = begin if inner else max(begin - 1, 0)
    new = _merge_continuations([*lazy_blocks[before:begin], head, *group_blocks(scanned), old.rest_of_block()])
    return [*lazy_blocks[:before], *new, *lazy_blocks[old.next_block :]], state if old.ended else None


class _OldPieces:
    """Iterates over the old pieces after a position."""

    def __init__(self, lazy_blocks: Sequence[LazyBlock], last: PiecePosition) -> None:
        self._lazy_blocks = lazy_blocks
        self._block_index: int = last[0]
        self._piece_index: int = last[1]
        self._step(1)

    def _step(self, count: int) -> None:
        self._piece_index += count
        if self._piece_index == len(self._lazy_blocks[self._block_index].pieces):
            self._block_index, self._piece_index = self._block_index + 1, 0

    @property
    def ended(self) -> bool:
        return self._block_index == len(self._lazy_blocks)

    @property
    def before(self) -> ScanState:
        return self._lazy_blocks[self._block_index].pieces[self._piece_index].before

    def take(self, count: int, *, at_line: bool = True) -> list[str]:
        """The texts of the next `count` pieces, extended to the end of a line."""
        taken: list[str] = []
        while not self.ended and (len(taken) < count or not at_line):
            wanted = max(count - len(taken), 1)
            pieces = self._lazy_blocks[self._block_index].pieces[self._piece_index : self._piece_index + wanted]
            taken += [piece.source for piece in pieces]
            at_line = taken[-1].endswith("\n")
            self._step(len(pieces))
        return taken

    def rest_of_block(self) -> LazyBlock:
        """The remaining pieces of a partly consumed block."""
        return (
            _lazy_block(self._lazy_blocks[self._block_index].pieces[self._piece_index :])
            if self._piece_index
            else LazyBlock((), 0)
        )

    @property
    def next_block(self) -> int:
        return self._block_index + (self._piece_index > 0)


class Document:
    """A parsed document. Immutable; nodes are parsed on first access and shared between documents."""

    def __init__(self, lazy_blocks: Sequence[LazyBlock], after: ScanState) -> None:
        self._lazy_blocks = lazy_blocks
        self._after = after

    @classmethod
    def parse(cls, text: str) -> Document:
        """Never raises: problems are in `diagnostics`, and every character is in a node."""
        pieces, after = scan([text])
        return cls(group_blocks(pieces), after)

    @cached_property
    def blocks(self) -> Sequence[Block]:
        return tuple([lazy_block.block or lazy_block.read() for lazy_block in self._lazy_blocks])

    @cached_property
    def messages(self) -> Sequence[MessageBlock]:
        blocks = self.blocks
        return cast("tuple[MessageBlock, ...]", blocks[self._leading :])

    @cached_property
    def _leading(self) -> int:
        """The number of blocks before the first message: at most frontmatter and a preamble."""
        return sum(lazy_block.pieces[0].opens != "marker" for lazy_block in self._lazy_blocks[:2])

    @property
    def frontmatter(self) -> Frontmatter | None:
        first = self._lazy_blocks[0].read() if self._lazy_blocks else None
        return first if isinstance(first, Frontmatter) else None

    @property
    def text(self) -> str:
        return "".join([piece.source for lazy_block in self._lazy_blocks for piece in lazy_block.pieces])

    @property
    def newline(self) -> str:
        """The line ending of the first line; LF without one."""
        for lazy_block in self._lazy_blocks:
            for piece in lazy_block.pieces:
                if (feed := piece.source.find("\n")) >= 0:
                    return "\r\n" if piece.source.endswith("\r", 0, feed) else "\n"
        return "\n"

    @cached_property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """In text order. An error means that appended text would be misread."""
        blocks, lazy_blocks = self.blocks, self._lazy_blocks
        noted = {index: lazy_blocks[index].notes for index in range(len(blocks)) if lazy_blocks[index].notes}
        if self._after.fence and self._after.mode in (Mode.TEXT, Mode.THINKING):
            last = len(lazy_blocks) - 1
            noted[last] = (*noted.get(last, ()), self._open_fence())
        return tuple(found for index, notes in noted.items() for found in self._located(index, notes))

    def __len__(self) -> int:
        return self._starts[-1]

    def offset(self, message_index: int, segment_index: int | None = None) -> int:
        """The offset of a message, or of one of its segments."""
        message = self.messages[message_index]
        begin = self._starts[self._leading + range(len(self.messages))[message_index]]
        if segment_index is None:
            return begin
        before = message.segments[: range(len(message.segments))[segment_index]]
        return begin + len(message.marker) + sum(len(segment.source) for segment in before)

    def line(self, offset: int) -> int:
        """The line number of an offset, from 1."""
        if not self._lazy_blocks:
            return 1
        index = min(bisect_right(self._starts, offset), len(self._lazy_blocks)) - 1
        return self._newlines[index] + self._lazy_blocks[index].source.count("\n", 0, offset - self._starts[index]) + 1

    def append(self, text: str) -> Document:
        if not self._lazy_blocks:
            return Document.parse(text)
        pieces = self._lazy_blocks[-1].pieces
        last = len(self._lazy_blocks) - 1, len(pieces) - 1
        return self._rescanned(last, last, pieces[-1].source + text)

    def edit(self, start: int, end: int, new: str) -> Document:
        """Replace a range of characters. Equal to parsing the whole new text."""
        if not 0 <= start <= end <= len(self):
            raise ValueError(f"Cannot replace {start} to {end} in a document of {len(self)} characters.")
        if not self._lazy_blocks:
            return Document.parse(new)
        first, first_begin = self._find(start)
        last, last_begin = self._find(end)
        head = self._source(first)[: start - first_begin]
        tail = self._source(last)[end - last_begin :]
        return self._rescanned(first, last, head + new + tail)

    def _rescanned(self, first: PiecePosition, last: PiecePosition, text: str) -> Document:
        lazy_blocks, after = rescan(self._lazy_blocks, first, last, text)
        return Document(lazy_blocks, after or self._after)

    @cached_property
    def _starts(self) -> Sequence[int]:
        """The offset of each block, and the end of the last one."""
        return [0, *accumulate([lazy_block.size for lazy_block in self._lazy_blocks])]

    @cached_property
    def _newlines(self) -> Sequence[int]:
        """The number of line feeds before each block."""
        return [0, *accumulate([lazy_block.count_newlines() for lazy_block in self._lazy_blocks])]

    def _find(self, offset: int) -> tuple[PiecePosition, int]:
        """The piece that contains this offset, or the last one, and its offset."""
        index = min(bisect_right(self._starts, offset), len(self._lazy_blocks)) - 1
        begin = self._starts[index]
        pieces = self._lazy_blocks[index].pieces
        inner = 0
        while inner < len(pieces) - 1 and begin + len(pieces[inner].source) <= offset:
            begin += len(pieces[inner].source)
            inner += 1
        return (index, inner), begin

    def _source(self, place: PiecePosition) -> str:
        return self._lazy_blocks[place[0]].pieces[place[1]].source

    def _located(self, index: int, notes: Sequence[BlockNote]) -> Iterator[Diagnostic]:
        """The notes of a block as diagnostics with line and column."""
        source, line, at = self._lazy_blocks[index].source, self._newlines[index] + 1, 0
        for note in sorted(notes):
            line += source.count("\n", at, note.offset)
            at = note.offset
            yield Diagnostic(note.severity, note.message, line, at - source.rfind("\n", 0, at))

    def _open_fence(self) -> BlockNote:
        """The note for the unclosed fence at the end of the text."""
        last = self._lazy_blocks[-1]
        block = last.read()
        source = block.segments[-1].source if isinstance(block, MessageBlock) else block.source
        return BlockNote(last.size - len(source) + open_fence(source), "error", OPEN_TEXT)
