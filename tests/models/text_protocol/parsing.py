"""Short ways to parse a reply."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.contract.json import Args
from holdfast.models.text_protocol.parser import ParsedReply, parse
from holdfast.models.text_protocol.stream import TextPreview
from holdfast.models.text_protocol.syntax import ProblemKind, SyntaxProblem, TextCall


def previewed(pieces: Iterable[str]) -> str:
    """The preview of a reply before it is complete."""
    preview = TextPreview()
    return "".join([preview.feed(piece) for piece in pieces])


def in_steps(text: str, step: int) -> list[str]:
    return [text[at : at + step] for at in range(0, len(text), step)]


def before_calls(parsed: ParsedReply) -> str:
    """The text before the first call."""
    first = parsed.pieces[0] if parsed.pieces else None
    return "" if first is None or isinstance(first, TextCall) else first.text


def text_of(parsed: ParsedReply) -> str:
    return "".join(piece.text for piece in parsed.pieces)


def calls(text: str) -> list[tuple[str, Args]]:
    return [(call.name, call.args) for call in parse(text).calls]


def faults(text: str) -> list[ProblemKind]:
    return [problem.kind for problem in parse(text).problems]


def only_call(text: str) -> tuple[str, Args]:
    """The only call of a valid reply."""
    parsed = parse(text)
    assert parsed.problems == ()
    (call,) = parsed.calls
    return call.name, call.args


def only_problem(text: str) -> SyntaxProblem:
    (problem,) = parse(text).problems
    return problem
