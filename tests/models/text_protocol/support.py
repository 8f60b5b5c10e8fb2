"""Ways to read a reply, and what two readings of it must have in common."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.contract.values import Args
from holdfast.models.text_protocol.reading import Asked, Fault, Flaw, Parsed, Reader, Said, parse


def streamed(pieces: Iterable[str]) -> Parsed:
    reader = Reader()
    read: list[Said | Asked] = []
    for piece in pieces:
        read += reader.feed(piece)
    read += reader.close()
    return Parsed(tuple(read), tuple(reader.flaws))


def in_steps(text: str, step: int) -> Parsed:
    return streamed(text[at : at + step] for at in range(0, len(text), step))


def text_of(parsed: Parsed) -> str:
    return "".join(piece.text for piece in parsed.pieces)


def calls(text: str) -> list[tuple[str, Args]]:
    return [(call.name, call.args) for call in parse(text).calls]


def faults(text: str) -> list[Fault]:
    return [flaw.fault for flaw in parse(text).flaws]


def only_call(text: str) -> tuple[str, Args]:
    """The one call of a reply without a flaw."""
    parsed = parse(text)
    assert parsed.flaws == ()
    (call,) = parsed.calls
    return call.name, call.args


def only_flaw(text: str) -> Flaw:
    (flaw,) = parse(text).flaws
    return flaw


def assert_beginnings_agree(text: str) -> None:
    """The calls of every beginning of a reply are the first calls of the whole."""
    whole = parse(text).calls
    reader = Reader()
    seen: list[Asked] = []
    for end in range(len(text) + 1):
        calls = parse(text[:end]).calls
        assert calls == whole[: len(calls)], text[:end]
        if end:
            seen += [piece for piece in reader.feed(text[end - 1 : end]) if isinstance(piece, Asked)]
        assert tuple(seen) == whole[: len(seen)], text[:end]
