"""What a client's person reads before saying yes: redacted first, wrapped and not cut; what is left out says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from msgspec.structs import asdict, replace

from holdfast.contract.call import Surroundings
from holdfast.contract.values import Args
from holdfast.rules.gate import CHANGED
from holdfast.text.preview import arguments_text, preview
from holdfast.text.quote import Show, both_ends, quoted
from holdfast.text.visible import clip_middle, fingerprint, text_width, visible, visible_name, visible_once

if TYPE_CHECKING:
    from holdfast.contract.call import Call, PendingCall
    from holdfast.contract.tool import Tool
    from holdfast.store.redact import Redactor

WIDTH: Final = 160
_COLUMNS: Final = 80
"""How wide lines are: a client tells nobody how many columns it has, and few have fewer."""
_MAX_SENTENCE: Final = 2000
_MAX_LINES: Final = 400
"""Of what would be done. What is longer cannot be approved here."""


class Shown(NamedTuple):
    """What a person reads before saying yes."""

    text: str
    whole: bool
    """Whether all of the call is in it; if not, it cannot be approved from it."""


def redacted(held: PendingCall, tool: Tool | None, redactor: Redactor) -> PendingCall:
    """The held call without secrets: half of one, where a text was cut, would not be found any more."""
    call = replace(held.call, args=cast(Args, redactor.value(held.call.args)))
    proposal = held.proposal
    if proposal is not None:
        around = proposal.surroundings
        proposal = replace(
            proposal,
            summary=redactor(proposal.summary),
            preview=redactor(proposal.preview),
            surroundings=None if around is None else _redacted_surroundings(around, redactor),
        )
    return replace(
        held,
        call=call,
        preview=line_of(call, tool),
        summary=redactor(held.summary),
        decision=replace(held.decision, reason=redactor(held.decision.reason)),
        proposal=proposal,
    )


def _redacted_surroundings(around: Surroundings, redactor: Redactor) -> Surroundings:
    return Surroundings(**{name: redactor(words) for name, words in asdict(around).items()})


def line_of(call: Call, tool: Tool | None) -> str:
    """A call in one line, visible already. Its arguments must be redacted."""
    return preview(call.name_used, call.args, WIDTH, None if tool is None else tool.format_preview)


def approval_text(held: PendingCall, risk: str) -> Shown:
    """All a person has to see of a pending call that has been redacted: our own words first, then the call."""
    lines = list(_head(held, risk))
    cut = held.proposal is not None and held.proposal.preview_cut
    texts: list[str] = []
    for label, text, show in _body(held):
        head, hidden, tail = both_ends(quoted(text, _COLUMNS, show), _MAX_LINES)
        lines += [label, *head, *([f"[{hidden:,} lines hidden]", *tail] if hidden else [])]
        cut = cut or hidden > 0
        texts.append(text)
    if cut:
        whole = fingerprint("\n".join(texts))
        call_id = visible_name(held.call.id)
        lines.append(f"Not all of it is shown: holdfast pending {call_id} ({whole})")
        lines.append(f"So it cannot be approved here: holdfast approve {call_id} shows all of it first.")
    return Shown("\n".join(lines), whole=not cut)


def _head(held: PendingCall, risk: str) -> Iterator[str]:
    call, proposal = held.call, held.proposal
    tool = visible_name(call.name_used or call.tool)
    yield f"It waits for its result: {tool}" if held.definition_only else f"May this run? {tool}"
    yield from _field("Asked by", call.caller.agent or "an MCP client")
    yield f"Call: {visible_name(call.id)}, tool {visible_name(call.tool)}"
    yield from _field("Why", f"{held.decision.reason} ({held.decision.source})")
    yield f"Risk: {visible_name(proposal.risk if proposal else risk)}"
    around = None if proposal is None else proposal.surroundings
    for name, words in () if around is None else asdict(around).items():
        yield from _field(name.capitalize(), words) if words else ()
    if proposal is None or not proposal.preview:
        return
    label = call.args.get("label")
    if isinstance(label, str) and label.strip():
        yield from _field("Label", label)
    if held.summary and held.summary not in proposal.preview:
        yield from _field("Does", held.summary)


def _field(name: str, text: str) -> Iterator[str]:
    """What others say behind a label, or below it where it is longer than a line."""
    shown = visible(clip_middle(text, _MAX_SENTENCE))
    if "\n" not in text and len(name) + 2 + text_width(shown) < _COLUMNS:
        yield f"{name}: {shown}"
        return
    yield f"{name}:"
    yield from quoted(clip_middle(text, _MAX_SENTENCE), _COLUMNS)


def _body(held: PendingCall) -> Iterator[tuple[str, str, Show | None]]:
    """What would be done, below which label; the arguments where the tool does not say it, and with a definition, which
    was made visible where it was made."""
    is_definition = held.decision.source == CHANGED
    preview = "" if held.proposal is None else held.proposal.preview.rstrip("\n")
    if not preview or is_definition:
        yield "With:", arguments_text(held.call.args), None
    if preview:
        yield "What it would do:", preview, visible_once if is_definition else None
