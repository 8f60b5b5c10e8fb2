"""`holdfast init`: write a `holdfast.toml`, which makes the directory a project."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.layout import field_lines
from holdfast.cli.root import json_option
from holdfast.config.roots import PROJECT_FILE
from holdfast.json_output import WrittenOutput
from holdfast.text.escape import escape_once

SHORT: Final = """\
# What agents may do in this project. Remove a # to use a line; `holdfast help config` explains every option.
# Stricter rules apply at once. Looser rules apply only after `holdfast trust`.

[tools]
# deny = ["group:web"]            # tools that no agent gets here

[approval]
# auto_approve = ["$readonly"]    # runs without asking; a call that no rule covers needs your approval

# [[approval.commands]]           # a rule about shell commands
# rule = "npm test"
# verdict = "approve"             # or "ask", or "deny"
"""
FULL: Final = """\
# What agents may do in this project. Everything here is optional: remove a # to use a line.
# Until you run `holdfast trust`, this file can only make the rules stricter.
# `holdfast config schema` prints the JSON Schema, `holdfast policy show` the rules in force.

[tools]
# profile = "coding"        # minimal, messaging, coding or full
# allow = []                # more tools: names, patterns ("browser.*"), groups ("group:web")
# deny = []                 # fewer tools; deny always wins
# default_timeout = 30.0    # seconds

[approval]
# auto_approve = ["$default"]   # run without asking; "$readonly" leaves out writing and editing files
# auto_approve_sandboxed = true # shell commands in the sandbox run without asking; false asks about them
# max_risk = "medium"           # ask about anything riskier, whatever else approves it
# on_error = "skip"             # "ask": ask if a rule raises an error

[confirmation]
# autonomy = "standard"     # cautious asks more, autonomous asks less
# actions = { "file.write" = "confirm" }   # confirm, log or silent, by tool or pattern

[sandbox]
# mode = "auto"             # required: no command runs without a sandbox; off: no sandbox
# network = "off"           # on, or a list of hosts: ["pypi.org"]
# writable = ["$root"]

# [[approval.commands]]     # every part of a shell command is judged, nested ones too
# rule = "git push"
# verdict = "ask"
# match = ["git push origin main"]
# not_match = ["git log"]

[output]
# max_lines = 2000
# max_bytes = 51200
"""


_NEXT: Final = {
    "holdfast tour": "watch a demonstration that changes nothing here",
    "holdfast chat new task.chat": "start a conversation in a file",
    "holdfast tools": "list what agents can call here",
    "holdfast policy": "show the rules in force",
    "holdfast doctor": "check that everything works on this machine",
}


@click.command()
@click.option("--full", is_flag=True, help="Write all common options, with explanations.")
@json_option
def init(full: bool, as_json: bool) -> int:
    """Make this directory a project.

    Writes a short holdfast.toml. An existing one is never overwritten.

    \b
    Example:
      holdfast init
    """
    path, content = Path.cwd() / PROJECT_FILE, FULL if full else SHORT
    if os.path.lexists(path):
        raise UsageProblem(f"{path} already exists. Edit it, or see `holdfast config show`.")
    try:
        with path.open("x") as file:
            file.write(content)
    except OSError as error:
        raise UsageProblem(f"Cannot write {path}: {error.strerror}.") from None
    if as_json:
        console.print_json(WrittenOutput(path=str(path), content=content))
        return 0
    console.print_out(f"Created {escape_once(str(path))}.")
    console.print_err("Next:")
    for command, what in _NEXT.items():
        console.print_err_lines(field_lines(command, what, sys.stderr, width=27, colour="bold"))
    return 0
