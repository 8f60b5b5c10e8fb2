"""`holdfast ledger`: list, show, verify, export and prune the record of every call, and list the connections."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import asdict, replace

from holdfast.cli import console
from holdfast.cli.attachment_view import attachment_line, is_missing, save_attachments
from holdfast.cli.errors import FAILED, report
from holdfast.cli.layout import label_line, print_table, quote, quoted_field_lines, wrap_sentence
from holdfast.cli.pending_view import print_unreadable
from holdfast.cli.project_context import Flags, project_here, read_ledger, tools_by_name, whoami
from holdfast.cli.root import DefaultGroup, complete_call, complete_tool, with_flags, with_save
from holdfast.contract.enums import State
from holdfast.contract.tool import Tool
from holdfast.factory.runtime import open_ledger
from holdfast.json_output import CallOutput, NetworkOutput, PruningOutput, VerificationOutput
from holdfast.net.hosts import normalize_host
from holdfast.net.network_log import NETWORK_LOG, NetworkEntry, read_log
from holdfast.runtime.call_story import call_origin, call_story, record_preview
from holdfast.store.ledger import Ledger
from holdfast.store.queries import CallFilter, CallRecord
from holdfast.store.retention import DAY, prune, prune_by_config
from holdfast.text.escape import escape_name
from holdfast.text.preview import format_arguments
from holdfast.text.suggest import did_you_mean
from holdfast.text.times import format_time, parse_time
from holdfast.text.truncate import format_size


@click.group(cls=DefaultGroup)
def ledger() -> None:
    """Read, verify, export and prune recorded calls and connections."""


def _since(text: str, *, end: bool = False) -> float:
    try:
        return parse_time(text, datetime.now().astimezone(), end=end)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _until(text: str) -> float:
    return _since(text, end=True)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.IGNORECASE | re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        fix = "Put a \\ before each literal ( ) [ ] * + ? ."
        raise click.BadParameter(f"Cannot read '{text}' as a regular expression ({error}). {fix}") from None


_FILTERS: Final = (
    click.option(
        "--since", type=_since, metavar="TIME", help="Only calls since this time: yesterday, 2h, 14:30, an ISO date."
    ),
    click.option(
        "--until", type=_until, metavar="TIME", help="Only calls until this time; a date includes the whole day."
    ),
    click.option("--grep", type=_pattern, metavar="REGEX", help="Only calls whose arguments, result or answer match."),
    click.option("--by", metavar="NAME", help="Only calls that this person or rule decided."),
    click.option("--document", metavar="FILE", help="Only calls from this document."),
    click.option(
        "--tool", metavar="NAME", help="Only calls of this tool or pattern (file.*).", shell_complete=complete_tool
    ),
    click.option(
        "--state",
        type=click.Choice([state.value for state in State]),
        metavar="STATE",
        help="Only calls in this state: done, failed, pending, …",
    ),
)


def filters(function: Callable[..., int]) -> Callable[..., int]:
    """Add the filter options, passed to the command as `wanted`."""

    @wraps(function)
    def command(
        *args: Any,
        since: float | None,
        until: float | None,
        grep: re.Pattern[str] | None,
        by: str | None,
        document: str | None,
        tool: str | None,
        state: str | None,
        **others: Any,
    ) -> int:
        if since is not None and until is not None and until <= since:
            raise click.UsageError("--until is not after --since, so no call can match. Swap them.")
        wanted = CallFilter(
            tool=tool,
            state=None if state is None else State(state),
            since=since,
            until=until,
            by=by,
            document=None if document is None else _document(document),
            text=grep,
        )
        return function(*args, wanted=wanted, **others)

    for option in reversed(_FILTERS):
        command = option(command)
    return command


def _document(name: str) -> str:
    """Return the full path of an existing document; a deleted one is matched by the end of its path."""
    path = Path(name)
    return str(path.resolve()) if path.exists() else name.removeprefix("./")


@ledger.command("list")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many, newest first.")
@filters
@with_flags
def list_calls(flags: Flags, limit: int, wanted: CallFilter, as_json: bool) -> int:
    """List calls, newest first.

    A call is listed if it matches every filter.

    \b
    Example:
      holdfast ledger --since yesterday --grep push
    """
    unreadable: list[str] = []
    with read_ledger(flags) as store:
        found = store.calls(limit + 1, wanted, unreadable=unreadable)
    print_unreadable(unreadable)
    records = found[:limit]
    if as_json:
        for record in records:
            console.print_json(CallOutput.of(record))
    elif not records:
        console.print_out("No calls are recorded here." if wanted == CallFilter() else _no_match(wanted))
    else:
        _table(records, tools_by_name(flags, {record.call.tool for record in records}))
    if len(found) > limit:
        console.print_err(f"More calls match. Use `-n {limit * 10}` to list up to {limit * 10}.")
    return 0


def _table(records: Sequence[CallRecord], tools: Mapping[str, Tool]) -> None:
    rows = [
        [
            record.call.id,
            format_time(record.received_at),
            record.state.replace("_", " "),
            record.decided_by,
            record_preview(record, tools.get(record.call.tool), preview_width()),
        ]
        for record in records
    ]
    print_table(["id", "when", "state", "decided by", "call"], rows)


def _no_match(wanted: CallFilter) -> str:
    from holdfast.tools import builtin_tools

    names = {name for tool in builtin_tools() for name in tool.names}
    meant = None if wanted.tool is None or wanted.tool in names else did_you_mean(wanted.tool, sorted(names))
    return f"No call matches. Did you mean --tool {meant}?" if meant else "No call matches."


@ledger.command()
@click.argument("call_id", metavar="ID", shell_complete=complete_call)
@with_save
@with_flags
def show(flags: Flags, call_id: str, save: str | None, as_json: bool) -> int:
    """Show everything recorded about one call.

    ID may be shortened to the part before its dash if that is unique. Images,
    audio and files of its result are saved, and their paths are printed.

    \b
    Example:
      holdfast ledger show 3f2a
    """
    lost = False
    with read_ledger(flags) as store:
        record = store.call(store.find(call_id))
        if record.result is not None and record.result.attachments:
            saved = save_attachments(record.result, store.path.parent, save)
            lost = save is not None and is_missing(saved.attachments)
            record = replace(record, result=saved)
    if as_json:
        console.print_json(CallOutput.of(record))
    else:
        _show(record)
    return int(lost)


@ledger.command()
@click.option("--anchor", metavar="HEAD", help="A hash printed by an earlier verify, which must still be there.")
@with_flags
def verify(flags: Flags, anchor: str | None, as_json: bool) -> int:
    """Check the ledger's hash chain for tampering or damage.

    Keep the head hash it prints somewhere else. Given as --anchor later, it also
    proves that the whole ledger was not replaced.

    \b
    Example:
      holdfast ledger verify
    """
    if anchor is not None and not re.fullmatch("[0-9a-f]{64}", anchor):
        raise click.BadParameter("a head is 64 hexadecimal digits, as `holdfast ledger verify` prints it.")
    with read_ledger(flags) as store:
        found = store.verify(anchor)
        path = store.path
    if as_json:
        console.print_json(VerificationOutput(ledger=str(path), **asdict(found)))
        return 0 if found.ok else FAILED
    if found.ok:
        pruned = f" ({found.pruned:,} more were pruned)" if found.pruned else ""
        done = f"Ledger OK: {format_entries(found.entries)}{pruned}, head {found.head}."
        console.print_out_lines(wrap_sentence(done, sys.stdout))
        return 0
    if found.unreadable:
        problem = f"{found.problem} The rest of the ledger {path} is fine. `holdfast doctor` says what to do."
        return report("ledger_corrupt", problem, FAILED, as_json=False)
    problem = f"The ledger {path} was changed or damaged: {found.problem or 'unknown'} Keep the file as evidence."
    return report("ledger_corrupt", problem, FAILED, as_json=False)


@ledger.command()
@filters
@with_flags
def export(flags: Flags, wanted: CallFilter, as_json: bool) -> int:
    """Write every entry as a line of JSON, oldest first, with its hash.

    With filters: all entries of the matching calls. The output is JSON with or
    without --json.

    \b
    Example:
      holdfast ledger export --since 2026-01-01
    """
    unreadable: list[str] = []
    with read_ledger(flags) as store:
        for line in store.export(None if wanted == CallFilter() else wanted, unreadable=unreadable):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    print_unreadable(unreadable)
    return 0


@ledger.command("prune")
@click.option(
    "--older-than",
    "days",
    type=click.FloatRange(0),
    metavar="DAYS",
    help="Remove finished calls older than this (ledger.keep_days).",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0),
    metavar="N",
    help="Remove the oldest stored content down to this size (ledger.max_blob_bytes).",
)
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@with_flags
def prune_calls(flags: Flags, days: float | None, max_bytes: int | None, dry_run: bool, as_json: bool) -> int:
    """Remove old calls, with their stored file contents and long outputs.

    Pending and running calls, grants and trust are never removed. A removed call
    can no longer be undone. The ledger records the pruning and can still be
    verified; keep the new head hash.

    \b
    Example:
      holdfast ledger prune --older-than 30 --dry-run
    """
    project = project_here(flags)
    config = project.loaded.config.ledger
    config = config if max_bytes is None else replace(config, max_blob_bytes=max_bytes)
    with open_ledger(project) if project.ledger_path.exists() else Ledger.in_memory() as store:
        store.recover()
        if days is None:
            done = prune_by_config(store, config, by=whoami(), dry_run=dry_run)
        else:
            older_than = time.time() - days * DAY
            done = prune(store, older_than=older_than, max_bytes=config.max_blob_bytes, by=whoami(), dry_run=dry_run)
        head = store.head()
    if as_json:
        console.print_json(PruningOutput(**asdict(done), dry_run=dry_run, head=head))
    else:
        verb = "Would remove" if dry_run else "Removed"
        calls = "1 call" if done.calls == 1 else f"{done.calls:,} calls"
        console.print_out(
            f"{verb} {calls} ({format_entries(done.entries)}) and {format_size(done.freed)} of stored content; "
            f"{format_size(done.kept_bytes)} remain. Head {head}."
        )
    return 0


@ledger.command("network")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1), help="How many, newest first.")
@click.option("--since", type=_since, metavar="TIME", help="Only since this time: yesterday, 2h, 14:30, an ISO date.")
@click.option("--host", metavar="HOST", help="Only to this host, or *.HOST for its subdomains.")
@click.option("--refused", is_flag=True, help="Only connections that were refused.")
@with_flags
def list_connections(
    flags: Flags, limit: int, since: float | None, host: str | None, refused: bool, as_json: bool
) -> int:
    """List the connections that were opened or refused, newest first.

    Tools, MCP servers, models and commands with allowed hosts are all listed,
    with host, port and address, without paths and queries.

    \b
    Example:
      holdfast ledger network --since yesterday --refused
    """
    project = project_here(flags)
    found: deque[NetworkEntry] = deque(maxlen=limit + 1)
    unreadable = 0
    for entry in read_log(project.state / NETWORK_LOG):
        if entry is None:
            unreadable += 1
        elif (
            (since is None or entry.at >= since)
            and (host is None or _matches_host(entry.host, host))
            and (not refused or entry.outcome == "refused")
        ):
            found.append(entry)
    entries = list(found)[-limit:][::-1]
    if as_json:
        for entry in entries:
            console.print_json(NetworkOutput(**asdict(entry)))
    elif not entries:
        unfiltered = since is None and host is None and not refused
        console.print_out("No connections are recorded here." if unfiltered else "No connection matches.")
    else:
        print_table(["when", "by", "host", "outcome", "details"], [_connection_row(entry) for entry in entries])
    if unreadable:
        lines = "1 line" if unreadable == 1 else f"{unreadable:,} lines"
        console.print_err(f"Skipped {lines} of the network log that cannot be read.")
    if len(found) > limit:
        console.print_err(f"More connections match. Use `-n {limit * 10}` to list up to {limit * 10}.")
    return 0


def _matches_host(host: str, wanted: str) -> bool:
    wanted = wanted.lower()
    if wanted.startswith("*."):
        return host.endswith(wanted[1:])
    return host == (normalize_host(wanted) or wanted)


def _connection_row(entry: NetworkEntry) -> list[str]:
    place = f"[{entry.host}]:{entry.port}" if ":" in entry.host else f"{entry.host}:{entry.port}"
    times = f" ({entry.count:,} times)" if entry.count > 1 else ""
    return [
        format_time(entry.at),
        entry.by,
        place,
        f"{entry.outcome}{times}",
        entry.reason or ", ".join(entry.addresses),
    ]


def preview_width() -> int:
    """The columns for the preview of a call in a table."""
    return max(40, console.screen_width())


def format_entries(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"


def _show(record: CallRecord) -> None:
    call = record.call
    console.print_out(console.paint(f"Call {escape_name(call.id)}", "bold"))
    for line in (*call_origin(record), *call_story(record)):
        _field(line.label, line.text)
    _block("with", format_arguments(call.args))
    if record.result is not None:
        _block("result" if record.result.success else "error", record.result.text)
        console.print_out_lines(map(attachment_line, record.result.attachments))


def _field(name: str, text: str) -> None:
    console.print_out_lines(quoted_field_lines(name, text, sys.stdout, width=8))


def _block(name: str, text: str) -> None:
    console.print_out_lines((label_line(name, sys.stdout), *quote(text, sys.stdout).lines))
