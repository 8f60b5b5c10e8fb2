"""`holdfast changes`: what calls changed on disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from holdfast.contract.errors import LedgerCorrupt
from holdfast.doors.cli import screen
from holdfast.doors.cli.commands.ledger import record_preview, when
from holdfast.doors.cli.holding import note_unreadable
from holdfast.doors.cli.options import common, complete_call
from holdfast.doors.cli.outputs import ChangingCall
from holdfast.doors.cli.place import Flags
from holdfast.doors.cli.tables import put_table
from holdfast.doors.cli.undoing import (
    change_output,
    diff_lines,
    fate_words,
    ledger_and_undo,
    name_of,
    visible_path,
)
from holdfast.text.visible import visible, visible_name

if TYPE_CHECKING:
    from holdfast.store.ledger import Ledger


@click.command()
@click.argument("call_id", metavar="[CALL]", required=False, shell_complete=complete_call)
@click.option("--diff", is_flag=True, help="Show what changed in each file.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many calls to list.")
@common
@click.pass_obj
def changes(flags: Flags, call_id: str | None, diff: bool, limit: int, as_json: bool) -> int:
    """List the calls that changed files, or show what one changed.

    CALL is an id, which may be cut short before its dash if only one call has it.
    Under NOW stands whether a path is still as the call left it: only then
    `holdfast undo` puts it back.
    """
    with ledger_and_undo(flags, looking=True) as (setting, ledger, undo):
        if call_id is None:
            return _list(ledger, limit, as_json=as_json)
        from holdfast.runtime.undo.showing import diff_of

        plan = undo.plan(ledger.find(call_id))
        names = [name_of(item, setting) for item in plan.items]
        diffs = [
            diff_of(item, ledger.blobs, visible_path(name)) if diff else None
            for item, name in zip(plan.items, names, strict=True)
        ]
        if as_json:
            for item, text in zip(plan.items, diffs, strict=True):
                screen.put_json(change_output(item, plan.call_id, text))
            return 0
        if not plan.items:
            screen.say(f"Call {visible_name(plan.call_id)} changed no files that were recorded.")
            return 0
        rows = [
            [item.change.kind, fate_words(item), visible(visible_path(name))]
            for item, name in zip(plan.items, names, strict=True)
        ]
        put_table(["change", "now", "path"], rows)
        for text in diffs:
            for line in diff_lines(text or "", sys.stdout):
                screen.say(line)
        if plan.undone_by is not None:
            screen.note(f"It was undone by {visible_name(plan.undone_by)}.")
    return 0


def _list(ledger: Ledger, limit: int, *, as_json: bool) -> int:
    from holdfast.store.changes import changes_of, changing_calls, undone_by

    rows: list[list[str]] = []
    unreadable: list[str] = []
    for call_id in changing_calls(ledger, limit):
        try:
            record = ledger.call(call_id)
            count, undone = len(changes_of(ledger, call_id)), undone_by(ledger, call_id)
        except LedgerCorrupt:
            unreadable.append(call_id)
            continue
        if as_json:
            tool, at = record.call.tool, record.received_at
            screen.put_json(ChangingCall(call_id=call_id, tool=tool, received_at=at, paths=count, undone_by=undone))
        paths = "1 path" if count == 1 else f"{count:,} paths"
        rows.append([call_id, when(record.received_at), paths, "undone" if undone else "", record_preview(record)])
    note_unreadable(unreadable)
    if not as_json and rows:
        put_table(["id", "when", "changed", "", "call"], rows)
    elif not as_json:
        screen.say("No call has changed a file here that was recorded.")
    return 0
