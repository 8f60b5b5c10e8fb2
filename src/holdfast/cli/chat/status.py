"""`holdfast chat status`: what a document does next, which process advances it, and its open calls."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from holdfast.agent.conversation import Diagnostic
from holdfast.cli import console
from holdfast.cli.chat.documents import (
    find_document,
    find_driver,
    known_documents,
    location,
    open_read_only,
    project_of,
)
from holdfast.cli.chat.trust_prompt import is_trusted
from holdfast.cli.layout import field_lines, quoted_field_lines, wrap_sentence
from holdfast.cli.pending_view import record_shown, tool_use_lines
from holdfast.cli.project_context import Flags, open_runtime_for, warn_about_config
from holdfast.cli.root import with_flags
from holdfast.config.config import Config
from holdfast.contract.call import PendingCall
from holdfast.contract.errors import HoldfastError
from holdfast.factory.chat import review_trust
from holdfast.json_output import NEXT_STEPS, DocumentOutput

_COLOURS: Final = {
    "pending": "yellow",
    "approved": "green",
    "denied": "red",
    "rejected": "red",
    "aborted": "red",
    "error": "red",
    "warning": "yellow",
}
_LABEL: Final = 9


@click.command()
@click.argument("file", required=False, type=click.Path())
@with_flags
def status(flags: Flags, file: str | None, as_json: bool) -> int:
    """Show what a document does next, and its open calls.

    Without FILE: every document of this project that is being advanced or has
    open calls.

    \b
    Example:
      holdfast chat status plan.chat
    """
    paths = [find_document(file)] if file is not None else list(known_documents(project_of(None, flags)))
    for path in paths:
        found, pending = _inspect(path.resolve(), flags)
        if as_json:
            console.print_json(found)
            record_shown(project_of(path, flags).state, pending)
        else:
            _show(found)
    if not paths and not as_json:
        console.print_out("No document of this project is being advanced or has open calls.")
    return 0


def _inspect(path: Path, flags: Flags) -> tuple[DocumentOutput, list[PendingCall]]:
    """Return the status of a document, and its pending calls."""
    project = project_of(path, flags)
    warn_about_config(project)
    conversation = open_read_only(path, project)
    config, problems, trusted = _frontmatter(path, flags)
    with open_runtime_for(project, read_only=True) as runtime:
        found = DocumentOutput.of(
            conversation,
            runtime,
            driver=find_driver(path, flags),
            model=(config or project.loaded.config).model.name,
            trusted=trusted,
            problems=problems,
        )
        opened = [slot.call.call_id for slot in conversation.slots() if slot.call is not None]
        pending = [call for one in opened if (call := runtime.pending.ledger.find_pending(one)) is not None]
    return found, pending


def _frontmatter(path: Path, flags: Flags) -> tuple[Config | None, list[Diagnostic], bool | None]:
    """Return the configuration with the frontmatter, its problems, and whether it is trusted (None without one)."""
    try:
        found = review_trust(path, flags=flags or None)
    except HoldfastError as error:
        return None, [Diagnostic("error", str(error), 1, 1)], False
    return (None, [], None) if found is None else (found.now.config, list(found.diagnostics), is_trusted(found))


def _show(found: DocumentOutput) -> None:
    console.print_out_lines(wrap_sentence(f"Document {location(found.path)}", sys.stdout, "bold"))
    by = "" if found.pid is None else f" (process {found.pid} is working on it)"
    _row("next", f"{NEXT_STEPS[found.next]}{by}")
    _quote("model", found.model)
    if found.trusted is False:
        _row("trust", f"its frontmatter can only tighten; see `holdfast trust {location(found.path)}`")
    used = found.usage
    cost = "" if used.cost is None else f", ${used.cost}"
    _row("replies", f"{found.replies}, {found.since_you} since you wrote")
    _row("tokens", f"{used.input:,} in, {used.output:,} out{cost}")
    for slot in found.slots:
        status = slot.status or "new"
        call = "" if slot.call_id is None else f"call {slot.call_id} "
        _row(status, f"{call}at {location(found.path, slot.line)}", _COLOURS.get(status, "dim"))
        _quote("id", slot.id)
        console.print_out_lines(tool_use_lines(slot.tool, slot.arguments, sys.stdout))
    for item in found.diagnostics:
        _row(item["severity"], location(found.path, item["line"]), _COLOURS[item["severity"]])
        _quote("says", item["message"])


def _row(label: str, text: str, colour: str = "dim") -> None:
    """Print a label and our own text."""
    console.print_out_lines(field_lines(label, text, sys.stdout, width=_LABEL, colour=colour))


def _quote(label: str, text: str) -> None:
    """Print a label and quoted text: that of a model or a file."""
    console.print_out_lines(quoted_field_lines(label, text, sys.stdout, width=_LABEL))
