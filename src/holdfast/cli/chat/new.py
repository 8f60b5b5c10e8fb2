"""`holdfast chat new`: a document to begin with."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from holdfast.chat.turns import new_document_text
from holdfast.cli import console
from holdfast.cli.arguments import read_text
from holdfast.cli.chat.documents import location, project_of
from holdfast.cli.chat.trust_prompt import record_trust, wants_trust
from holdfast.cli.errors import UsageProblem
from holdfast.cli.json_output import WrittenOutput
from holdfast.cli.project_context import Flags
from holdfast.contract.json import encode_json
from holdfast.factory.chat import review_trust
from holdfast.models.from_config import check_name
from holdfast.text.escape import escape


def start_document(
    flags: Flags, file: str, *, system: str | None, message: str | None, model: str | None, as_json: bool
) -> int:
    if system == "-" and message == "-":
        raise UsageProblem("Only one of --system and --message can be read from standard input.")
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
    console.print_err(f"Created {location(path)}. {next_step} with {then}.")
    return 0


def _frontmatter(model: str) -> str:
    # A JSON string is also a TOML one, apart from DEL, which JSON leaves alone.
    name = encode_json(model).decode().replace("\x7f", "\\u007f")
    return f"```toml\n[model]\nname = {name}\n```\n"


def _check_model(path: Path, flags: Flags, model: str) -> None:
    """Before anything is written: a name nobody knows would be trusted for nothing."""
    check_name(replace(project_of(path, flags).loaded.config.model, name=model))


def _create(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageProblem(
            f"{escape(str(path))} exists already. Continue with `holdfast chat {location(path)}`."
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "that is no file name"
        raise UsageProblem(f"{escape(str(path))} cannot be written: {reason}; choose another place.") from None


def _trust(path: Path, flags: Flags) -> None:
    """Whoever typed the model's name here has seen all there is in the frontmatter."""
    found = review_trust(path, flags=flags or None)
    if found is not None and wants_trust(found):
        record_trust(found)
