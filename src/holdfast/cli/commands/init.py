"""`holdfast init`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.json_output import WrittenOutput
from holdfast.cli.root import json_option
from holdfast.config.roots import PROJECT_FILE

SHORT: Final = """\
# What agents may do in this project: remove a # to use a line. `holdfast help config` explains every option.
# The file makes the rules stricter at once, and looser only after `holdfast trust`.

[tools]
# deny = ["group:web"]            # tools no agent has here

[approval]
# auto_approve = ["$readonly"]    # runs without asking; a call that no rule covers needs your approval

# [[approval.commands]]           # a rule about shell commands
# rule = "npm test"
# verdict = "approve"             # or "ask", or "deny"
"""
FULL: Final = """\
# What agents may do in this project. Everything here is optional: remove a # to use a line.
# Until someone runs `holdfast trust`, this file can only make the rules stricter.
# `holdfast config schema` prints the JSON Schema, `holdfast policy show` what is in force.

[tools]
# profile = "coding"        # minimal, messaging, coding or full
# allow = []                # more tools: names, patterns ("browser.*"), groups ("group:web")
# deny = []                 # fewer tools; this always wins
# default_timeout = 30.0    # seconds

[approval]
# auto_approve = ["$default"]   # run without asking; "$readonly" leaves out writing and editing files
# auto_approve_sandboxed = true # shell commands in the sandbox run without asking; false asks about them
# max_risk = "medium"           # ask about anything riskier, whatever else approves it
# on_error = "skip"             # "ask": a rule that fails means asking

[confirmation]
# autonomy = "standard"     # cautious asks more, autonomous asks less
# actions = { "file.write" = "confirm" }   # confirm, log or silent, by tool or pattern

[sandbox]
# mode = "auto"             # required runs no command without a sandbox, off uses none
# network = "off"           # on, or a list of hosts: ["pypi.org"]
# writable = ["$root"]

# [[approval.commands]]     # every part of a shell command is judged, wherever it hides
# rule = "git push"
# verdict = "ask"
# match = ["git push origin main"]
# not_match = ["git log"]

[output]
# max_lines = 2000
# max_bytes = 51200
"""


_NEXT: Final = {
    "holdfast tour": "a demonstration that changes nothing here",
    "holdfast chat new task.chat": "a conversation in a file; continue with `holdfast chat task.chat`",
    "holdfast tools": "what agents can call here",
    "holdfast policy": "the rules in force",
    "holdfast doctor": "whether everything works on this machine",
}


@click.command()
@click.option("--full", is_flag=True, help="Write every frequent option, explained.")
@json_option
def init(full: bool, as_json: bool) -> int:
    """Make this directory a project.

    Writes a short holdfast.toml, and never over one that is there.
    """
    path, content = Path.cwd() / PROJECT_FILE, FULL if full else SHORT
    if os.path.lexists(path):
        raise UsageProblem(f"{path} exists already. Edit it, or see `holdfast config show`.")
    try:
        with path.open("x") as file:
            file.write(content)
    except OSError as error:
        raise UsageProblem(f"Cannot write {path}: {error.strerror}.") from None
    if as_json:
        console.print_json(WrittenOutput(path=str(path), content=content))
        return 0
    console.print_out(f"Created {console.shown(str(path))}.")
    console.print_err("Next:")
    for command, what in _NEXT.items():
        console.print_err(f"  {command:<28} {what}")
    return 0
