"""`holdfast chat FILE`: advance a document until it is done or needs a person."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import click

from holdfast.cli.arguments import read_text
from holdfast.cli.chat.documents import find_document
from holdfast.cli.chat.runner import ChatOptions, ChatRunner, interrupts
from holdfast.cli.chat.trust_prompt import ask_for_trust
from holdfast.cli.chat.watch import watch_document
from holdfast.cli.project_context import Flags, install_warning_handler
from holdfast.cli.root import with_context, with_flags
from holdfast.config.config import Protocol


@click.command()
@click.argument("file", type=click.Path())
@click.option("-m", "--message", metavar="TEXT", help="Add your message first (- reads standard input).")
@click.option("--model", metavar="NAME", help="Use this model: operator, or provider:model.")
@click.option(
    "--protocol",
    type=click.Choice(get_args(Protocol)),
    help="How the model calls tools; constrained and text are for models that do not call them well.",
)
@click.option(
    "--guardrails/--no-guardrails", default=None, help="Help small models with searching, reading and editing, or not."
)
@click.option("--step", is_flag=True, help="Do one step, then stop.")
@click.option("--watch", is_flag=True, help="Advance whenever the file is saved, until Ctrl-C.")
@click.option("--plan", is_flag=True, help="Change nothing; show what would be done.")
@click.option("--headless", is_flag=True, help="Do not ask: deny calls that need approval.")
@with_flags
@with_context
@click.pass_context
def advance(
    ctx: click.Context,
    flags: Flags,
    file: str,
    message: str | None,
    model: str | None,
    protocol: str | None,
    guardrails: bool | None,
    step: bool,
    watch: bool,
    plan: bool,
    headless: bool,
    as_json: bool,
) -> int:
    """Advance a document until it is done or needs a person.

    The reply goes to standard output, everything else to standard error. On a
    terminal you are asked about calls that need approval. Without one the command
    prints the pending calls and how to answer them, and exits with 4. --model,
    --protocol, --guardrails, --agent and --skill apply to this run only.

    \b
    Exit codes, by the kind of the outcome:
      0    done, stepped
      1    failed, stopped, conflict, stale
      2    bad usage, configuration or frontmatter: nothing was done
      3    instead of 0, with --headless: a call needed approval and was denied
      4    pending, edited: a person is needed
      130  cancelled

    \b
    Example:
      holdfast chat plan.chat
      holdfast chat plan.chat -m "Run the tests." --model operator
    """
    given = {"model.name": model, "model.protocol": protocol, "guardrails.enabled": guardrails}
    path = find_document(file, _subcommands(ctx))
    options = ChatOptions(
        flags={**flags, **{option: value for option, value in given.items() if value is not None}},
        message=None if message is None else read_text(message),
        step=step,
        plan=plan,
        headless=headless,
        as_json=as_json,
    )
    install_warning_handler()
    return asyncio.run((watch_document if watch else _advance_once)(path, options))


def _subcommands(ctx: click.Context) -> Sequence[str]:
    """The words that FILE may be a typo of."""
    group = None if ctx.parent is None else ctx.parent.command
    return list(group.commands) if isinstance(group, click.Group) else []


async def _advance_once(path: Path, options: ChatOptions) -> int:
    with interrupts() as interrupt:
        await interrupt.run_until_pressed(ask_for_trust(path, options.flags, ask=options.asks))
        return (await ChatRunner(path, options, interrupt).advance()).exit_code
