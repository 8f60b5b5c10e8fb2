"""`holdfast pending`."""

from __future__ import annotations

import sys

import click

from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.held import HeldView, age
from holdfast.doors.cli.holding import SHORT_DIGEST, find_held, note_shown, note_unreadable
from holdfast.doors.cli.options import common, complete_pending
from holdfast.doors.cli.place import Flags, ledger_here
from holdfast.doors.cli.shapes import held_shape, waits_for
from holdfast.text.visible import visible


@click.command()
@click.argument("call_id", metavar="[ID]", required=False, shell_complete=complete_pending)
@common
@click.pass_obj
def pending(flags: Flags, call_id: str | None, as_json: bool) -> int:
    """List the calls that wait for a person, or show all about one.

    ID may be cut short before its dash, if only one call has it. What is shown in
    full, with ID or --json, is what `holdfast approve ID` approves.
    """
    with ledger_here(flags) as ledger:
        waiting = ledger.pending() if call_id is None else [find_held(ledger, call_id)]
        note_unreadable(ledger.unreadable_pending() if call_id is None else ())
    if as_json:
        for held in waiting:
            screen.put_json(held_shape(held))
        note_shown(ledger.path.parent, waiting)
    elif call_id is not None:
        for line in HeldView(waiting[0], sys.stdout).whole():
            screen.say(line)
        note_shown(ledger.path.parent, waiting)
    elif not waiting:
        screen.say("Nothing is waiting.")
    else:
        screen.put_table(
            ["id", "waits for", "since", "digest", "what it would do", "why it is asked about"],
            [
                [
                    held.call.id,
                    waits_for(held),
                    age(held.held_at),
                    held.digest[:SHORT_DIGEST],
                    held.preview,
                    visible(held.decision.reason),
                ]
                for held in waiting
            ],
        )
        if any(held.state is State.PENDING for held in waiting):
            screen.note(
                "Answer with `holdfast approve ID`, `holdfast reject ID -m TEXT` or `holdfast answer ID TEXT`; "
                "`holdfast pending ID` shows all of a call."
            )
    return 0
