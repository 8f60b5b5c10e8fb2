"""A held call as a person sees it before saying yes: what it would do, why it is asked about, all of it on demand."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TextIO

from holdfast.contract.values import Json, encode_json
from holdfast.doors.cli.folding import folded
from holdfast.doors.cli.screen import paint, shown, shown_block
from holdfast.text.visible import visible, visible_block
from holdfast.text.width import clip_middle, fingerprint

if TYPE_CHECKING:
    from holdfast.contract.call import HeldCall

_MAX_LINES: Final = 40
_MAX_VALUE: Final = 400
_HANG: Final = 10
"""Where what is said of a field begins."""
_OUTER: Final = 2
"""Whoever shows these lines may indent them."""
_RISK_COLOURS: Final = {"low": "green", "medium": "yellow", "high": "red"}
_DIFF_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


class HeldView:
    """Lines about one held call, safe to print on `stream`. Whatever is cut says how much of it is hidden."""

    def __init__(self, held: HeldCall, stream: TextIO | None = None, *, risk: str | None = None) -> None:
        self._held = held
        self._stream = sys.stderr if stream is None else stream
        self._risk = risk if held.proposal is None else held.proposal.risk

    def short(self) -> Iterator[str]:
        """What a person has to see in any case."""
        yield from self._head()
        yield self._field("digest", self._held.digest[:12])
        yield from self._body(_MAX_LINES)

    @property
    def short_is_whole(self) -> bool:
        """Whether `short` hides nothing of what the call would do."""
        proposal = self._held.proposal
        if proposal is not None:
            return proposal.preview.rstrip("\n").count("\n") < _MAX_LINES
        return all(len(_text(value)) <= _MAX_VALUE for value in self._held.call.args.values())

    def whole(self) -> Iterator[str]:
        """All there is to know, once."""
        yield from self._head()
        yield ""
        yield from self.details()

    def _head(self) -> Iterator[str]:
        held = self._held
        yield self._paint(shown(held.preview), "bold")
        if held.summary and held.summary not in held.preview:
            yield from self._sentence("does", visible(held.summary))
        if self._risk is not None:
            yield self._field("risk", self._paint(self._risk, _RISK_COLOURS.get(self._risk, "yellow")))
        if not held.definition_only:
            yield from self._sentence("why", f"{visible(held.decision.reason)} ({visible(held.decision.source)})")

    def details(self) -> Iterator[str]:
        """Everything an approval is bound to, nothing cut."""
        held, call = self._held, self._held.call
        yield self._field("call", call.id)
        yield self._field("tool", f"{visible(call.tool)} (definition {held.definition_digest})")
        yield self._field("caller", ", ".join(self._caller_words()))
        yield self._field("cwd", visible(call.cwd))
        yield self._field("digest", held.digest)
        for file in held.files:
            yield self._field("file", visible(f"{file.path} = {file.digest}"))
        for name, value in call.args.items():
            yield from self._whole(name, value)
        if held.proposal is not None:
            for fact in held.proposal.preconditions:
                yield self._field("needs", visible(f"{fact.kind} {fact.subject} = {fact.value}"))
            yield from self._body(None)

    def _body(self, limit: int | None) -> Iterator[str]:
        """The diff of a proposal, or the arguments where there is none."""
        proposal = self._held.proposal
        if proposal is None:
            yield from () if limit is None else self._arguments()
        elif proposal.preview:
            yield ""
            text = self._shown(proposal.preview.rstrip("\n"))
            for place, line in enumerate(_bounded(text.split("\n"), limit)):
                yield f"  {self._paint(line, *diff_style(line, place))}"

    def _shown(self, preview: str) -> str:
        """The difference of a definition has been made visible where it was made; others are shown as they are."""
        from holdfast.rules.caps import CHANGED

        return shown_block(preview) if self._held.decision.source == CHANGED else visible_block(preview)

    def _arguments(self) -> Iterator[str]:
        for name, value in self._held.call.args.items():
            text = _text(value)
            cut = visible(clip_middle(text, _MAX_VALUE))
            yield self._field(visible(name), f"{cut} ({fingerprint(text)})" if len(text) > _MAX_VALUE else cut)

    def _whole(self, name: str, value: Json) -> Iterator[str]:
        text = _text(value)
        lines = visible_block(text).split("\n")
        if len(lines) == 1 and len(text) <= _MAX_VALUE:
            yield self._field(visible(name), lines[0])
            return
        yield self._field(visible(name), f"({fingerprint(text)})")
        yield from (f"    {line}" for line in lines)

    def _caller_words(self) -> Iterator[str]:
        caller = self._held.call.caller
        yield visible(caller.door)
        for kind in ("agent", "provider", "skill", "session", "document"):
            if (name := getattr(caller, kind)) is not None:
                yield f"{kind} {visible(name)}"

    def _sentence(self, name: str, text: str) -> Iterator[str]:
        """A field in words: nothing in it is to be copied, so it may be folded."""
        first, *more = folded(text, self._stream, first=_HANG + _OUTER, hang=_HANG + _OUTER)
        yield self._field(name, first)
        yield from (f"{' ' * _HANG}{line}" for line in more)

    def _field(self, name: str, text: str) -> str:
        return f"  {self._paint(f'{name:<7}', 'dim')} {text}".rstrip()

    def _paint(self, text: str, *styles: str) -> str:
        return paint(text, *styles, stream=self._stream)


def age(since: float, now: float | None = None) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, int((time.time() if now is None else now) - since))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode_json(value).decode(errors="replace")


def _bounded(lines: list[str], limit: int | None) -> list[str]:
    if limit is None or len(lines) <= limit:
        return lines
    tail = limit // 4
    return [*lines[: limit - tail], f"[{len(lines) - limit:,} lines hidden; the details show all]", *lines[-tail:]]


def diff_style(line: str, place: int) -> tuple[str, ...]:
    """How a line of a diff is painted; the first two name the files."""
    if place < 2 and line.startswith(("+++ ", "--- ")):
        return ("bold",)
    colour = _DIFF_COLOURS.get(line[:1])
    return () if colour is None else (colour,)
