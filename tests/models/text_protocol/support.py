"""Ways to read a reply."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.contract.json import Args
from holdfast.models.text_protocol.parser import Parsed, parse
from holdfast.models.text_protocol.stream import Preview
from holdfast.models.text_protocol.syntax import Asked, Fault, Flaw


def previewed(pieces: Iterable[str]) -> str:
    """What is shown of a reply before it is whole."""
    preview = Preview()
    return "".join([preview.feed(piece) for piece in pieces])


def in_steps(text: str, step: int) -> list[str]:
    return [text[at : at + step] for at in range(0, len(text), step)]


def before_calls(parsed: Parsed) -> str:
    """The text before the first call."""
    first = parsed.pieces[0] if parsed.pieces else None
    return "" if first is None or isinstance(first, Asked) else first.text


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
