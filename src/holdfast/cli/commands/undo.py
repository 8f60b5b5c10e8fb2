"""`holdfast undo` and `holdfast changes`: what calls changed on disk, and putting it back."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

import click

from holdfast.cli import console
from holdfast.cli.commands.ledger import record_preview, when
from holdfast.cli.errors import FAILED, REJECTED, UsageProblem, report
from holdfast.cli.json_output import ChangeOutput, ChangingCallOutput, UndoOutput
from holdfast.cli.layout import print_message, print_table, quote, quoted_field_lines
from holdfast.cli.pending_view import print_unreadable
from holdfast.cli.project_context import Flags, project_here, tools_by_name, whoami
from holdfast.cli.prompt import confirm
from holdfast.cli.root import complete_call, with_flags
from holdfast.contract.errors import LedgerCorrupt, UndoRefused
from holdfast.factory.runtime import Project, open_ledger
from holdfast.runtime.undo.restore import TOOL, PathUndo, Undo, UndoPlan, check_plan, describe_calls, diff_of
from holdfast.store.changes import changing_calls, net_changes, undone_by
from holdfast.store.ledger import Ledger
from holdfast.text.escape import escape, escape_name

_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan", "[": "yellow"}
MAX_SHOWN: Final = 200
"""Lines of a diff that are shown before someone is asked."""
MAX_PATHS: Final = 50
"""Paths that are shown then."""


@contextmanager
def ledger_and_undo(flags: Flags, *, read_only: bool) -> Generator[tuple[Project, Ledger, Undo]]:
    project = project_here(flags)
    there = project.ledger_path.exists()
    with open_ledger(project, read_only=read_only) if there else Ledger.in_memory() as ledger:
        if there and not read_only:
            ledger.recover()
        yield project, ledger, Undo(ledger, [project.root or project.cwd], project.state)


def name_of(item: PathUndo, project: Project) -> str:
    """Relative to the project, where it is in it."""
    root = str(project.root or project.cwd)
    return os.path.relpath(item.path, root) if item.path.startswith(f"{root}/") else item.path


def change_output(item: PathUndo, call_id: str, diff: str | None) -> ChangeOutput:
    path, why = visible_path(item.path), visible_path(item.why) or None
    return ChangeOutput(call_id=call_id, path=path, kind=item.change.kind, undo=item.action, why=why, diff=diff)


def visible_path(path: str) -> str:
    """A name with bytes that are not UTF-8 cannot be JSON."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def fate_words(item: PathUndo) -> str:
    if item.action == "refused":
        return escape(item.why)
    return "as before the call" if item.action == "already" else "as the call left it"


def diff_lines(diff: str, stream: TextIO, limit: int | None = None, more: str = "") -> list[str]:
    """The lines of a diff, safe to print on `stream`, at most `limit` of them; `more` says where all of it is."""
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
    """List the calls that changed files, or show what one changed.

    CALL is an id, which may be cut short before its dash if only one call has it.
    Under NOW stands whether a path is still as the call left it: only then
    `holdfast undo` puts it back.
    """
    with ledger_and_undo(flags, read_only=True) as (project, ledger, undo):
        if call_id is None:
            return _list(ledger, limit, as_json=as_json)
        plan = undo.plan(ledger.find(call_id))
        names = [name_of(item, project) for item in plan.items]
        diffs = [
            diff_of(item, ledger.blobs, visible_path(name)) if diff else None
            for item, name in zip(plan.items, names, strict=True)
        ]
        if as_json:
            for item, text in zip(plan.items, diffs, strict=True):
                console.print_json(change_output(item, plan.call_id, text))
            return 0
        if not plan.items:
            console.print_out(f"Call {escape_name(plan.call_id)} changed no files that were recorded.")
            return 0
        rows = [
            [item.change.kind, fate_words(item), escape(visible_path(name))]
            for item, name in zip(plan.items, names, strict=True)
        ]
        print_table(["change", "now", "path"], rows)
        for text in diffs:
            console.print_out_lines(diff_lines(text or "", sys.stdout))
        if plan.undone_by is not None:
            console.print_err(f"It was undone by {escape_name(plan.undone_by)}.")
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
        shown = record_preview(record, tools.get(record.call.tool))
        rows.append([call_id, when(record.received_at), paths, "undone" if undone else "", shown])
    print_unreadable(unreadable)
    if not as_json and rows:
        print_table(["id", "when", "changed", "", "call"], rows)
    elif not as_json:
        console.print_out("No call has changed a file here that was recorded.")
    return 0


_KIND: Final = 8
_LEAST: Final = 8
"""Lines of a diff that are shown when others have taken the room."""


@click.command()
@click.argument("call_id", metavar="[CALL]", required=False, shell_complete=complete_call)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@click.option("--partial", is_flag=True, help="Put back what can be, and leave what cannot.")
@with_flags
def undo(flags: Flags, call_id: str | None, yes: bool, partial: bool, as_json: bool) -> int:
    """Put back what a call changed on disk.

    CALL is an id, which may be cut short before its dash if only one call has it;
    without it, the last call that changed something and was not undone is meant.
    What would happen is shown first. If a path is no longer as the call left it,
    nothing is put back, unless --partial is given. An undo is a call itself and
    can be undone.
    """
    with ledger_and_undo(flags, read_only=False) as (project, ledger, undoing):
        plan = undoing.plan(_last(ledger) if call_id is None else ledger.find(call_id))
        if not as_json:
            _show(plan, project, ledger)
        check_plan(plan, partial=partial)
        if not yes and not console.can_ask():
            raise UsageProblem(f"Nothing was put back; look at it, then run `holdfast undo --yes {plan.call_id}`.")
        if not yes and not asyncio.run(confirm("Put this back? [y/N] ")):
            return _left(as_json=as_json)
        result = undoing.run(plan, by=whoami(), partial=partial)
    if as_json:
        changes = [change_output(item, plan.call_id, None) for item in plan.items]
        error = None if result.error is None else visible_path(result.error)
        console.print_json(
            UndoOutput(
                call_id=plan.call_id, undo_id=result.call_id, success=result.success, error=error, changes=changes
            )
        )
    elif result.success:
        console.print_out(f"{escape(result.output)} It is call {result.call_id}.")
    else:
        print_message(escape(result.error or ""))
    return 0 if result.success else FAILED


def _last(ledger: Ledger) -> str:
    for call_id in changing_calls(ledger, 1000):
        with suppress(LedgerCorrupt):
            if ledger.call(call_id).call.tool != TOOL and undone_by(ledger, call_id) is None:
                return call_id
    raise UndoRefused("No call here has changed a file that could be put back; `holdfast changes` lists what did.")


def _show(plan: UndoPlan, project: Project, ledger: Ledger) -> None:
    if plan.items:
        console.print_err(console.paint(f"Undo {escape(describe_calls(plan)).rstrip(',')}:", "bold"))
    room = MAX_SHOWN
    for item in plan.items[:MAX_PATHS]:
        name = visible_path(name_of(item, project))
        for label, text in ((item.change.kind, name), ("now", fate_words(item))):
            console.print_err_lines(quoted_field_lines(label, text, sys.stderr, width=_KIND, show=console.shown))
        if item.action == "put_back" and room > 0:
            more = f"`holdfast changes {plan.call_id} --diff` shows all"
            lines = diff_lines(diff_of(item, ledger.blobs, name, back=True), sys.stderr, max(_LEAST, room), more)
            console.print_err_lines(lines)
            room -= len(lines)
    if len(plan.items) > MAX_PATHS:
        console.print_err(f"  … and {len(plan.items) - MAX_PATHS:,} more")
    if plan.items:
        console.print_err(f"In all: {_counts(plan)}.")


def _counts(plan: UndoPlan) -> str:
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
    console.print_err(said)
    return REJECTED
