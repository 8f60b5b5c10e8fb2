"""What a client's person reads before saying yes: redacted first, wrapped and not cut; what is left out says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from holdfast.contract.values import Args, Json, encode_json
from holdfast.text.preview import preview
from holdfast.text.visible import visible, visible_block
from holdfast.text.width import clip_middle, fingerprint

if TYPE_CHECKING:
    from holdfast.contract.call import Call, HeldCall
    from holdfast.contract.tool import Tool
    from holdfast.store.redact import Redactor

WIDTH: Final = 160
_MAX_SENTENCE: Final = 2000
_MAX_BODY: Final = 8000
"""Characters of what would be done."""
_MAX_LINES: Final = 120
_LINE: Final = 200
_LEAST: Final = 200
"""Characters of a value that are shown however many values there are."""
_MORE: Final = "↪ "
_HIDDEN: Final = r"\[[\d,]+ [a-z ]{1,40}hidden"
"""What a preview says of itself where the tool that made it left something out."""


def redacted(held: HeldCall, tool: Tool | None, redactor: Redactor) -> HeldCall:
    """The held call without secrets: half of one, where a text was cut, would not be found any more."""
    call = replace(held.call, args=cast(Args, redactor.value(held.call.args)))
    proposal = held.proposal
    if proposal is not None:
        proposal = replace(proposal, summary=redactor(proposal.summary), preview=redactor(proposal.preview))
    return replace(
        held,
        call=call,
        preview=line_of(call, tool),
        summary=redactor(held.summary),
        decision=replace(held.decision, reason=redactor(held.decision.reason)),
        proposal=proposal,
    )


def line_of(call: Call, tool: Tool | None) -> str:
    """A call in one line, visible already. Its arguments must be redacted."""
    return preview(call.name_used, call.args, WIDTH, None if tool is None else tool.format_preview)


def approval_text(held: HeldCall, risk: str) -> str:
    """All a person has to see of a held call that has been redacted."""
    body = list(_body(held))
    shown = list(_wrapped(body))
    cut = _is_cut(held, body) or len(shown) > _MAX_LINES
    if len(shown) > _MAX_LINES:
        tail = _MAX_LINES // 4
        hidden = len(shown) - _MAX_LINES
        shown = [*shown[: _MAX_LINES - tail], f"  […{hidden:,} lines hidden…]", *shown[-tail:]]
    lines = [*_head(held, risk), *shown]
    if cut:
        whole = fingerprint("\n".join(text for _, text, _ in body))
        lines.append(f"Not all of it is shown: holdfast pending {held.call.id} ({whole})")
    return "\n".join(lines)


def _head(held: HeldCall, risk: str) -> Iterator[str]:
    call = held.call
    line = held.preview if held.preview.isprintable() else visible(held.preview)
    yield ("It waits for its result: " if held.definition_only else "May this run? ") + line
    if held.summary and held.summary not in held.preview:
        yield f"Does: {visible(clip_middle(held.summary, _MAX_SENTENCE))}"
    yield f"Risk: {held.proposal.risk if held.proposal else risk}"
    yield f"Why: {visible(clip_middle(held.decision.reason, _MAX_SENTENCE))} ({visible(held.decision.source)})"
    yield f"Call {call.id} of {visible(call.caller.agent or 'an MCP client')}, tool {visible(call.tool)}"


def _body(held: HeldCall) -> Iterator[tuple[str, str, int]]:
    """The difference of a proposal, or the arguments: a name, the whole text, and how much of it is shown."""
    if held.proposal is not None and held.proposal.preview:
        yield "", held.proposal.preview.rstrip("\n"), _MAX_BODY
        return
    args = held.call.args
    fair = max(_LEAST, _MAX_BODY // max(1, len(args)))
    texts = {name: _text(value) for name, value in args.items()}
    spare = sum(max(0, fair - len(text)) for text in texts.values())
    for name, text in texts.items():
        limit = fair + spare if len(text) > fair else fair
        spare -= max(0, min(len(text), limit) - fair)
        yield name, text, limit


def _is_cut(held: HeldCall, body: list[tuple[str, str, int]]) -> bool:
    if max(len(held.summary), len(held.decision.reason)) > _MAX_SENTENCE:
        return True
    if held.proposal is not None and re.search(_HIDDEN, held.proposal.preview):
        return True
    return any(len(text) > limit or len(name) > _LEAST for name, text, limit in body)


def _wrapped(body: list[tuple[str, str, int]]) -> Iterator[str]:
    """Every line of it stands in, so that none can be taken for one of ours."""
    for name, text, limit in body:
        lines = [
            piece for line in visible_block(clip_middle(text, limit)).split("\n") for piece in _pieces(line)
        ]
        if not name:
            yield from (f"  {line}" for line in lines)
            continue
        title = f"  {visible(clip_middle(name, _LEAST))}:"
        mark = f" ({fingerprint(text)})" if len(text) > limit else ""
        if len(lines) == 1:
            yield f"{title} {lines[0]}{mark}"
        else:
            yield title + mark
            yield from (f"    {line}" for line in lines)


def _pieces(line: str) -> Iterator[str]:
    yield line[:_LINE]
    for start in range(_LINE, len(line), _LINE):
        yield _MORE + line[start : start + _LINE]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode_json(value).decode(errors="replace")
