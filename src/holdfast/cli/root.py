"""The `holdfast` command, the names of its commands, and what they have in common: groups, options, completion."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeVar

import click

from holdfast.cli.project_context import open_grants, open_runtime, project_here, read_flags, read_ledger
from holdfast.contract.errors import HoldfastError
from holdfast.import_path import remove_projects
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

COMMANDS: Final = (
    "tour", "init", "chat", "call", "tools", "policy", "mcp", "pending", "approve", "reject", "respond", "grants",
    "changes", "undo", "ledger", "config", "trust", "doctor", "help", "completion",
)  # fmt: skip
_HOMES: Final = {"approve": "pending", "reject": "pending", "respond": "pending", "changes": "undo"}
"""The modules of commands that share one; the others have the name of their command."""
CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
F = TypeVar("F", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


class LazyGroup(click.Group):
    """Loads a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"holdfast.cli.commands.{_HOMES.get(cmd_name, cmd_name)}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            meant = did_you_mean(name, COMMANDS)
            hint = f"Did you mean '{meant}'?" if meant else "Run `holdfast --help` for those there are."
            raise click.UsageError(f"There is no command '{escape(name)}'. {hint}")
        return super().resolve_command(ctx, args)


class DefaultGroup(click.Group):
    """A group whose first command is meant when none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in CONTEXT["help_option_names"]):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


def json_option(function: F) -> F:
    """`--json` and `--debug`."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an internal error.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON: one object, or one per line.")
    return as_json(debug(function))


def with_flags(function: Callable[..., int]) -> Callable[..., int]:
    """For nearly every command: it is given the `--set` flags first, and `as_json`."""
    return json_option(click.pass_obj(function))


def _completer(offered: Callable[[], list[str]]) -> Complete:
    """What the shell offers to complete. A setting that cannot be read offers nothing."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in offered() if name.startswith(incomplete)]
        except HoldfastError:
            return []

    return complete


@_completer
def complete_tool() -> list[str]:
    with open_runtime({}, read_only=True) as runtime:
        return [tool.name for tool in runtime.visible()]


@_completer
def complete_pending() -> list[str]:
    with read_ledger({}) as ledger:
        return [pending.call.id for pending in ledger.pending()]


@_completer
def complete_call() -> list[str]:
    with read_ledger({}) as ledger:
        return [record.call.id for record in ledger.calls()]


@_completer
def complete_grant() -> list[str]:
    with open_grants({}, read_only=True) as book:
        return [grant.id for grant in book.list(every=True)]


@_completer
def complete_server() -> list[str]:
    return list(project_here({}).loaded.config.mcp.servers)


def _version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from holdfast import __version__

        click.echo(f"holdfast {__version__}")
        ctx.exit()


@click.group("holdfast", cls=LazyGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.option("-C", "directory", type=click.Path(exists=True, file_okay=False), help="Work in this directory.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Set an option for this run only.")
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
@click.pass_context
def holdfast(ctx: click.Context, directory: str | None, settings: tuple[str, ...]) -> None:
    """The tool runtime for AI agents: one governed path for every call.

    Start with `holdfast tour`. `holdfast help` explains topics, every command
    has --help, and all but the tour have --json.
    """
    if directory is not None:
        os.chdir(directory)
        remove_projects()
    ctx.obj = read_flags(settings)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
