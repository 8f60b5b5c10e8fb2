"""`holdfast chat cancel`: stop the process that is advancing a document."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from holdfast.cli import console
from holdfast.cli.chat.documents import find_document, find_driver, known_documents, location, project_of
from holdfast.cli.errors import UsageProblem
from holdfast.cli.project_context import Flags
from holdfast.cli.root import with_flags
from holdfast.contract.call import ProcessIdentity
from holdfast.json_output import StopOutput


@click.command()
@click.argument("file", required=False, type=click.Path())
@with_flags
def cancel(flags: Flags, file: str | None, as_json: bool) -> int:
    """Stop the process that is advancing a document, like Ctrl-C there.

    FILE may be left out if only one document of this project is being advanced.

    \b
    Example:
      holdfast chat cancel plan.chat
    """
    path, owner = _find_driven(flags, file)
    name = "No document of this project" if path is None else location(path)
    if owner is not None:
        _interrupt(owner, name)
    if as_json:
        pid = None if owner is None else owner.pid
        console.print_json(StopOutput(path=None if path is None else str(path), pid=pid, told=pid is not None))
    elif owner is None:
        console.print_err(f"{name} is {'' if path is None else 'not '}being advanced.")
    else:
        console.print_err(f"Told process {owner.pid} to stop advancing {name}.")
    return 0


def _find_driven(flags: Flags, file: str | None) -> tuple[Path | None, ProcessIdentity | None]:
    if file is not None:
        path = find_document(file).resolve()
        return path, find_driver(path, flags)
    found = [
        (path, owner)
        for path in known_documents(project_of(None, flags))
        if (owner := find_driver(path, flags)) is not None
    ]
    if not found:
        return None, None
    if len(found) > 1:
        names = ", ".join(location(path) for path, _ in found)
        raise UsageProblem(f"Several documents are being advanced: {names}. Name one.")
    return found[0]


def _interrupt(owner: ProcessIdentity, name: str) -> None:
    # `find_driver` compared the start time, so this pid was not reused by another process a moment ago.
    try:
        os.kill(owner.pid, signal.SIGINT)
    except ProcessLookupError:
        return
    except PermissionError:
        raise UsageProblem(f"Process {owner.pid} advances {name} as another user. Stop it there.") from None
