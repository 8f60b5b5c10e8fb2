"""The `holdfast` command group, and what its commands share: lazy loading, `--json`, `--set`, shell completion."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from typing import Any, Final, TypeVar

import click

from holdfast.cli.project_context import Flags, open_grants, open_runtime, project_here, read_flags, read_ledger
from holdfast.contract.errors import HoldfastError
from holdfast.import_path import remove_projects
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

SECTIONS: Final = {
    "Run": ("chat", "call", "memory", "cron", "mcp", "google", "undo"),
    "Decide": ("pending", "approve", "reject", "respond", "serve", "grants", "trust"),
    "Look": ("tools", "policy", "changes", "ledger", "help"),
    "Set up": ("tour", "init", "config", "notify", "doctor", "completion"),
}
"""The commands under the headings of `holdfast --help`. Command NAME is `holdfast.cli.commands.NAME:NAME`."""
COMMANDS: Final = tuple(name for names in SECTIONS.values() for name in names)
CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
F = TypeVar("F", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


class LazyGroup(click.Group):
    """Imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"holdfast.cli.commands.{cmd_name}"), cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            meant = did_you_mean(name, COMMANDS)
            hint = f"Did you mean '{meant}'?" if meant else "Run `holdfast --help` for the list."
            raise click.UsageError(f"There is no command '{escape(name)}'. {hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands before the options, under their headings and aligned across them."""
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                _write_commands(self, ctx, formatter, names)
        click.Command.format_options(self, ctx, formatter)


class DefaultGroup(click.Group):
    """A group whose first command runs when none is named; the group's help includes that command's."""

    @property
    def default(self) -> click.Command:
        return next(iter(self.commands.values()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in CONTEXT["help_option_names"]):
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, " ".join(self.default.collect_usage_pieces(ctx)))
        formatter.write_usage(ctx.command_path, "COMMAND [ARGS]...", prefix=" " * len("Usage: "))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        self.default.format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.default.format_options(ctx, formatter)
        with formatter.section("Commands"):
            _write_commands(self, ctx, formatter, [name for name in self.commands if name != self.default.name])


def _write_commands(
    group: click.Group, ctx: click.Context, formatter: click.HelpFormatter, names: Sequence[str]
) -> None:
    width = max(map(len, group.list_commands(ctx)))
    room = formatter.width - width - 4
    found = ((name, group.get_command(ctx, name)) for name in names)
    formatter.write_dl(
        [(f"{name:<{width}}", command.get_short_help_str(room)) for name, command in found if command is not None]
    )


def json_option(function: F) -> F:
    """Add `--json` and `--debug`."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an internal error.")
    as_json = click.option("--json", "as_json", is_flag=True, help="Write JSON: one object, or one per line.")
    return as_json(debug(function))


def with_flags(function: Callable[..., int]) -> Callable[..., int]:
    """Pass the values of `--set` as the first argument, and add `--json` and `--debug`."""
    return json_option(click.pass_obj(function))


def with_context(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--agent` and `--skill`. Their values are options of the configuration, so they join those of `--set`."""

    @wraps(function)
    def run(flags: Flags, *args: Any, agent: str | None, skill: str | None, **more: Any) -> int:
        given = {"agent": agent, "skill": skill}
        entered: Flags = {name: value for name, value in given.items() if value is not None}
        return function({**flags, **entered}, *args, **more)

    as_agent = click.option("--agent", metavar="NAME", help="Call as this agent of tools.agents.")
    in_skill = click.option("--skill", metavar="NAME", help="Call in this skill, with only the tools that it names.")
    return as_agent(in_skill(run))


def with_save(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--save`."""
    text = "Save images, audio and files of the result in this folder, without replacing any."
    return click.option("--save", metavar="DIR", help=text, callback=_folder)(function)


def _folder(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    if given is not None and not given.strip():
        raise click.BadParameter("It names no folder. Use . for the current one.")
    return given


def _completer(candidates: Callable[[], list[str]]) -> Complete:
    """Complete from `candidates`; from nothing where the configuration cannot be read."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            return [name for name in candidates() if name.startswith(incomplete)]
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
    with open_grants({}, read_only=True) as grants:
        return [grant.id for grant in grants.list(every=True)]


@_completer
def complete_schedule() -> list[str]:
    from holdfast.store.schedules import ScheduleStore

    with read_ledger({}) as ledger:
        return [status.schedule.id for status in ScheduleStore(ledger).list()]


@_completer
def complete_server() -> list[str]:
    return list(project_here({}).loaded.config.mcp.servers)


def _print_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if wanted:
        from holdfast import __version__

        click.echo(f"holdfast {__version__}")
        ctx.exit()


@click.group("holdfast", cls=LazyGroup, context_settings=CONTEXT, invoke_without_command=True)
@click.option("-C", "directory", type=click.Path(exists=True, file_okay=False), help="Work in this directory.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Set an option for this run only.")
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show the version."
)
@click.pass_context
def holdfast(ctx: click.Context, directory: str | None, settings: tuple[str, ...]) -> None:
    """The tool runtime for AI agents: every tool call is checked and recorded.

    New here? Run `holdfast tour`. Each command has --help; most have --json.
    """
    if directory is not None:
        os.chdir(directory)
        remove_projects()
    ctx.obj = read_flags(settings)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
