"""`holdfast completion`: the completion script for bash, zsh or fish."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from holdfast.cli.app import COMPLETION, PROGRAM
from holdfast.cli.console import print_json, print_out
from holdfast.cli.root import json_option
from holdfast.json_output import ScriptOutput


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> int:
    """Print the completion script for a shell.

    It completes commands, options, tool names and the ids of pending calls.

    \b
    bash: put   eval "$(holdfast completion bash)"   into ~/.bashrc
    zsh:  put   eval "$(holdfast completion zsh)"    into ~/.zshrc
    fish: put   holdfast completion fish | source    into config.fish

    \b
    Example:
      holdfast completion bash
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # The base class's `source`: the one for bash runs the first `bash` on PATH to learn its version.
    script = ShellComplete.source(kind(ctx.find_root().command, {}, PROGRAM, COMPLETION))
    if as_json:
        print_json(ScriptOutput(shell=shell, script=script))
    else:
        print_out(script)
    return 0
