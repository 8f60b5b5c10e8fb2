"""`holdfast call`."""

from __future__ import annotations

import click

from holdfast.cli.project_context import Flags
from holdfast.cli.root import complete_tool, with_flags


@click.command()
@click.argument("tool", shell_complete=complete_tool)
@click.argument("words", nargs=-1, metavar="[JSON | - | KEY=VALUE]...")
@click.option("--pending", is_flag=True, help="Never ask here: what needs a person waits for `holdfast approve`.")
@click.option("--headless", is_flag=True, help="Never ask, leave nothing waiting: what needs a person is denied.")
@click.option("--raw", is_flag=True, help="Write the output byte by byte, with all that could act on a terminal.")
@with_flags
def call(
    flags: Flags, tool: str, words: tuple[str, ...], pending: bool, headless: bool, raw: bool, as_json: bool
) -> int:
    """Call a tool, through the whole path.

    Arguments are one JSON object, - to read it from standard input, or words:

    \b
      key=value    text where the tool wants text, otherwise JSON if it is JSON
      key:=JSON    always JSON
      key=@file    the text of a file; key:=@file its JSON; @- is standard input

    A call that needs a person is shown and asked about on a terminal. Without a
    terminal it is left pending: its id is printed, `holdfast approve ID` lets it run,
    and the exit code is 4. With --headless it is denied and the exit code is 3.

    \b
    Exit codes: 0 done, 1 failed, 2 invalid, 3 denied or rejected, 4 waiting,
    5 timed out, 6 a change whose end was not seen, 130 cancelled.
    """
    from holdfast.cli.call_runner import run_call

    if pending and headless:
        raise click.UsageError("--pending leaves the call waiting and --headless denies it. Use one of them.")
    if raw and as_json:
        raise click.UsageError("--json escapes the output and --raw does not. Use one of them.")
    return run_call(tool, words, as_json=as_json, pending=pending, headless=headless, raw=raw, flags=flags)
