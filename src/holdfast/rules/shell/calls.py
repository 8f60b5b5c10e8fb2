"""Which calls carry a shell command, what it is, and where it would run."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from holdfast.contract.tool import Tool
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import RUNS_COMMANDS
from holdfast.rules.chain import Question
from holdfast.rules.shell.place import Place
from holdfast.rules.shell.verdicts import Dialect


def is_shell_tool(tool: Tool) -> bool:
    return RUNS_COMMANDS in tool.capabilities


def command_of(args: Args) -> str | None:
    """The shell text of a call, or what it would be for a program with `args`; None if there is none to read."""
    command, more = args.get("command"), args.get("args")
    if isinstance(command, list):
        return shlex.join(map(str, cast("list[object]", command)))
    if not isinstance(command, str):
        return None
    return shlex.join([command, *map(str, more)]) if isinstance(more, list) else command


def place_of(
    question: Question, dialect: Dialect, contained: Callable[[], bool], protected: tuple[str, ...] = ()
) -> Place:
    """Where the call would run. A folder it names is looked for in the project, so both readings of it count."""
    inner = question.args.get("cwd")
    root = None if question.root is None else str(question.root)
    folders = [question.cwd]
    if isinstance(inner, str) and (root is None or question.document is not None or inner.startswith(("~", "$"))):
        root = None
    elif isinstance(inner, str) and root is not None:
        folders = [os.path.join(base, inner) for base in (root, question.cwd)]  # noqa: PTH118
    return replace(Place.at(root, folders, contained, protected), dialect=dialect)
