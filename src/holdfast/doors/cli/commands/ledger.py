"""`holdfast ledger`: what happened, whether the record of it is whole, and all of it as JSON lines."""

from __future__ import annotations

import re
import sys
import time
from datetime import datetime

import click
from msgspec.structs import asdict, replace

from holdfast.assemble import open_ledger
from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import FAILED, report
from holdfast.doors.cli.folding import label_line, put_table, quote, quoted_field
from holdfast.doors.cli.held import note_unreadable
from holdfast.doors.cli.outputs import CallOutput, Pruning, Verification
from holdfast.doors.cli.place import Flags, ledger_here, setting_here, whoami
from holdfast.doors.cli.root import DefaultGroup, common, complete_call, complete_tool
from holdfast.rules.chain import source_name
from holdfast.store.ledger import Ledger
from holdfast.store.queries import CallRecord
from holdfast.store.retention import DAY, prune, prune_by
from holdfast.text.preview import arguments_text, preview
from holdfast.text.truncate import format_size
from holdfast.text.visible import visible_name


@click.group(cls=DefaultGroup)
def ledger() -> None:
    """The record of every call: list, show, verify, export, prune."""


@ledger.command("list")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many, newest first.")
@click.option("--tool", help="Only calls of this tool.", shell_complete=complete_tool)
@click.option("--state", type=click.Choice([state.value for state in State]), help="Only calls in this state.")
@common
def list_calls(flags: Flags, limit: int, tool: str | None, state: str | None, as_json: bool) -> int:
    """List calls, newest first. This is what `holdfast ledger` alone does."""
    unreadable: list[str] = []
    with ledger_here(flags) as kept:
        records = kept.calls(limit, tool, None if state is None else State(state), unreadable=unreadable)
    note_unreadable(unreadable)
    if as_json:
        for record in records:
            screen.put_json(CallOutput.of(record))
    elif not records:
        screen.say("No calls are recorded here." if tool is None and state is None else "No such calls are recorded.")
    else:
        rows = [
            [record.call.id, when(record.received_at), record.state.replace("_", " "), record_preview(record)]
            for record in records
        ]
        put_table(["id", "when", "state", "call"], rows)
    return 0


@ledger.command()
@click.argument("call_id", metavar="ID", shell_complete=complete_call)
@common
def show(flags: Flags, call_id: str, as_json: bool) -> int:
    """Show all that is recorded of one call.

    ID may be cut short before its dash, if only one call has it.
    """
    with ledger_here(flags) as kept:
        record = kept.call(kept.find(call_id))
    if as_json:
        screen.put_json(CallOutput.of(record))
    else:
        _show(record)
    return 0


@ledger.command()
@click.option("--anchor", metavar="HEAD", help="A head noted earlier, which the ledger must still contain.")
@common
def verify(flags: Flags, anchor: str | None, as_json: bool) -> int:
    """Check that nothing in the ledger was changed, removed, inserted or moved.

    Note the head it prints somewhere else: given as --anchor later, it also
    proves that the whole ledger was not written anew.
    """
    if anchor is not None and not re.fullmatch("[0-9a-f]{64}", anchor):
        raise click.BadParameter("a head is 64 hexadecimal digits, as `holdfast ledger verify` prints it.")
    with ledger_here(flags) as kept:
        found = kept.verify(anchor)
        path = kept.path
    if as_json:
        screen.put_json(Verification(ledger=str(path), **asdict(found)))
        return 0 if found.ok else FAILED
    if found.ok:
        pruned = f" ({found.pruned:,} more were pruned)" if found.pruned else ""
        screen.say(f"The ledger is whole: {counted(found.entries)}{pruned}, head {found.head}.")
        return 0
    if found.unreadable:
        problem = f"{found.problem} Nothing else is wrong with the ledger {path}; `holdfast doctor` says what to do."
        return report("ledger_corrupt", problem, FAILED, as_json=False)
    problem = f"The ledger {path} was changed or damaged: {found.problem or 'unknown'} Keep the file and find out who."
    return report("ledger_corrupt", problem, FAILED, as_json=False)


@ledger.command()
@common
def export(flags: Flags, as_json: bool) -> int:
    """Write every entry as a line of JSON, oldest first, with its hash.

    The output is JSON with and without --json.
    """
    with ledger_here(flags) as kept:
        for line in kept.export():
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    return 0


@ledger.command("prune")
@click.option("--older-than", "days", type=click.FloatRange(0), metavar="DAYS",
              help="Finished calls older than this go (ledger.keep_days).")
@click.option("--max-bytes", type=click.IntRange(0), metavar="N",
              help="The oldest kept content goes until this much is left (ledger.max_blob_bytes).")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@common
def prune_calls(flags: Flags, days: float | None, max_bytes: int | None, dry_run: bool, as_json: bool) -> int:
    """Remove old calls and what was kept for them: earlier contents, long outputs.

    Calls that wait or run, grants and trust are never removed. What is gone
    cannot be undone any more. The ledger notes what was removed and can still be
    verified; note the new head.
    """
    setting = setting_here(flags)
    config = setting.loaded.config.ledger
    config = config if max_bytes is None else replace(config, max_blob_bytes=max_bytes)
    with open_ledger(setting) if setting.ledger_path.exists() else Ledger.in_memory() as kept:
        kept.recover()
        if days is None:
            done = prune_by(kept, config, by=whoami(), dry_run=dry_run)
        else:
            older_than = time.time() - days * DAY
            done = prune(kept, older_than=older_than, max_bytes=config.max_blob_bytes, by=whoami(), dry_run=dry_run)
        head = kept.head()
    if as_json:
        screen.put_json(Pruning(**asdict(done), dry_run=dry_run, head=head))
    else:
        said = "Would remove" if dry_run else "Removed"
        calls = "1 call" if done.calls == 1 else f"{done.calls:,} calls"
        screen.say(
            f"{said} {calls} ({counted(done.entries)}) and {format_size(done.freed)} of kept content; "
            f"{format_size(done.kept_bytes)} stay. Head {head}."
        )
    return 0


def counted(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"


def when(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def record_preview(record: CallRecord) -> str:
    from holdfast.tools import builtin_tools

    known = {tool.name: tool.format_preview for tool in builtin_tools()}
    width = max(40, screen.screen_width())
    return preview(record.call.name_used, record.call.args, width, known.get(record.call.tool))


def _show(record: CallRecord) -> None:
    call = record.call
    screen.say(screen.paint(f"Call {visible_name(call.id)}", "bold"))
    _field("tool", call.tool)
    _field("state", record.state.replace("_", " "))
    _field("caller", " ".join(word for word in (call.caller.door, call.caller.agent or "") if word))
    _field("cwd", call.cwd)
    if call.parent is not None:
        _field("parent", call.parent)
    _field("came", when(record.received_at))
    for decision in record.decisions:
        _field("decided", f"{decision.verdict}: {decision.reason} ({source_name(decision.source)})")
    for given in record.answers:
        said = f": {given.answer.message}" if given.answer.message else ""
        wide = f", and {given.answer.widen.words}" if given.answer.widen else ""
        _field("answer", f"{given.answer.kind} by {given.answer.by} at {when(given.at)}{wide}{said}")
    if record.began_at is not None:
        _field("began", when(record.began_at))
    if record.ended_at is not None:
        _field("ended", when(record.ended_at))
    _block("with", arguments_text(call.args))
    if record.result is not None:
        _block("result" if record.result.success else "error", record.result.text)


def _field(name: str, text: str) -> None:
    screen.say_lines(quoted_field(name, text, sys.stdout, width=8))


def _block(name: str, text: str) -> None:
    screen.say_lines((label_line(name, sys.stdout), *quote(text, sys.stdout).lines))
