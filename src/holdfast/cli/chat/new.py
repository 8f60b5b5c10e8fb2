"""`holdfast chat new`: create a document."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec.structs import replace

from holdfast.chat.turns import new_document_text
from holdfast.cli import console
from holdfast.cli.arguments import read_text
from holdfast.cli.chat.documents import location, project_of
from holdfast.cli.chat.trust_prompt import record_trust, wants_trust
from holdfast.cli.errors import UsageProblem
from holdfast.cli.json_output import WrittenOutput
from holdfast.cli.layout import print_message
from holdfast.cli.project_context import Flags
from holdfast.cli.root import with_flags
from holdfast.contract.json import encode_json
from holdfast.factory.chat import review_trust
from holdfast.models.from_config import check_name
from holdfast.text.escape import escape


@click.command()
@click.argument("file", type=click.Path())
@click.option("--system", metavar="TEXT", help="The system prompt (- reads standard input).")
@click.option("-m", "--message", metavar="TEXT", help="Your first message (- reads standard input).")
@click.option("--model", metavar="NAME", help="The model that answers: operator, or provider:model.")
@with_flags
def new(flags: Flags, file: str, system: str | None, message: str | None, model: str | None, as_json: bool) -> int:
    """Create a document; an existing one is never overwritten.

    --model is written into the frontmatter, which is trusted because you typed
    it here.

    \b
    Example:
      holdfast chat new plan.chat -m "Read README.md and suggest fixes."
    """
    if system == "-" and message == "-":
        raise UsageProblem("--system and --message cannot both be read from standard input.")
    path = Path(file)
    if model is not None:
        _check_model(path, flags, model)
    text = new_document_text(
        frontmatter="" if model is None else _frontmatter(model),
        system="" if system is None else read_text(system),
        prompt="" if message is None else read_text(message),
    )
    _create(path, text)
    if model is not None:
        _trust(path, flags)
    if as_json:
        console.print_json(WrittenOutput(path=os.path.realpath(path), content=text))
        return 0
    then = "`holdfast chat FILE`" if path.name.startswith("-") else f"`holdfast chat {location(path)}`"
    next_step = "Continue" if message is not None else "Write below @You:, then continue"
    print_message(f"Created {location(path)}. {next_step} with {then}.")
    return 0


def _frontmatter(model: str) -> str:
    # A JSON string is also a TOML string, except for DEL, which JSON does not escape.
    name = encode_json(model).decode().replace("\x7f", "\\u007f")
    return f"```toml\n[model]\nname = {name}\n```\n"


def _check_model(path: Path, flags: Flags, model: str) -> None:
    """Raise for an unknown model before anything is written and trusted."""
    check_name(replace(project_of(path, flags).loaded.config.model, name=model))


def _create(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageProblem(
            f"{escape(str(path))} already exists. Continue with `holdfast chat {location(path)}`."
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "invalid file name"
        raise UsageProblem(f"Cannot create {escape(str(path))}: {reason}. Choose another path.") from None


def _trust(path: Path, flags: Flags) -> None:
    """Trust the frontmatter: it holds nothing but the model name that the person just typed."""
    found = review_trust(path, flags=flags or None)
    if found is not None and wants_trust(found):
        record_trust(found)
