"""Reads replies: which of their text is calls, and what is wrong with the rest."""

from __future__ import annotations

from msgspec import Struct

from holdfast.models.text_protocol.pieces import Asked, Fault, Flaw, Said
from holdfast.models.text_protocol.prose import Prose
from holdfast.models.text_protocol.tape import Mode, Tape

__all__ = ["Asked", "Fault", "Flaw", "Parsed", "Reader", "Said", "parse"]


class Reader:
    """Reads one reply as it comes, in pieces of any size: what it gives does not depend on where they are cut.

    Text is given as soon as it cannot belong to a call, a call as soon as it is complete.
    """

    def __init__(self) -> None:
        self._tape = Tape()
        self._mode: Mode = Prose()

    @property
    def flaws(self) -> list[Flaw]:
        """Those found so far, in the order in which they were."""
        return self._tape.flaws

    def feed(self, text: str) -> list[Said | Asked]:
        return self._read() if self._tape.add(text) else []

    def close(self) -> list[Said | Asked]:
        """The reply ends here."""
        tape = self._tape
        tape.finish()
        pieces = self._read()
        self._mode.end(tape)
        tape.release(len(tape.text))
        pieces += tape.pieces
        tape.pieces = []
        return pieces

    def _read(self) -> list[Said | Asked]:
        tape, mode = self._tape, self._mode
        while (following := mode.read(tape)) is not None:
            mode = following
        self._mode = mode
        tape.settle(mode)
        pieces, tape.pieces = tape.pieces, []
        return pieces


class Parsed(Struct, frozen=True):
    pieces: tuple[Said | Asked, ...]
    flaws: tuple[Flaw, ...]

    @property
    def calls(self) -> tuple[Asked, ...]:
        return tuple(piece for piece in self.pieces if isinstance(piece, Asked))


def parse(text: str) -> Parsed:
    """A whole reply; neighbouring text is one piece."""
    reader = Reader()
    pieces: list[Said | Asked] = []
    said: list[str] = []
    for piece in reader.feed(text) + reader.close():
        if isinstance(piece, Said):
            said.append(piece.text)
            continue
        if said:
            pieces.append(Said("".join(said)))
            said.clear()
        pieces.append(piece)
    if said:
        pieces.append(Said("".join(said)))
    return Parsed(tuple(pieces), tuple(reader.flaws))
