"""`holdfast completion`."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from holdfast.cli.app import COMPLETION, PROGRAM
from holdfast.cli.console import print_json, print_out
from holdfast.cli.json_output import ScriptOutput
from holdfast.cli.root import json_option


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> int:
    """Print the completion script for a shell.

    \b
    bash: eval "$(holdfast completion bash)"            in ~/.bashrc
    zsh:  eval "$(holdfast completion zsh)"             in ~/.zshrc
    fish: holdfast completion fish | source             in config.fish

    Commands, options, tool names and the ids of waiting calls are completed.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    # The base class's: the one for bash runs whatever is called `bash` on the path to learn its version.
    script = ShellComplete.source(kind(ctx.find_root().command, {}, PROGRAM, COMPLETION))
    if as_json:
        print_json(ScriptOutput(shell=shell, script=script))
    else:
        print_out(script)
    return 0
