"""What a person types to let one call reach more than the sandbox does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.contract.errors import CallError
from holdfast.contract.widening import Widening, all_of

HELP = "Name a host, network, read PATH, write PATH or outside, with commas between several."


def typed_widening(text: str) -> Widening:
    """Raises `CallError` for what means nothing."""
    return all_of(_piece(piece.strip()) for piece in text.split(",") if piece.strip())


def absolute(paths: Iterable[str]) -> tuple[str, ...]:
    """Paths as the person's own shell would mean them."""
    return tuple(str(Path(path).expanduser().absolute()) for path in paths)


def _piece(piece: str) -> Widening:
    word, _, path = piece.partition(" ")
    if word == "read" and path:
        return Widening(read=absolute((path.strip(),)))
    if word == "write" and path:
        return Widening(write=absolute((path.strip(),)))
    if piece == "network":
        return Widening(network=True)
    if piece == "outside":
        return Widening(outside=True)
    if path or word in ("read", "write"):
        raise CallError(f"Cannot read {piece!a}. Use a host, network, read PATH, write PATH or outside.")
    return Widening(hosts=(word,))
