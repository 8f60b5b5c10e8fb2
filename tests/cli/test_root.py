"""`holdfast --help`: grouped and short, with an example for every command."""

from __future__ import annotations

import shlex
from importlib import import_module

import click
import pytest

from holdfast.cli.reference import commands
from holdfast.cli.root import COMMANDS, SECTIONS, DefaultGroup, holdfast
from tests.cli.command_line import Cli

pytestmark = pytest.mark.spec("E1a")
WIDTH = 80
CONTEXTS = [context for path, context in commands(holdfast) if path != "holdfast"]


def help_lines(context: click.Context) -> list[str]:
    return context.get_help().splitlines()


def examples(context: click.Context) -> list[str]:
    """The lines of the block below "Example:"."""
    lines = help_lines(context)
    start = lines.index("  Example:") + 1
    return [line.strip() for line in lines[start : lines.index("", start)]]


def parse(group: click.Group, name: str, arguments: list[str], parent: click.Context | None = None) -> click.Context:
    """Parse a command line down to the last subcommand, without running anything."""
    context = group.make_context(name, arguments, parent=parent)
    inner, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # pyright: ignore
    assert inner is not None and command is not None
    if isinstance(command, click.Group):
        return parse(command, inner, rest, context)
    return command.make_context(inner, rest, parent=context)


def test_the_help_has_four_sections_and_fits_on_a_screen(cli: Cli) -> None:
    done = cli.run("--help", env={"COLUMNS": str(WIDTH)})
    lines = done.out.splitlines()
    assert done.code == 0 and len(lines) <= 44 and max(map(len, lines)) <= WIDTH
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Run:", "Decide:", "Look:", "Set up:", "Options:"]
    assert list(SECTIONS) == [heading.removesuffix(":") for heading in headings[:4]]
    assert cli.run(env={"COLUMNS": str(WIDTH)}).out == done.out


def test_every_command_has_one_line_in_the_help(cli: Cli) -> None:
    lines = cli.run("--help", env={"COLUMNS": str(WIDTH)}).out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ") and line.split()[0] in COMMANDS]
    assert listed == list(COMMANDS) and len(set(COMMANDS)) == len(COMMANDS)
    for name in COMMANDS:
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.endswith(".") and "..." not in line, "the line is a whole sentence"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_module_of_its_name(name: str) -> None:
    command = getattr(import_module(f"holdfast.cli.commands.{name}"), name)
    assert isinstance(command, click.Command) and command.name == name


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path)
def test_every_command_has_examples_that_parse(context: click.Context) -> None:
    found = examples(context)
    assert found
    for line in found:
        program, *words = shlex.split(line)
        assert program == "holdfast"
        parsed = parse(holdfast, program, words)
        shown = context.command.default if isinstance(context.command, DefaultGroup) else context.command
        assert parsed.command is shown, "the example is one of this command"


@pytest.mark.parametrize("context", CONTEXTS, ids=lambda context: context.command_path)
def test_the_help_of_a_command_fits_into_80_columns(context: click.Context) -> None:
    assert max(map(len, help_lines(context))) <= WIDTH


def test_the_help_of_chat_shows_how_to_advance_a_file_and_its_options(cli: Cli) -> None:
    text = cli.run("chat", "--help", env={"COLUMNS": str(WIDTH)}).out
    assert text.startswith("Usage: holdfast chat [OPTIONS] FILE\n       holdfast chat COMMAND [ARGS]...\n")
    assert "  Example:\n    holdfast chat plan.chat\n" in text
    for option in ("--message", "--model", "--step", "--watch", "--plan", "--headless", "--json"):
        assert f" {option} " in text
    listed = [line.split()[0] for line in text.partition("\nCommands:\n")[2].splitlines()]
    assert listed == ["new", "run", "status", "cancel"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name in ("mcp", "config", "ledger", "grants", "trust")])
def test_the_help_of_a_group_shows_the_options_of_its_default_command(cli: Cli, name: str) -> None:
    group = next(context.command for context in CONTEXTS if context.command_path == f"holdfast {name}")
    assert isinstance(group, DefaultGroup) and group.default.name is not None
    both = [cli.run(name, *words, "--help").out for words in ((), (group.default.name,))]
    options = [text.partition("\nOptions:\n")[2].partition("\n\nCommands:")[0].strip() for text in both]
    assert options[0] == options[1] != ""


@pytest.mark.spec("E1a")
def test_without_a_command_the_help_is_shown(cli: Cli) -> None:
    done = cli.run()
    assert done.code == 0
    assert "Decide:" in done.out
    assert cli.run("--help").out == done.out
    assert all("..." not in line for line in done.out.split("Run:")[1].splitlines())
