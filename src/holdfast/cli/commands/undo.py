"""`holdfast undo`: put back what a call changed on disk."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click

from holdfast.cli import console
from holdfast.cli.commands.changes import diff_lines, ledger_and_undo
from holdfast.cli.errors import FAILED, REJECTED, UsageProblem, report
from holdfast.cli.layout import print_message, quoted_field_lines, wrap_sentence
from holdfast.cli.project_context import Flags, whoami
from holdfast.cli.prompt import confirm
from holdfast.cli.root import complete_call, with_flags
from holdfast.factory.runtime import Project
from holdfast.json_output import ChangeOutput, UndoOutput, json_path
from holdfast.runtime.undo.restore import (
    UndoPlan,
    check_plan,
    describe_calls,
    describe_counts,
    describe_state,
    diff_of,
    display_name,
    last_to_undo,
)
from holdfast.store.ledger import Ledger
from holdfast.text.escape import escape, escape_once

_LABEL_WIDTH: Final = 8
_MAX_PATHS: Final = 50
_MAX_DIFF_LINES: Final = 200
"""Lines shown of all diffs together before the person is asked."""
_MIN_DIFF_LINES: Final = 8
"""Lines shown of each diff while any of `_MAX_DIFF_LINES` are left."""


@click.command()
@click.argument("call_id", metavar="[CALL]", required=False, shell_complete=complete_call)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@click.option("--partial", is_flag=True, help="Put back the paths that can be, and leave the others.")
@with_flags
def undo(flags: Flags, call_id: str | None, yes: bool, partial: bool, as_json: bool) -> int:
    """Put back what a call changed on disk.

    CALL is an id; it may be shortened to the part before its dash if that is
    unique. Without CALL: the last call that changed files and was not undone.
    You see what would change and confirm it. If a path is no longer as the call
    left it, nothing is put back unless you give --partial. An undo is a call
    itself and can be undone.

    \b
    Example:
      holdfast undo
      holdfast undo 3f2a --partial
    """
    with ledger_and_undo(flags, read_only=False) as (project, ledger, undoing):
        plan = undoing.plan(last_to_undo(ledger) if call_id is None else ledger.find(call_id))
        if not as_json:
            _show(plan, project, ledger)
        check_plan(plan, partial=partial)
        if not yes and not console.can_ask():
            raise UsageProblem(f"Nothing was put back. Review it, then run `holdfast undo --yes {plan.call_id}`.")
        if not yes and not asyncio.run(confirm("Put this back? [y/N] ")):
            return _report_declined(as_json=as_json)
        result = undoing.run(plan, by=whoami(), partial=partial)
    if as_json:
        changes = [ChangeOutput.of(item, plan.call_id, None) for item in plan.items]
        error = None if result.error is None else json_path(result.error)
        console.print_json(
            UndoOutput(
                call_id=plan.call_id, undo_id=result.call_id, success=result.success, error=error, changes=changes
            )
        )
    elif result.success:
        done = f"{escape(result.output)} The undo is call {result.call_id}."
        console.print_out_lines(wrap_sentence(done, sys.stdout))
    else:
        print_message(escape(result.error or ""))
    return 0 if result.success else FAILED


def _show(plan: UndoPlan, project: Project, ledger: Ledger) -> None:
    if plan.items:
        console.print_err(console.paint(f"Undo {escape(describe_calls(plan)).rstrip(',')}:", "bold"))
    room = _MAX_DIFF_LINES
    for item in plan.items[:_MAX_PATHS]:
        name = json_path(display_name(item, project.root or project.cwd))
        for label, text in ((item.change.kind, name), ("now", escape(describe_state(item)))):
            console.print_err_lines(quoted_field_lines(label, text, sys.stderr, width=_LABEL_WIDTH, show=escape_once))
        if item.action == "put_back" and room > 0:
            more = f"`holdfast changes {plan.call_id} --diff` shows all"
            lines = diff_lines(
                diff_of(item, ledger.blobs, name, back=True), sys.stderr, max(_MIN_DIFF_LINES, room), more
            )
            console.print_err_lines(lines)
            room -= len(lines)
    if len(plan.items) > _MAX_PATHS:
        console.print_err(f"  … and {len(plan.items) - _MAX_PATHS:,} more")
    if plan.items:
        console.print_err(f"Total: {describe_counts(plan)}.")


def _report_declined(*, as_json: bool) -> int:
    message = "Nothing was put back."
    if as_json:
        return report("rejected", message, REJECTED, as_json=True)
    console.print_err(message)  # the person declined: not an "Error:"
    return REJECTED
