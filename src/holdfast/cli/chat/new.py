"""`holdfast chat new`: create a document."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace

from holdfast.chat.turns import new_document_text
from holdfast.cli import console
from holdfast.cli.arguments import read_text
from holdfast.cli.chat.documents import location, project_of
from holdfast.cli.chat.trust_prompt import record_trust, wants_trust
from holdfast.cli.errors import UsageProblem
from holdfast.cli.layout import print_message
from holdfast.cli.project_context import Flags
from holdfast.cli.root import with_flags
from holdfast.contract.json import encode_json
from holdfast.factory.chat import review_trust
from holdfast.factory.runtime import find_skills
from holdfast.json_output import WrittenOutput
from holdfast.models.from_config import check_name
from holdfast.text.escape import escape


@click.command()
@click.argument("file", type=click.Path())
@click.option("--system", metavar="TEXT", help="The system prompt (- reads standard input).")
@click.option("-m", "--message", metavar="TEXT", help="Your first message (- reads standard input).")
@click.option("--model", metavar="NAME", help="The model that answers: operator, or provider:model.")
@click.option("--agent", metavar="NAME", help="The agent of tools.agents that the conversation is.")
@click.option("--skill", metavar="NAME", help="The skill that the conversation is in.")
@with_flags
def new(
    flags: Flags,
    file: str,
    system: str | None,
    message: str | None,
    model: str | None,
    agent: str | None,
    skill: str | None,
    as_json: bool,
) -> int:
    """Create a document; an existing one is never overwritten.

    --model, --agent and --skill are written into the frontmatter, which is
    trusted because you typed them here.

    \b
    Example:
      holdfast chat new plan.chat -m "Read README.md and suggest fixes."
    """
    if system == "-" and message == "-":
        raise UsageProblem("--system and --message cannot both be read from standard input.")
    path = Path(file)
    _check_names(path, flags, model, agent, skill)
    frontmatter = _frontmatter({"agent": agent, "skill": skill}, model)
    text = new_document_text(
        frontmatter=frontmatter,
        system="" if system is None else read_text(system),
        prompt="" if message is None else read_text(message),
    )
    _create(path, text)
    if frontmatter:
        _trust(path, flags)
    if as_json:
        console.print_json(WrittenOutput(path=os.path.realpath(path), content=text))
        return 0
    then = "`holdfast chat FILE`" if path.name.startswith("-") else f"`holdfast chat {location(path)}`"
    next_step = "Continue" if message is not None else "Write below @You:, then continue"
    print_message(f"Created {location(path)}. {next_step} with {then}.")
    return 0


def _frontmatter(options: Mapping[str, str | None], model: str | None) -> str:
    lines = [f"{option} = {_toml_text(value)}\n" for option, value in options.items() if value is not None]
    if model is not None:
        lines.append(f"[model]\nname = {_toml_text(model)}\n")
    return f"```toml\n{''.join(lines)}```\n" if lines else ""


def _toml_text(value: str) -> str:
    # A JSON string is also a TOML string, except for DEL, which JSON does not escape.
    return encode_json(value).decode().replace("\x7f", "\\u007f")


def _check_names(path: Path, flags: Flags, model: str | None, agent: str | None, skill: str | None) -> None:
    """Raise for an unknown model, agent or skill before anything is written and trusted."""
    if model is agent is skill is None:
        return
    project = project_of(path, flags)
    config = project.loaded.config
    if model is not None:
        check_name(replace(config.model, name=model))
    find_skills(project).check_entered(replace(config, agent=agent, skill=skill))


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
    """Trust the frontmatter: it holds nothing but the names that the person just typed."""
    found = review_trust(path, flags=flags or None)
    if found is not None and wants_trust(found):
        record_trust(found)
