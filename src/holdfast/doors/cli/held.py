"""A held call as a person sees it before saying yes: what it would do, why it is asked about, and all of it on demand."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.contract.values import Json, encode_json
from holdfast.doors.cli.screen import paint, shown
from holdfast.text.visible import visible, visible_block
from holdfast.text.width import clip_middle, fingerprint

if TYPE_CHECKING:
    from holdfast.contract.call import HeldCall

_MAX_LINES: Final = 40
_MAX_VALUE: Final = 400
_RISK_COLOURS: Final = {"low": "green", "medium": "yellow", "high": "red"}
_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def held_lines(held: HeldCall, risk: str | None = None) -> Iterator[str]:
    """The call in short. Whatever is cut says how much of it is hidden."""
    yield _paint(shown(held.preview), "bold")
    if held.proposal is not None:
        risk = held.proposal.risk
        yield _field("does", visible(held.proposal.summary))
    if risk is not None:
        yield _field("risk", _paint(risk, _RISK_COLOURS.get(risk, "yellow")))
    yield _field("why", f"{visible(held.decision.reason)} ({visible(held.decision.source)})")
    yield from body_lines(held, _MAX_LINES)


def detail_lines(held: HeldCall) -> Iterator[str]:
    """Everything an approval is bound to, nothing cut."""
    call = held.call
    yield _field("call", call.id)
    yield _field("tool", f"{visible(call.tool)} (definition sha256 {held.definition_digest})")
    yield _field("caller", ", ".join(_caller_words(held)))
    yield _field("cwd", visible(call.cwd))
    yield _field("digest", held.digest)
    for name, value in call.args.items():
        text = value if isinstance(value, str) else _json(value)
        yield _field(visible(name), fingerprint(text) if isinstance(value, str) else "")
        yield from (f"    {line}" for line in visible_block(text).split("\n"))
    if held.proposal is not None:
        for fact in held.proposal.preconditions:
            yield _field("needs", visible(f"{fact.kind} {fact.subject} = {fact.value}"))
        yield from body_lines(held, None)


def body_lines(held: HeldCall, limit: int | None) -> Iterator[str]:
    """The diff of a proposal, or the arguments where there is none."""
    if held.proposal is None or not held.proposal.preview:
        yield from _arguments(held.call.args) if held.proposal is None else ()
        return
    lines = visible_block(held.proposal.preview.rstrip("\n")).split("\n")
    if limit is not None and len(lines) > limit:
        tail = limit // 4
        hidden = len(lines) - limit
        lines = [*lines[: limit - tail], f"[{hidden:,} lines hidden; d shows all]", *lines[-tail:]]
    yield ""
    for line in lines:
        yield f"  {_paint(line, *_diff_style(line))}"


def age(since: float, now: float | None = None) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, int((time.time() if now is None else now) - since))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _arguments(args: dict[str, Json]) -> Iterator[str]:
    for name, value in args.items():
        text = value if isinstance(value, str) else _json(value)
        cut = visible(clip_middle(text, _MAX_VALUE))
        yield _field(visible(name), f"{cut} ({fingerprint(text)})" if len(text) > _MAX_VALUE else cut)


def _caller_words(held: HeldCall) -> Iterator[str]:
    caller = held.call.caller
    yield visible(caller.door)
    for kind in ("agent", "provider", "skill", "session"):
        if (name := getattr(caller, kind)) is not None:
            yield f"{kind} {visible(name)}"


def _json(value: Json) -> str:
    return encode_json(value).decode(errors="replace")


def _field(name: str, text: str) -> str:
    return f"  {_paint(f'{name:<6}', 'dim')} {text}".rstrip()


def _diff_style(line: str) -> tuple[str, ...]:
    if line.startswith(("+++", "---")):
        return ("bold",)
    colour = _DIFF_COLOURS.get(line[:1])
    return () if colour is None else (colour,)


def _paint(text: str, *styles: str) -> str:
    return paint(text, *styles, stream=sys.stderr)
