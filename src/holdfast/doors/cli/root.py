"""The `holdfast` command and the names of its commands."""

from __future__ import annotations

from typing import Final

import click

from holdfast.doors.cli.groups import LazyGroup
from holdfast.doors.cli.options import CONTEXT
from holdfast.doors.cli.place import read_flags

_COMMANDS: Final = "holdfast.doors.cli.commands"
COMMANDS: Final = {
    "tour": f"{_COMMANDS}.tour:tour",
    "init": f"{_COMMANDS}.init:init",
    "chat": f"{_COMMANDS}.chat:chat",
    "call": f"{_COMMANDS}.call:call",
    "tools": f"{_COMMANDS}.tools:tools",
    "policy": f"{_COMMANDS}.policy:policy",
    "mcp": f"{_COMMANDS}.mcp:mcp",
    "pending": f"{_COMMANDS}.pending:pending",
    "approve": f"{_COMMANDS}.answers:approve",
    "reject": f"{_COMMANDS}.answers:reject",
    "answer": f"{_COMMANDS}.answers:answer",
    "grants": f"{_COMMANDS}.grants:grants",
    "changes": f"{_COMMANDS}.changes:changes",
    "undo": f"{_COMMANDS}.undo:undo",
    "ledger": f"{_COMMANDS}.ledger:ledger",
    "config": f"{_COMMANDS}.config:config",
    "trust": f"{_COMMANDS}.trust:trust",
    "doctor": f"{_COMMANDS}.doctor:doctor",
    "completion": f"{_COMMANDS}.completion:completion",
}


def _version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from holdfast import __version__

        click.echo(f"holdfast {__version__}")
        ctx.exit()


@click.group("holdfast", cls=LazyGroup, lazy=COMMANDS, context_settings=CONTEXT, invoke_without_command=True)
@click.option("-C", "directory", type=click.Path(exists=True, file_okay=False), help="Work in this directory.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Set an option for this run only.")
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
@click.pass_context
def holdfast(ctx: click.Context, directory: str | None, settings: tuple[str, ...]) -> None:
    """The tool runtime for AI agents: one governed path for every call.

    Start with `holdfast tour`. Every command has --help; all but the tour
    have --json.
    """
    if directory is not None:
        import os

        from holdfast.import_path import forget_projects

        os.chdir(directory)
        forget_projects()
    ctx.obj = read_flags(settings)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
