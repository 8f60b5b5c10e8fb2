"""`holdfast changes`: the files that calls changed, and whether they can be put back."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

import click

from holdfast.cli import console
from holdfast.cli.commands.ledger import preview_width
from holdfast.cli.layout import print_table, quote
from holdfast.cli.pending_view import print_unreadable
from holdfast.cli.project_context import Flags, project_here, tools_by_name
from holdfast.cli.root import complete_call, with_flags
from holdfast.contract.errors import LedgerCorrupt
from holdfast.factory.runtime import Project, open_ledger
from holdfast.json_output import ChangeOutput, ChangingCallOutput, json_path
from holdfast.runtime.call_story import record_preview
from holdfast.runtime.undo.restore import Undo, describe_state, diff_of, display_name
from holdfast.store.changes import changing_calls, net_changes, undone_by
from holdfast.store.ledger import Ledger
from holdfast.text.escape import escape, escape_name
from holdfast.text.times import format_time

_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan", "[": "yellow"}


@contextmanager
def ledger_and_undo(flags: Flags, *, read_only: bool) -> Generator[tuple[Project, Ledger, Undo]]:
    project = project_here(flags)
    exists = project.ledger_path.exists()
    with open_ledger(project, read_only=read_only) if exists else Ledger.in_memory() as ledger:
        if exists and not read_only:
            ledger.recover()
        yield project, ledger, Undo(ledger, [project.root or project.cwd], project.state)


def diff_lines(diff: str, stream: TextIO, limit: int | None = None, more: str = "") -> list[str]:
    """Return the lines of a diff, safe to print on `stream`.

    Of more than `limit` lines the middle is hidden, with `more` as the hint where to see it.
    """
    return quote(diff.rstrip("\n"), stream, limit, style=_style, more=more).lines if diff else []


def _style(line: str, _: int) -> tuple[str, ...]:
    if line.startswith(("--- ", "+++ ")):
        return ("bold",)
    return (_COLOURS[line[0]],) if line[:1] in _COLOURS else ()


@click.command()
@click.argument("call_id", metavar="[CALL]", required=False, shell_complete=complete_call)
@click.option("--diff", is_flag=True, help="Show what changed in each file.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many calls to list.")
@with_flags
def changes(flags: Flags, call_id: str | None, diff: bool, limit: int, as_json: bool) -> int:
    """List the calls that changed files, or the files one changed.

    CALL is an id; it may be shortened to the part before its dash if that is
    unique. The column NOW says whether a path is still as the call left it. Only
    then does `holdfast undo` put it back.

    \b
    Example:
      holdfast changes
      holdfast changes 3f2a --diff
    """
    with ledger_and_undo(flags, read_only=True) as (project, ledger, undo):
        if call_id is None:
            return _list(ledger, limit, as_json=as_json)
        plan = undo.plan(ledger.find(call_id))
        names = [display_name(item, project.root or project.cwd) for item in plan.items]
        diffs = [
            diff_of(item, ledger.blobs, json_path(name)) if diff else None
            for item, name in zip(plan.items, names, strict=True)
        ]
        if as_json:
            for item, text in zip(plan.items, diffs, strict=True):
                console.print_json(ChangeOutput.of(item, plan.call_id, text))
            return 0
        if not plan.items:
            console.print_out(f"No file changes are recorded for call {escape_name(plan.call_id)}.")
            return 0
        rows = [
            [item.change.kind, escape(describe_state(item)), escape(json_path(name))]
            for item, name in zip(plan.items, names, strict=True)
        ]
        print_table(["change", "now", "path"], rows)
        for text in diffs:
            console.print_out_lines(diff_lines(text or "", sys.stdout))
        if plan.undone_by is not None:
            console.print_err(f"Undone by call {escape_name(plan.undone_by)}.")
    return 0


def _list(ledger: Ledger, limit: int, *, as_json: bool) -> int:
    rows: list[list[str]] = []
    unreadable: list[str] = []
    tools = tools_by_name({}, ())
    for call_id in changing_calls(ledger, limit):
        try:
            record = ledger.call(call_id)
            count, undone = len(net_changes(ledger, call_id)), undone_by(ledger, call_id)
        except LedgerCorrupt:
            unreadable.append(call_id)
            continue
        if as_json:
            tool, at = record.call.tool, record.received_at
            console.print_json(
                ChangingCallOutput(call_id=call_id, tool=tool, received_at=at, paths=count, undone_by=undone)
            )
        paths = "1 path" if count == 1 else f"{count:,} paths"
        shown = record_preview(record, tools.get(record.call.tool), preview_width())
        rows.append([call_id, format_time(record.received_at), paths, "undone" if undone else "", shown])
    print_unreadable(unreadable)
    if not as_json and rows:
        print_table(["id", "when", "changed", "", "call"], rows)
    elif not as_json:
        console.print_out("No file changes are recorded here.")
    return 0
