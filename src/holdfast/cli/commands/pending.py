"""`holdfast pending`: list the pending calls, or show one in full."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from holdfast.cli import console
from holdfast.cli.answers import find_by_id
from holdfast.cli.layout import field_lines, print_message, quoted_field_lines, wrap_sentence
from holdfast.cli.pending_view import age, group_identical, origin, print_pending, print_unreadable, record_shown
from holdfast.cli.project_context import Flags, read_ledger
from holdfast.cli.projects import ProjectScope, all_ledgers, enter_project
from holdfast.cli.root import complete_pending, with_flags
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.json_output import PendingOutput, waits_for
from holdfast.rules.shapes import Group, group_by_shape
from holdfast.runtime.call_description import stands_alone
from holdfast.text.escape import escape_name

_FEWEST: Final = 3
"""Calls of the same shape that are listed together."""
_MAX_LINES: Final = 3
"""Lines of the names of arguments that differ."""


@click.command()
@click.argument("call_id", metavar="[ID]", required=False, shell_complete=complete_pending)
@click.option("--project", type=click.Choice(["this", "all"]), default="this", help="Look in all your projects.")
@click.option("--flat", is_flag=True, help="List every call, also where several have the same shape.")
@with_flags
def pending(flags: Flags, call_id: str | None, project: ProjectScope, flat: bool, as_json: bool) -> int:
    """List the calls that need your answer, or show one in full.

    Calls are grouped by origin: a document, an agent or a program. Three or more
    that differ only in values are listed together; --flat lists each. ID may be
    shortened to the part before its dash if that is unique. `holdfast approve ID`
    approves the call as it was shown in full here, with ID or --json.

    \b
    Example:
      holdfast pending
      holdfast pending 3f2a
    """
    if project == "all":
        if call_id is None:
            return _list_all_projects(flags, flat=flat, as_json=as_json)
        enter_project(flags, call_id, "pending")
    with read_ledger(flags, expire=True) as ledger:
        calls = ledger.pending() if call_id is None else [find_by_id(flags, ledger, call_id, "pending")]
        print_unreadable(ledger.unreadable_pending() if call_id is None else ())
    if as_json:
        for item in calls:
            console.print_json(PendingOutput.of(item))
        record_shown(ledger.path.parent, calls)
    elif call_id is not None:
        print_pending(calls[0], sys.stdout, whole=True)
        record_shown(ledger.path.parent, calls)
    elif not calls:
        console.print_out("Nothing is pending.")
    else:
        _print_list(calls, ledger.path.parent, flat=flat)
        if any(item.state is State.PENDING for item in calls):
            print_message(
                "Answer with `holdfast approve ID`, `holdfast reject ID -m TEXT` or `holdfast respond ID TEXT`."
            )
    return 0


def _list_all_projects(flags: Flags, *, flat: bool, as_json: bool) -> int:
    count = 0
    for ledger in all_ledgers(flags):
        calls = ledger.pending()
        count += len(calls)
        for folder in dict.fromkeys(item.call.cwd for item in calls):
            here = [item for item in calls if item.call.cwd == folder]
            if as_json:
                record_shown(ledger.path.parent, here)
                for item in here:
                    console.print_json(PendingOutput.of(item))
                continue
            console.print_out_lines(quoted_field_lines("folder", folder, sys.stdout))
            _print_list(here, ledger.path.parent, flat=flat)
    if not count and not as_json:
        console.print_out("Nothing is pending.")
    elif not as_json:
        print_message("Answer with `holdfast approve ID --project all` or `holdfast reject ID --project all`.")
    return 0


def _print_list(calls: Sequence[PendingCall], state: Path, *, flat: bool) -> None:
    """Print the calls by origin: identical ones once, and unless `flat` those of the same shape together."""
    identical = group_identical(calls)
    for where in dict.fromkeys(origin(group[0]) for group in identical):
        console.print_out_lines(wrap_sentence(f"From {where}:", sys.stdout, "bold"))
        here = {group[0].call.id: group for group in identical if origin(group[0]) == where}
        firsts = [group[0] for group in here.values()]
        waiting = [item for item in firsts if item.state is State.PENDING and not stands_alone(item)]
        shapes = [] if flat else [shape for shape in group_by_shape(waiting) if len(shape.calls) >= _FEWEST]
        together = {item.call.id: shape for shape in shapes for item in shape.calls}
        for call_id, group in here.items():
            shape = together.get(call_id)
            if shape is None:
                _print_identical(group, state)
            elif shape.calls[0].call.id == call_id:
                _print_shape(shape, [item for member in shape.calls for item in here[member.call.id]])
            else:
                continue
            console.print_out()


def _print_identical(group: Sequence[PendingCall], state: Path) -> None:
    if print_pending(group[0], sys.stdout, listed=True):
        record_shown(state, group)
    if len(group) > 1:
        same = ", ".join(escape_name(item.call.id) for item in group[1:])
        told = f"{same} (identical; each needs its own answer)"
        console.print_out_lines(field_lines("same", told, sys.stdout))


def _print_shape(shape: Group, calls: Sequence[PendingCall]) -> None:
    """Print one line about several calls, their ids and the names of the arguments that differ."""
    first = calls[0]
    needed = f"wait for {waits_for(first)}, the oldest for {age(first.held_at)}"
    title = f"{len(calls):,} calls of {escape_name(first.call.tool)} with the same shape {needed}"
    console.print_out_lines(wrap_sentence(title, sys.stdout, "bold"))
    ids = ", ".join(escape_name(item.call.id) for item in calls)
    console.print_out_lines(field_lines("ids", ids, sys.stdout))
    differing = ", ".join(item.label for item in shape.differing) or "only in the files they concern"
    console.print_out_lines(quoted_field_lines("differ", differing, sys.stdout, _MAX_LINES))
    console.print_out_lines(field_lines("each", "`holdfast pending --flat` lists each of them", sys.stdout))
