"""`holdfast init`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

from holdfast.config.roots import PROJECT_FILE
from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import UsageProblem
from holdfast.doors.cli.outputs import Written
from holdfast.doors.cli.root import json_option

TEMPLATE: Final = """\
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

[hooks]
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


@click.command()
@json_option
def init(as_json: bool) -> int:
    """Make this directory a project.

    Writes a commented holdfast.toml, and never over one that is there.
    """
    path = Path.cwd() / PROJECT_FILE
    if os.path.lexists(path):
        raise UsageProblem(f"{path} is there already; edit it, or see `holdfast config show`.")
    if not as_json:
        screen.say(TEMPLATE)
        sys.stdout.flush()
    try:
        with path.open("x") as file:
            file.write(TEMPLATE)
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}.") from None
    if as_json:
        screen.put_json(Written(path=str(path), content=TEMPLATE))
        return 0
    screen.note(f"Written to {screen.shown(str(path))}. Next:")
    screen.note("  holdfast tools                                 what can be called here")
    screen.note("  holdfast call calculator expression=1+1        a first call")
    screen.note("  holdfast policy explain file.write             who would decide, and why")
    return 0
