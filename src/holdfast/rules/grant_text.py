"""A grant in words: which calls it covers, and under which sandbox."""

from __future__ import annotations

from typing import Final

from msgspec import ValidationError, convert

from holdfast.contract.json import Args
from holdfast.rules.grants import PROJECT, GrantPattern
from holdfast.text.escape import clip_middle, escape
from holdfast.text.preview import arguments_preview

LIST_WIDTH: Final = 160
FULL_WIDTH: Final = 1_000_000
"""The most characters of a grant's arguments: in a list, and before the person creates it."""
_SHELL: Final = "shell.exec"
"""The built-in tool whose command is shown as one, with the timeout that its grants leave open."""


def describe_grant(tool: str, stored: Args, width: int = LIST_WIDTH) -> str:
    """Describe the calls that a grant covers, with at most `width` characters of arguments, and their sandbox."""
    try:
        pattern = convert(stored, GrantPattern)
    except ValidationError:
        return f"{escape(tool)}: this version cannot read the grant, so it allows nothing"
    words = _covered(tool, pattern, width)
    if pattern.given_under is None:
        return f"{words}: an earlier version stored the grant without its sandbox, so it allows nothing"
    if pattern.files:
        words += f", with {', '.join(escape(file.path) for file in pattern.files)} unchanged"
    confined = escape(str(pattern.given_under))
    return f"{words}, {confined}" if confined else words


def _covered(tool: str, pattern: GrantPattern, width: int) -> str:
    if pattern.any_args:
        return f"any call of {escape(tool)}"
    if pattern.hosts:
        return f"{escape(tool)} that only reads from {' and '.join(map(escape, pattern.hosts))}"
    given = {name: value for name, value in pattern.args.items() if value is not None}
    command = given.pop("command", None)
    if pattern.command:
        words = _covered_commands(pattern)
    elif isinstance(command, str) and tool == _SHELL:
        words = f"`{escape(clip_middle(command, width))}` with any timeout"
    else:
        words = f"{escape(tool)} with {arguments_preview(given, width) or 'no arguments'}"
        given = {}
    if given:
        words += f" and {arguments_preview(given, width)}"
    if pattern.free:
        folders = " or ".join(map(_in_project, pattern.folders))
        words += f" and for {', '.join(map(escape, pattern.free))} any file directly in {folders}"
    if pattern.cwd is None or pattern.cwd in (pattern.root, PROJECT):
        return words
    return f"{words}, from {_in_project(pattern.cwd)}"


def _covered_commands(pattern: GrantPattern) -> str:
    command = escape(" ".join((*pattern.command, *pattern.options)))
    match pattern.rest:
        case "files":
            return f"`{command}` with any files of the project and any timeout"
        case "script":
            return f"`{command}*` with any timeout"
        case "reads":
            return f"any plain `{command}` command that only reads in the project"


def _in_project(path: str) -> str:
    """Show the folder of a grant for all projects relative to the project's root."""
    return escape(f".{path.removeprefix(PROJECT)}" if path.startswith(PROJECT) else path)
