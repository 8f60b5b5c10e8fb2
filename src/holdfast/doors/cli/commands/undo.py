"""`holdfast undo`: put back what a call changed on disk."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from holdfast.contract.errors import LedgerCorrupt, UndoRefused
from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import FAILED, REJECTED, UsageProblem, report
from holdfast.doors.cli.folding import note_folded, quoted_field
from holdfast.doors.cli.options import common, complete_call
from holdfast.doors.cli.outputs import Undo
from holdfast.doors.cli.place import Flags, whoami
from holdfast.doors.cli.undoing import (
    MAX_PATHS,
    MAX_SHOWN,
    change_output,
    diff_lines,
    fate_words,
    ledger_and_undo,
    name_of,
    visible_path,
)
from holdfast.text.visible import visible, visible_name

_KIND: Final = 8
_LEAST: Final = 8
"""Lines of a diff that are shown when others have taken the room."""

if TYPE_CHECKING:
    from holdfast.assemble import Setting
    from holdfast.runtime.undo.putting_back import Plan
    from holdfast.store.ledger import Ledger


@click.command()
@click.argument("call_id", metavar="[CALL]", required=False, shell_complete=complete_call)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@click.option("--partial", is_flag=True, help="Put back what can be, and leave what cannot.")
@common
@click.pass_obj
def undo(flags: Flags, call_id: str | None, yes: bool, partial: bool, as_json: bool) -> int:
    """Put back what a call changed on disk.

    CALL is an id, which may be cut short before its dash if only one call has it;
    without it, the last call that changed something and was not undone is meant.
    What would happen is shown first. If a path is no longer as the call left it,
    nothing is put back, unless --partial is given. An undo is a call itself and
    can be undone.
    """
    with ledger_and_undo(flags, looking=False) as (setting, ledger, undoing):
        from holdfast.runtime.undo.putting_back import check

        plan = undoing.plan(_last(ledger) if call_id is None else ledger.find(call_id))
        if not as_json:
            _show(plan, setting, ledger)
        check(plan, partial=partial)
        if not yes and not screen.can_ask():
            raise UsageProblem(f"Nothing was put back; look at it, then run `holdfast undo --yes {plan.call_id}`.")
        if not yes and not _confirmed():
            return _left(as_json=as_json)
        result = undoing.carry_out(plan, by=whoami(), partial=partial)
    if as_json:
        changes = [change_output(item, plan.call_id, None) for item in plan.items]
        error = None if result.error is None else visible_path(result.error)
        screen.put_json(
            Undo(call_id=plan.call_id, undo_id=result.call_id, success=result.success, error=error, changes=changes)
        )
    elif result.success:
        screen.say(f"{visible(result.output)} It is call {result.call_id}.")
    else:
        note_folded(visible(result.error or ""))
    return 0 if result.success else FAILED


def _last(ledger: Ledger) -> str:
    from holdfast.runtime.undo.putting_back import TOOL
    from holdfast.store.changes import changing_calls, undone_by

    for call_id in changing_calls(ledger, 1000):
        with suppress(LedgerCorrupt):
            if ledger.call(call_id).call.tool != TOOL and undone_by(ledger, call_id) is None:
                return call_id
    raise UndoRefused("No call here has changed a file that could be put back; `holdfast changes` lists what did.")


def _show(plan: Plan, setting: Setting, ledger: Ledger) -> None:
    from holdfast.runtime.undo.showing import diff_of

    if plan.items:
        screen.note(screen.paint(f"Undo call {visible_name(plan.call_id)}:", "bold"))
    room = MAX_SHOWN
    for item in plan.items[:MAX_PATHS]:
        name = visible_path(name_of(item, setting))
        for label, text in ((item.change.kind, name), ("now", fate_words(item))):
            for line in quoted_field(label, text, sys.stderr, width=_KIND, show=screen.shown):
                screen.note(line)
        if item.fate == "put_back" and room > 0:
            more = f"`holdfast changes {plan.call_id} --diff` shows all"
            lines = diff_lines(diff_of(item, ledger.blobs, name, back=True), sys.stderr, max(_LEAST, room), more)
            for line in lines:
                screen.note(line)
            room -= len(lines)
    if len(plan.items) > MAX_PATHS:
        screen.note(f"  … and {len(plan.items) - MAX_PATHS:,} more")
    if plan.items:
        screen.note(f"In all: {_counts(plan)}.")


def _counts(plan: Plan) -> str:
    already = len(plan.items) - len(plan.to_put_back) - len(plan.refused)
    found = [f"{len(plan.to_put_back):,} to put back"]
    if plan.refused:
        found.append(f"{len(plan.refused):,} that cannot be")
    if already:
        found.append(f"{already:,} as before the call already")
    return ", ".join(found)


def _left(*, as_json: bool) -> int:
    """A person said no, which is no error."""
    said = "Nothing was put back."
    if as_json:
        return report("rejected", said, REJECTED, as_json=True)
    screen.note(said)
    return REJECTED


def _confirmed() -> bool:
    from holdfast.doors.cli.typing_in import forget_typed_ahead, read_line

    forget_typed_ahead()
    typed = asyncio.run(read_line("Put this back? [y/N] "))
    return (typed or "").strip().lower() in ("y", "yes")
