""""Always allow" at the command line: which narrow rules there are for a call, in words, and keeping one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import ValidationError, convert

from holdfast.contract.errors import GrantRefused, UnknownTool
from holdfast.contract.values import Args
from holdfast.doors.cli.folding import quote
from holdfast.doors.cli.screen import note, shown
from holdfast.doors.cli.typing_in import read_line
from holdfast.rules.gate import CAP_URN
from holdfast.rules.grants import GrantPattern, GrantSpec, Width, narrow_grant
from holdfast.text.preview import generic_body
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.contract.call import PendingCall
    from holdfast.runtime.runtime import Runtime

LastingScope = Literal["project", "user"]
"""A session of the command line ends with the command, so only these outlive it."""

_SCOPES: Final[dict[LastingScope, str]] = {"project": "in this project", "user": "in all your projects"}
_WIDTHS: Final[tuple[Width, ...]] = ("exact", "folder", "tool", "command")
_LISTED: Final = 160
_WHOLE: Final = 1_000_000
"""Columns of a rule in a list, and of one that somebody is about to keep."""


class Offer(NamedTuple):
    scope: LastingScope
    width: Width
    words: str


def offers(runtime: Runtime, held: PendingCall, by: str) -> list[Offer]:
    """Every rule that may be kept for this call, the narrowest first."""
    found: list[Offer] = []
    for width in _WIDTHS:
        for scope, where in _SCOPES.items():
            try:
                spec = _narrow(runtime, held, scope, by, width)
            except GrantRefused:
                continue
            found.append(Offer(scope, width, f"{rule_words(spec.tool, spec.pattern, _WHOLE)}, {where}"))
    return found


async def choose_grant(runtime: Runtime, held: PendingCall, by: str) -> bool:
    """Let the person choose a rule and confirm it; whether one was kept."""
    refuse_if_useless(held)
    found = offers(runtime, held, by)
    if not found:
        _narrow(runtime, held, "project", by, "exact")
    note("Always allow, without asking:")
    for number, offer in enumerate(found, 1):
        _show(f"{number}. {offer.words}")
    typed = (await read_line("Which one? (a number; anything else goes back) ") or "").strip()
    if not typed.isdecimal() or not 0 < int(typed) <= len(found):
        return False
    chosen = found[int(typed) - 1]
    note("The rule:")
    _show(chosen.words)
    sure = (await read_line("Keep it, and run this call? [y/N] ") or "").strip().lower()
    if sure not in ("y", "yes"):
        return False
    await allow(runtime, held, chosen.scope, by, chosen.width)
    return True


async def allow(runtime: Runtime, held: PendingCall, scope: LastingScope, by: str, width: Width = "exact") -> None:
    """Keep a rule for this call, and say how to take it back."""
    refuse_if_useless(held)
    grant = await runtime.allow(held, scope, by=by, width=width)
    note(f"Kept as grant {grant.id}; `holdfast grants revoke {grant.id}` takes it back.")


def refuse_if_useless(held: PendingCall) -> None:
    """Caps come after grants: what a cap asks about is asked about again, whatever was allowed."""
    if held.decision.source.startswith(CAP_URN):
        raise GrantRefused(f"This is asked about every time, so no rule would help: {held.decision.reason}")


def _show(words: str) -> None:
    for line in quote(words, sys.stderr, show=shown).lines:
        note(line)


def rule_words(tool: str, stored: Args, width: int = _LISTED) -> str:
    """Which calls a rule covers, with its arguments in `width` columns, and what must hold them."""
    try:
        pattern = convert(stored, GrantPattern)
    except ValidationError:
        return f"{visible(tool)}: a rule this version cannot read; it allows nothing"
    words = _covered(tool, pattern, width)
    if pattern.given_under is None:
        return f"{words}: an earlier version kept it without its sandbox, so it allows nothing"
    if pattern.files:
        words += f", with {', '.join(visible(file.path) for file in pattern.files)} as it was"
    held = visible(str(pattern.given_under))
    return f"{words}, {held}" if held else words


def _covered(tool: str, pattern: GrantPattern, width: int) -> str:
    if pattern.any_args:
        return f"any call of {visible(tool)}"
    if pattern.command:
        command = visible(" ".join(pattern.command))
        return f"any plain `{command}` command that only reads in the project, from {visible(pattern.cwd or '')}"
    words = f"{visible(tool)} with {generic_body(pattern.args, width) or 'no arguments'}"
    if pattern.free:
        folders = " or ".join(visible(folder) for folder in pattern.folders)
        words += f" and for {', '.join(map(visible, pattern.free))} any file directly in {folders}"
    return f"{words}, from {visible(pattern.cwd)}" if pattern.cwd is not None else words


def _narrow(runtime: Runtime, held: PendingCall, scope: LastingScope, by: str, width: Width) -> GrantSpec:
    tool = runtime.registry.find(held.call.tool)
    if tool is None:
        raise UnknownTool(f"'{held.call.tool}' is not known here, so no rule can be made for it; approve it without.")
    return narrow_grant(runtime.approvals.question(tool, held.call, held.proposal), scope, by, width=width)
