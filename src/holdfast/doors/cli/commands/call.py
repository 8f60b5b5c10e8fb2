"""`holdfast call`."""

from __future__ import annotations

import click

from holdfast.doors.cli.place import Flags
from holdfast.doors.cli.root import common, complete_tool


@click.command()
@click.argument("tool", shell_complete=complete_tool)
@click.argument("words", nargs=-1, metavar="[JSON | - | KEY=VALUE]...")
@click.option("--park", is_flag=True, help="Never ask here: what needs a person waits for `holdfast approve`.")
@common
def call(flags: Flags, tool: str, words: tuple[str, ...], park: bool, as_json: bool) -> int:
    """Call a tool, through the whole path.

    Arguments are one JSON object, - to read it from standard input, or words:

    \b
      key=value    text where the tool wants text, otherwise JSON if it is JSON
      key:=JSON    always JSON
      key=@file    the text of a file; key:=@file its JSON; @- is standard input

    A call that needs a person is shown and asked about on a terminal. Without a
    terminal it is parked: its id is printed, `holdfast approve ID` lets it run,
    and the exit code is 4.

    \b
    Exit codes: 0 done, 1 failed, 2 invalid, 3 denied or rejected, 4 waiting,
    5 timed out, 6 a change whose end was not seen, 130 cancelled.
    """
    from holdfast.doors.cli.calling import run_call

    return run_call(tool, words, as_json=as_json, park=park, flags=flags)
