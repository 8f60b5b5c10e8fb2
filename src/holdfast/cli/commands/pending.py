"""`holdfast pending`: list the pending calls, or show one in full."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from holdfast.cli import console
from holdfast.cli.answers import find_by_id
from holdfast.cli.layout import field_lines, print_message, quoted_field_lines, wrap_sentence
from holdfast.cli.pending_view import group_identical, origin, print_pending, print_unreadable, record_shown
from holdfast.cli.project_context import Flags, read_ledger
from holdfast.cli.projects import ProjectScope, all_ledgers, enter_project
from holdfast.cli.root import complete_pending, with_flags
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.json_output import PendingOutput
from holdfast.text.escape import escape_name


@click.command()
@click.argument("call_id", metavar="[ID]", required=False, shell_complete=complete_pending)
@click.option("--project", type=click.Choice(["this", "all"]), default="this", help="Look in all your projects.")
@with_flags
def pending(flags: Flags, call_id: str | None, project: ProjectScope, as_json: bool) -> int:
    """List the calls that need your answer, or show one in full.

    Calls are grouped by origin: a document, an agent or a program. ID may be
    shortened to the part before its dash if that is unique. `holdfast approve ID`
    approves the call as it was shown in full here, with ID or --json.

    \b
    Example:
      holdfast pending
      holdfast pending 3f2a
    """
    if project == "all":
        if call_id is None:
            return _list_all_projects(flags, as_json=as_json)
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
        _print_list(calls, ledger.path.parent)
        if any(item.state is State.PENDING for item in calls):
            print_message(
                "Answer with `holdfast approve ID`, `holdfast reject ID -m TEXT` or `holdfast respond ID TEXT`."
            )
    return 0


def _list_all_projects(flags: Flags, *, as_json: bool) -> int:
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
            _print_list(here, ledger.path.parent)
    if not count and not as_json:
        console.print_out("Nothing is pending.")
    elif not as_json:
        print_message("Answer with `holdfast approve ID --project all` or `holdfast reject ID --project all`.")
    return 0


def _print_list(calls: Sequence[PendingCall], state: Path) -> None:
    """Print the calls by origin, identical ones once."""
    groups = group_identical(calls)
    for where in dict.fromkeys(origin(group[0]) for group in groups):
        console.print_out_lines(wrap_sentence(f"From {where}:", sys.stdout, "bold"))
        for group in (group for group in groups if origin(group[0]) == where):
            if print_pending(group[0], sys.stdout, listed=True):
                record_shown(state, group)
            if len(group) > 1:
                same = ", ".join(escape_name(item.call.id) for item in group[1:])
                told = f"{same} (identical; each needs its own answer)"
                console.print_out_lines(field_lines("same", told, sys.stdout))
            console.print_out()
