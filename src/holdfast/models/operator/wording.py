"""Calls in words, and foreign text made safe to stand in a sentence."""

from __future__ import annotations

import re
from typing import Final

from holdfast.contract.values import Args, Json
from holdfast.text.visible import visible

_LONG: Final = 160


def quoted(text: str, limit: int = _LONG) -> str:
    """In backticks, on one line, cut if it is long."""
    line = visible(" ".join(text[: 4 * limit].split())) or " "
    if len(line) > limit:
        line = f"{line[:limit]}…"
    ticks = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def in_words(tool: str, args: Args) -> str:
    """What a call does, as the object of "I": `read` `a.py`, `run` `make`."""
    verb, key = _VERBS.get(tool, ("call", ""))
    if tool not in _VERBS:
        return f"call {quoted(tool)}"
    value = args.get(key)
    if not key:
        said = verb
    elif value is None:
        said = _WITHOUT.get(tool, f"{verb} something")
    else:
        said = f"{verb} {quoted(_text(value))}"
    return said + _details(tool, args)


def _details(tool: str, args: Args) -> str:
    said = ""
    offset, limit = args.get("offset"), args.get("limit")
    if isinstance(offset, int) and isinstance(limit, int):
        said += f", lines {offset}-{offset + limit - 1}"
    elif isinstance(offset, int):
        said += f" from line {offset}"
    elif isinstance(limit, int):
        said += f", the first {limit} lines"
    for key in ("path", "glob", "cwd"):
        if key != _VERBS[tool][1] and args.get(key) is not None:
            said += f" in {quoted(_text(args[key]))}"
    return f"{said} recursively" if args.get("recursive") else said


def _text(value: Json) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return str(value[0].get("question", ""))
    return str(value)


_VERBS: Final[dict[str, tuple[str, str]]] = {
    "ask.user": ("ask you", "questions"),
    "calculator": ("calculate", "expression"),
    "code.search": ("search for", "query"),
    "file.edit": ("edit", "path"),
    "file.find": ("find files like", "pattern"),
    "file.list": ("list", "path"),
    "file.read": ("read", "path"),
    "file.write": ("write", "path"),
    "git.diff": ("look at the diff", ""),
    "git.log": ("look at the last commits", ""),
    "git.status": ("look at the git status", ""),
    "output.read": ("read the output of call", "call"),
    "process.kill": ("kill process", "pid"),
    "process.list": ("list the processes", ""),
    "process.output": ("read the output of process", "pid"),
    "process.start": ("start", "command"),
    "process.status": ("look at process", "pid"),
    "shell.exec": ("run", "command"),
    "system.info": ("look at the system", ""),
}
"""What each tool does, and the argument that says to what."""
_WITHOUT: Final = {
    "file.list": "list the project's folder",
    "process.kill": "kill a process",
    "process.output": "read the output of a process",
    "process.status": "look at a process",
}
"""The same where that argument is not given."""
