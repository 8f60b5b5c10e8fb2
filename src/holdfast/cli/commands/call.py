"""`holdfast call`: the command line of one tool call. `call_runner` makes the call."""

from __future__ import annotations

import click

from holdfast.cli.call_runner import run_call
from holdfast.cli.project_context import Flags
from holdfast.cli.root import complete_tool, with_context, with_flags, with_save


@click.command()
@click.argument("tool", shell_complete=complete_tool)
@click.argument("words", nargs=-1, metavar="[JSON | - | KEY=VALUE]...")
@click.option("--pending", is_flag=True, help="Do not ask: leave a call that needs approval pending.")
@click.option("--headless", is_flag=True, help="Do not ask: deny a call that needs approval.")
@click.option("--raw", is_flag=True, help="Write the output unescaped; it may contain terminal control codes.")
@with_save
@with_flags
@with_context
def call(
    flags: Flags,
    tool: str,
    words: tuple[str, ...],
    pending: bool,
    headless: bool,
    raw: bool,
    save: str | None,
    as_json: bool,
) -> int:
    """Call a tool.

    Arguments are one JSON object, - to read it from standard input, or words:

    \b
      key=value    text if the tool expects text; otherwise JSON if it parses
      key:=JSON    always JSON
      key=@file    the text of a file; key:=@file its JSON; @- is standard input

    On a terminal you are asked about a call that needs approval. Without one it
    is left pending: its id is printed, `holdfast approve ID` runs it, and the exit
    code is 4. With --headless it is denied and the exit code is 3.

    \b
    Exit codes: 0 done, 1 failed, 2 invalid, 3 denied or rejected, 4 pending,
    5 timed out, 6 outcome unknown (a change may have happened), 130 cancelled.

    \b
    Example:
      holdfast call file.read path=README.md
      holdfast call shell.exec command="git status"
      holdfast call --skill release file.read path=CHANGELOG.md
    """
    if pending and headless:
        raise click.UsageError("--pending leaves the call pending and --headless denies it. Use one of them.")
    if raw and as_json:
        raise click.UsageError("--json escapes the output and --raw does not. Use one of them.")
    return run_call(tool, words, as_json=as_json, pending=pending, headless=headless, raw=raw, save=save, flags=flags)
