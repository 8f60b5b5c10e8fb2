"""The pieces of a document grouped by block, and the scanning of only those that an edit can change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from holdfast.chat.nodes import Block
from holdfast.chat.parse import Note, read_block
from holdfast.chat.scan import Kind, Piece, State, scan

_BLOCKS: Final = frozenset[Kind | None](("frontmatter", "preamble", "marker"))
_BATCH: Final = 8

Place = tuple[int, int]
"""The index of a part, and of a piece in it."""


class Part(Struct, gc=False):
    """The pieces of one block, which is read when somebody wants it. Documents share parts."""

    pieces: tuple[Piece, ...]
    size: int
    block: Block | None = None
    notes: Sequence[Note] = ()
    feeds: int = -1

    def read(self) -> Block:
        if self.block is None:
            self.block, self.notes = read_block(self.pieces)
        return self.block

    @property
    def source(self) -> str:
        return "".join([piece.source for piece in self.pieces])

    def count_feeds(self) -> int:
        if self.feeds < 0:
            self.feeds = sum([piece.source.count("\n") for piece in self.pieces])
        return self.feeds


def group(pieces: Sequence[Piece]) -> list[Part]:
    """One part for each block; the first may go on with a block before it."""
    pieces = tuple(pieces)
    begins = [index for index, piece in enumerate(pieces) if piece.opens in _BLOCKS or index == 0]
    return [_part(pieces[begin:end]) for begin, end in pairwise([*begins, len(pieces)])]


def _part(pieces: tuple[Piece, ...]) -> Part:
    return Part(pieces, sum([len(piece.source) for piece in pieces]))


def _linked(parts: Iterable[Part]) -> list[Part]:
    """What goes on with a block is put to it."""
    linked: list[Part] = []
    for part in parts:
        if not part.pieces:
            continue
        if linked and part.pieces[0].opens not in _BLOCKS:
            before = linked.pop()
            linked.append(Part(before.pieces + part.pieces, before.size + part.size))
        else:
            linked.append(part)
    return linked


def rescan(parts: Sequence[Part], first: Place, last: Place, text: str) -> tuple[list[Part], State | None]:
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
    head = Part(begun[:inner], parts[begin].size - replaced)
    before = begin if inner else max(begin - 1, 0)
    new = _linked([*parts[before:begin], head, *group(scanned), rest.of_its_part()])
    return [*parts[:before], *new, *parts[rest.next_part :]], state if rest.ended else None


class _Rest:
    """The old pieces after a place, taken one after the other."""

    def __init__(self, parts: Sequence[Part], last: Place) -> None:
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
    def before(self) -> State:
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

    def of_its_part(self) -> Part:
        """What is left of a part that was begun."""
        return _part(self._parts[self._part].pieces[self._inner :]) if self._inner else Part((), 0)

    @property
    def next_part(self) -> int:
        return self._part + (self._inner > 0)
