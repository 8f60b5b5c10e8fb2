"""`holdfast pending`."""

from __future__ import annotations

import sys

import click

from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.folding import note_folded
from holdfast.doors.cli.held import show_held
from holdfast.doors.cli.holding import find_held, note_shown, note_unreadable
from holdfast.doors.cli.options import common, complete_pending
from holdfast.doors.cli.outputs import Pending
from holdfast.doors.cli.place import Flags, ledger_here


@click.command()
@click.argument("call_id", metavar="[ID]", required=False, shell_complete=complete_pending)
@common
@click.pass_obj
def pending(flags: Flags, call_id: str | None, as_json: bool) -> int:
    """List the calls that wait for a person, or show all about one.

    ID may be cut short before its dash, if only one call has it. What is shown in
    full, with ID or --json, is what `holdfast approve ID` approves.
    """
    with ledger_here(flags, expire=True) as ledger:
        waiting = ledger.pending() if call_id is None else [find_held(ledger, call_id)]
        note_unreadable(ledger.unreadable_pending() if call_id is None else ())
    if as_json:
        for held in waiting:
            screen.put_json(Pending.of(held))
        note_shown(ledger.path.parent, waiting)
    elif call_id is not None:
        show_held(waiting[0], sys.stdout, whole=True)
        note_shown(ledger.path.parent, waiting)
    elif not waiting:
        screen.say("Nothing is waiting.")
    else:
        for held in waiting:
            if show_held(held, sys.stdout, listed=True):
                note_shown(ledger.path.parent, [held])
            screen.say()
        if any(held.state is State.PENDING for held in waiting):
            note_folded("Answer with `holdfast approve ID`, `holdfast reject ID -m TEXT` or `holdfast answer ID TEXT`.")
    return 0
