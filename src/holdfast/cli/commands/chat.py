"""`holdfast chat`: conversations in files. Each subcommand is a module of `holdfast.cli.chat`."""

from __future__ import annotations

import click

from holdfast.cli.chat.advance import advance
from holdfast.cli.chat.cancel import cancel
from holdfast.cli.chat.new import new
from holdfast.cli.chat.run import run
from holdfast.cli.chat.status import status
from holdfast.cli.root import DefaultGroup


@click.group(cls=DefaultGroup)
def chat() -> None:
    """Hold a conversation with a model in a plain file."""


for command in (advance, new, run, status, cancel):
    chat.add_command(command)
