"""Generates `docs/cli.md`: `python -m holdfast.cli.reference > docs/cli.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final, get_type_hints

import click
from msgspec import Struct

from holdfast import json_output
from holdfast.cli.app import PROGRAM
from holdfast.cli.root import CONTEXT, DefaultGroup, holdfast
from holdfast.contract import result as result_module
from holdfast.contract.enums import EXIT_CODES
from holdfast.contract.json import Doc
from holdfast.contract.result import Result

_WIDTH: Final = 80
_CAPITAL: Final = re.compile("(?<=[a-z])(?=[A-Z])")
OUTPUTS: Final = {
    "init": "one `written`",
    "chat advance": "an event per line, see [chat.md](chat.md#events); the last one is an `outcome`",
    "chat new": "one `written`",
    "chat run": "an event per line; the last one is an `outcome`",
    "chat cancel": "one `stop`",
    "chat status": "a `document` per line",
    "call": "one `result`",
    "memory list": "one `result`",
    "memory search": "one `result`",
    "memory show": "one `result`",
    "memory edit": "one `result`",
    "memory forget": "one `result`",
    "memory import": "a `result` per file",
    "memory export": "a `written` per item",
    "cron list": "a `schedule` per line",
    "cron add": "one `result`",
    "cron remove": "one `result`",
    "cron run": "a `schedule` per line, for each that ran",
    "tools": "a `tool` per line; with NAME one `tool`",
    "policy show": "one `policy`",
    "policy explain": "one `explanation`",
    "policy fuzz": "one `fuzzing`",
    "mcp serve": "with --http one `serving`; otherwise standard output carries MCP",
    "mcp servers": "a `server` per line",
    "mcp review": "a `definition` per line, for each new or changed one",
    "mcp forget": "one `forgotten`",
    "mcp login": "one `login`",
    "mcp logout": "one `login`",
    "mcp install": "one `installed`",
    "google status": "a `google login` per line",
    "google login": "one `google login`",
    "google logout": "one `google login`",
    "pending": "a `pending` per line; with ID one `pending`",
    "approve": "one `result`",
    "reject": "one `result`",
    "respond": "one `result`",
    "notify status": "a `notify channel` per line",
    "notify test": "a `notify channel` per line",
    "grants list": "a `grant` per line",
    "grants revoke": "one `grant`",
    "changes": "a `change` per line; without CALL a `changing call` per line",
    "undo": "one `undo`",
    "ledger list": "a `call` per line",
    "ledger show": "one `call`",
    "ledger verify": "one `verification`",
    "ledger prune": "one `pruning`",
    "ledger network": "a `network` per line",
    "ledger export": "an entry of the ledger per line: id, call, kind, at, hash, body",
    "config show": "one `configuration`",
    "config path": "one `places`",
    "config schema": "one JSON Schema",
    "config edit": "one `edited`",
    "config check": "one `check`",
    "trust file": "one `trust`",
    "trust list": "a `trust` per line",
    "trust revoke": "one `trust`",
    "serve run": "one `daemon`",
    "serve link": "one `link`",
    "serve people list": "a `person` per line",
    "serve people add": "one `person`",
    "serve people remove": "one `person`",
    "doctor": "a `finding` per line",
    "help": "a `topic` per line; with TOPIC one `topic`",
    "completion": "one `script`",
}
"""What each command writes with `--json`."""

_INTRO: Final = """\
# The command line

Generated from the program by `python -m holdfast.cli.reference`; a test keeps it current.

The result of a command goes to standard output, everything else to standard error. Control characters in text of
models, tools and files are escaped, in a pipe too; only `holdfast call --raw` writes a tool's output unescaped. Colours
appear on a terminal only, and not if `NO_COLOR` is set. An error is one sentence with the next step; `--debug` prints
the traceback of an internal error.

## Exit codes
"""
_JSON: Final = """\
One object, or one per line. A command that fails writes `{"error": …}`. Warnings go to standard error, and into the
field `warnings` of the next object."""


def reference() -> str:
    return "\n".join(_lines()).rstrip() + "\n"


def commands(command: click.Command, parent: click.Context | None = None) -> Iterator[tuple[str, click.Context]]:
    """Yield every command with its path, in the order of `holdfast --help`."""
    name = command.name or PROGRAM
    ctx = click.Context(
        command,
        info_name=name,
        parent=parent,
        terminal_width=_WIDTH,
        max_content_width=_WIDTH,
        help_option_names=CONTEXT["help_option_names"],
    )
    yield ctx.command_path, ctx
    if isinstance(command, click.Group):
        for inner in command.list_commands(ctx):
            found = command.get_command(ctx, inner)
            if found is not None:
                yield from commands(found, ctx)


def _lines() -> Iterator[str]:
    yield _INTRO
    yield "| code | meaning |"
    yield "|---|---|"
    codes: dict[int, list[str]] = {}
    for state, code in EXIT_CODES.items():
        codes.setdefault(code, []).append(state.value.replace("_", " "))
    codes[2].append("bad usage")
    codes[141] = ["broken pipe"]
    for code, states in sorted(codes.items()):
        yield f"| {code} | {', '.join(states)} |"
    yield ""
    yield "A command that makes no call exits with 0, with 1 if it fails, and with 2 for bad usage."
    yield ""
    yield "## Commands"
    for path, ctx in commands(holdfast):
        parent = None if ctx.parent is None else ctx.parent.command
        if isinstance(parent, DefaultGroup) and ctx.command is parent.default:
            continue  # the help of the group includes it
        yield from ("", f"### {path}", "", "```text", ctx.get_help(), "```")
        output = OUTPUTS.get(path.removeprefix(f"{PROGRAM} "))
        if isinstance(ctx.command, DefaultGroup):
            output = OUTPUTS.get(f"{path} {ctx.command.default.name}".removeprefix(f"{PROGRAM} "))
        if output is not None:
            yield from ("", f"With `--json`: {output}.")
    yield from ("", "## JSON", "", _JSON)
    for name, fields in objects().items():
        yield from ("", f"### `{name}`", "", "| field | meaning |", "|---|---|")
        yield from (f"| `{field}` | {meaning} |" for field, meaning in fields.items())


def objects() -> dict[str, dict[str, str]]:
    """Return the objects by their name in the reference, with the meaning of each field."""
    kinds = [
        kind
        for kind in json_output.Output.__subclasses__()
        if kind not in (json_output.ResultExtraOutput, json_output.FailedOutput)
    ]
    result = _meanings(Result)
    del result["failure"]  # `error.kind`
    return {
        "error": _meanings(json_output.ErrorOutput),
        "result": result | _meanings(json_output.ResultExtraOutput),
        **{_CAPITAL.sub(" ", kind.__name__).lower().removesuffix(" output"): _meanings(kind) for kind in kinds},
    }


def _meanings(kind: type[Struct]) -> dict[str, str]:
    hints = get_type_hints(kind, {**vars(json_output), **vars(result_module)}, include_extras=True)
    return {name: doc.text for name, hint in hints.items() for doc in hint.__metadata__ if isinstance(doc, Doc)}


if __name__ == "__main__":
    sys.stdout.write(reference())
