"""`holdfast chat`: documents that people and models write together."""

from __future__ import annotations

import click

from holdfast.cli.chat.advance import ChatOptions, advance_once, drive, run_one
from holdfast.cli.chat.new import start_document
from holdfast.cli.chat.status import cancel_driver, show_status
from holdfast.cli.chat.watch import watch_document
from holdfast.cli.project_context import Flags
from holdfast.cli.root import DefaultGroup, complete_pending, with_flags


@click.group(cls=DefaultGroup)
def chat() -> None:
    """Conversations in plain files: advance them, watch them, look."""


@chat.command()
@click.argument("file", type=click.Path())
@click.option("-m", "--message", metavar="TEXT", help="Say this first (- reads standard input).")
@click.option("--model", metavar="NAME", help="Who answers, for this run only: operator, or provider:model.")
@click.option(
    "--protocol",
    type=click.Choice(["auto", "native", "text"]),
    help="How the model asks for tools, for this run only; text is for models that can only write.",
)
@click.option(
    "--guardrails/--no-guardrails",
    default=None,
    help="Whether small models get help with searching, reading and editing, for this run only.",
)
@click.option("--step", is_flag=True, help="Do one step only, then stop.")
@click.option("--watch", is_flag=True, help="Go on whenever the file is saved, until Ctrl-C.")
@click.option("--plan", is_flag=True, help="Change nothing: say what would be done instead.")
@click.option("--headless", is_flag=True, help="Nobody is asked: what needs a person is denied.")
@with_flags
def advance(
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
    """Advance a document until it is done or a person is needed.

    This is what `holdfast chat FILE` does. The reply goes to standard output,
    everything else to standard error. On a terminal you are asked about calls
    that need a person. Without one the command stops there, says what waits and
    how to answer, and exits with 4.

    \b
    Exit codes, by the kind of the outcome:
      0    done, stepped
      1    failed, stopped, conflict, stale
      2    bad usage, configuration or frontmatter: nothing was done
      3    instead of 0, with --headless: a call needed a person and was denied
      4    pending, edited: a person is needed
      130  cancelled
    """
    asked = {"model.name": model, "model.protocol": protocol, "guardrails.enabled": guardrails}
    wishes = ChatOptions(
        flags={**flags, **{option: value for option, value in asked.items() if value is not None}},
        message=message,
        step=step,
        plan=plan,
        headless=headless,
        as_json=as_json,
    )
    return drive(file, wishes, list(chat.commands), watch_document if watch else advance_once)


@chat.command()
@click.argument("file", type=click.Path())
@click.option("--system", metavar="TEXT", help="What the model is told about its task (- reads standard input).")
@click.option("-m", "--message", metavar="TEXT", help="Your first message (- reads standard input).")
@click.option("--model", metavar="NAME", help="Who answers: operator, or provider:model.")
@with_flags
def new(flags: Flags, file: str, system: str | None, message: str | None, model: str | None, as_json: bool) -> int:
    """Start a document; never over one that is there.

    A --model is written into its frontmatter, which counts as trusted: you
    asked for it here.
    """
    return start_document(flags, file, system=system, message=message, model=model, as_json=as_json)


@chat.command()
@click.argument("call", metavar="ID", shell_complete=complete_pending)
@click.argument("file", required=False, type=click.Path())
@click.option("--digest", metavar="DIGEST", help="What you approve: at least 12 digits of the digest of the call.")
@with_flags
def run(flags: Flags, call: str, file: str | None, digest: str | None, as_json: bool) -> int:
    """Run or settle one call of a document alone.

    ID is the whole id in the document, or that of `holdfast pending`. A call that
    waits is approved by this, as you were last shown it in full or as --digest
    names it, and runs. FILE can be left out where no other call of this project
    has, or had, that id.
    """
    return run_one(flags, call, file, digest, as_json=as_json)


@chat.command()
@click.argument("file", required=False, type=click.Path())
@with_flags
def cancel(flags: Flags, file: str | None, as_json: bool) -> int:
    """Stop whoever is advancing a document just now, as Ctrl-C there would.

    FILE can be left out where only one document of this project is advanced.
    """
    return cancel_driver(flags, file, as_json=as_json)


@chat.command()
@click.argument("file", required=False, type=click.Path())
@with_flags
def status(flags: Flags, file: str | None, as_json: bool) -> int:
    """Show where a document stands: what comes next, what waits and where.

    Without FILE: every document of this project that somebody advances or that
    has calls open.
    """
    return show_status(flags, file, as_json=as_json)
