"""The document a person means: there, readable as text, and its name as it is shown."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from holdfast.doors.cli.failures import UsageProblem
from holdfast.fs.protected_list import DOCUMENT_SUFFIX
from holdfast.text.suggest import did_you_mean
from holdfast.text.visible import visible
from holdfast.tools.files.sniff import SNIFFED_BYTES, mime_type


def find_document(name: str, commands: Iterable[str] = ()) -> Path:
    """The file of that name; otherwise what to do instead. `commands` are words that may have been meant."""
    path = Path(name)
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise UsageProblem(_missing(path, error, commands)) from None
    if stat.S_ISDIR(found.st_mode):
        raise UsageProblem(f"{visible(name)} is a folder; name a document in it, such as {visible(name)}/notes.chat.")
    if not stat.S_ISREG(found.st_mode):
        raise UsageProblem(f"{visible(name)} is not a regular file, so it cannot be a document.")
    _refuse_binary(path)
    return path


def place(path: Path | str, line: int | None = None) -> str:
    """A file as a person would name it from here, with the line where that is known."""
    near = os.path.relpath(path)
    shown = visible(str(path) if near.startswith("..") else near)
    return shown if line is None else f"{shown}:{line}"


def _refuse_binary(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(SNIFFED_BYTES)
    except OSError as error:
        reason = error.strerror or "the system refuses it"
        raise UsageProblem(f"{visible(str(path))} cannot be read: {reason}; check its permissions.") from None
    # A document may hold anything, a NUL included; another file that does is no text and was not meant.
    kind = None if path.suffix == DOCUMENT_SUFFIX else mime_type(head, path.name)
    if kind is not None:
        raise UsageProblem(f"{visible(str(path))} is not text ({kind}), so it cannot be a document; was it meant?")


def _missing(path: Path, error: OSError | ValueError, commands: Iterable[str]) -> str:
    name = visible(str(path))
    if not isinstance(error, FileNotFoundError):
        reason = error.strerror if isinstance(error, OSError) else "that is no file name"
        return f"{name} cannot be opened: {reason}."
    meant = did_you_mean(path.name, _documents_beside(path))
    if meant is not None:
        return f"There is no file {name}. Did you mean {visible(str(path.with_name(meant)))}?"
    word = did_you_mean(str(path), commands)
    if word is not None:
        return f"There is no file {name}. Did you mean `holdfast chat {word}`?"
    from shlex import quote

    return f"There is no file {name}; `holdfast chat new {visible(quote(str(path)))}` starts one."


def _documents_beside(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(path.parent) if entry.name.endswith(DOCUMENT_SUFFIX))
    except OSError:
        return []
