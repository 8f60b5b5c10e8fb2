"""`holdfast cron`: list, add and remove schedules, and run those that are due without the daemon.

A change is a call of a `cron.*` tool, with the rules, approvals and records of any other call.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from holdfast.cli import console
from holdfast.cli.arguments import parse_arguments, read_text
from holdfast.cli.errors import UsageProblem
from holdfast.cli.layout import print_message, print_table
from holdfast.cli.project_context import (
    Flags,
    open_runtime,
    read_ledger,
    require_ledger,
    require_server,
    servers_for,
    wait_for_sources,
)
from holdfast.cli.root import DefaultGroup, complete_schedule, complete_tool, with_context, with_flags
from holdfast.cli.tool_calls import ToolCalls, run_calls
from holdfast.contract.json import encode_json
from holdfast.contract.schedules import ScheduleStatus
from holdfast.json_output import ScheduleOutput
from holdfast.store.schedules import ScheduleStore
from holdfast.text.escape import escape
from holdfast.tools.cron import describe_last, describe_time, describe_work, format_next


@click.group(cls=DefaultGroup)
def cron() -> None:
    """List, add and remove scheduled calls and documents."""


@cron.command("list")
@with_flags
def list_schedules(flags: Flags, as_json: bool) -> int:
    """List the schedules of this project.

    They run while the daemon (holdfast serve) does.

    \b
    Example:
      holdfast cron
    """
    with read_ledger(flags) as ledger:
        found = ScheduleStore(ledger).list()
    if as_json:
        for status in found:
            console.print_json(ScheduleOutput.of(status))
    elif not found:
        console.print_out("There are no schedules here.")
    else:
        rows = [
            [
                status.schedule.id,
                describe_time(status),
                format_next(status),
                describe_work(status.schedule.work),
                status.schedule.by,
                describe_last(status),
            ]
            for status in found
        ]
        print_table(["id", "when", "next", "what", "by", "last"], rows)
        for status in found:
            if status.missed_note:
                print_message(f"{status.schedule.id}: {status.missed_note}")
    return 0


@cron.command()
@click.argument("expression")
@click.argument("tool", required=False, shell_complete=complete_tool)
@click.argument("words", nargs=-1, metavar="[JSON | - | KEY=VALUE]...")
@click.option("--document", metavar="FILE", help="Advance this document instead of calling a tool.")
@click.option("-m", "--message", metavar="TEXT", help="Say this in the document each time (- reads standard input).")
@click.option("--zone", metavar="NAME", help="The time zone, such as Europe/Berlin. Default: that of this machine.")
@with_flags
@with_context
def add(
    flags: Flags,
    expression: str,
    tool: str | None,
    words: tuple[str, ...],
    document: str | None,
    message: str | None,
    zone: str | None,
    as_json: bool,
) -> int:
    """Schedule a call of a tool, or advancing a document.

    EXPRESSION has five fields (minute, hour, day of the month, month, day of the
    week), or is @hourly, @daily, @weekly or @monthly. Arguments are written as
    for `holdfast call`. Each run passes policy and approval when it is due, with
    your rights, and is pending if it needs you.

    \b
    Example:
      holdfast cron add "0 3 * * MON-FRI" shell.exec command="make test"
      holdfast cron add @hourly --document inbox.chat -m "Anything new?"
    """
    if (tool is None) == (document is None):
        raise UsageProblem('Give a tool or --document. Example: holdfast cron add "*/5 * * * *" git.status')
    named = () if tool is None else servers_for(tool)
    path = None if document is None else str(Path(document).absolute())
    said = None if message is None else read_text(message)

    async def work(calls: ToolCalls) -> int:
        runtime, arguments = calls.runtime, None
        if tool is not None:
            await wait_for_sources(runtime)
            require_server(runtime, tool)
            found = runtime.registry.find(tool)
            given = parse_arguments(words, {} if found is None else found.input_schema)
            arguments = encode_json(given).decode() if isinstance(given, dict) else _text(given)
        result = await calls.make(
            "cron.add",
            expression=expression,
            tool=tool,
            arguments=arguments,
            document=path,
            message=said,
            zone=zone,
        )
        return calls.show(result, "cron.add")

    with open_runtime(flags, servers=named) as runtime:
        return run_calls(ToolCalls(runtime, as_json=as_json), work)


def _text(given: str | bytes) -> str:
    return given if isinstance(given, str) else given.decode(errors="replace")


@cron.command()
@click.argument("schedule_id", metavar="ID", shell_complete=complete_schedule)
@with_flags
def remove(flags: Flags, schedule_id: str, as_json: bool) -> int:
    """Remove a schedule. A run that has begun goes on.

    \b
    Example:
      holdfast cron remove k4q7c2mz
    """

    async def work(calls: ToolCalls) -> int:
        return calls.show(await calls.make("cron.remove", id=schedule_id), "cron.remove")

    with open_runtime(flags, entry_points=False) as runtime:
        return run_calls(ToolCalls(runtime, as_json=as_json), work)


@cron.command()
@with_flags
def run(flags: Flags, as_json: bool) -> int:
    """Run what is due now, once, for machines without the daemon.

    Nobody is asked: a call that needs approval is pending. Runs that are more
    than a minute late are missed, so start this every minute.

    \b
    Example:
      holdfast cron run
    """
    from holdfast.factory.scheduled_runs import ScheduledRuns
    from holdfast.serve.scheduler import Scheduler

    with open_runtime(flags, servers=None) as runtime:
        ledger = require_ledger(runtime)

        async def work() -> list[ScheduleStatus]:
            async with runtime:
                await wait_for_sources(runtime)
                claim = await Scheduler(ledger, ScheduledRuns(runtime, flags).run).run_due()
                began = {due.schedule.id for due in claim.runs}
                return [status for status in ScheduleStore(ledger).list() if status.schedule.id in began]

        ran = asyncio.run(work())
    for status in ran:
        if as_json:
            console.print_json(ScheduleOutput.of(status))
        else:
            console.print_out(f"{status.schedule.id}: {escape(describe_last(status))}")
    if not ran and not as_json:
        console.print_err("Nothing is due.")
    return 0
