"""Finds documents and their calls: by file name, by call id, or all of a project that have open calls."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Final

from holdfast.agent.conversation import Slot, Status
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.state_file import document_states, lock_owner
from holdfast.chat.turns import read_turns
from holdfast.cli.errors import UsageProblem
from holdfast.cli.project_context import Flags
from holdfast.contract.call import ProcessIdentity
from holdfast.contract.errors import HoldfastError, UnknownCall
from holdfast.factory.runtime import Project, chats_dir, load_project, open_ledger
from holdfast.fs.protected_list import DOCUMENT_SUFFIX
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean
from holdfast.tools.files.pages import SNIFFED_BYTES, mime_type


def find_document(name: str, commands: Iterable[str] = ()) -> Path:
    """Return the path if it can be a document; otherwise raise with a suggestion, which may be one of `commands`."""
    path = Path(name)
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise UsageProblem(_missing(path, error, commands)) from None
    if stat.S_ISDIR(found.st_mode):
        raise UsageProblem(f"{escape(name)} is a folder. Name a document in it, such as {escape(name)}/notes.chat.")
    if not stat.S_ISREG(found.st_mode):
        raise UsageProblem(f"{escape(name)} is not a regular file, so it cannot be a document.")
    _refuse_binary(path)
    return path


def location(path: Path | str, line: int | None = None) -> str:
    """Return `path:line` as the person would type it: relative to the current directory if it lies below it."""
    near = os.path.relpath(path)
    shown = escape(str(path) if near.startswith("..") else near)
    return shown if line is None else f"{shown}:{line}"


def _refuse_binary(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(SNIFFED_BYTES)
    except OSError as error:
        reason = error.strerror or "unknown error"
        raise UsageProblem(f"Cannot read {escape(str(path))}: {reason}. Check its permissions.") from None
    # A .chat file may hold any bytes, even NUL. Another file that looks binary was probably named by mistake.
    kind = None if path.suffix == DOCUMENT_SUFFIX else mime_type(head, path.name)
    if kind is not None:
        raise UsageProblem(f"{escape(str(path))} is not text ({kind}), so it cannot be a document. Name another file.")


def _missing(path: Path, error: OSError | ValueError, commands: Iterable[str]) -> str:
    name = escape(str(path))
    if not isinstance(error, FileNotFoundError):
        reason = error.strerror if isinstance(error, OSError) else "invalid file name"
        return f"Cannot open {name}: {reason}."
    meant = did_you_mean(path.name, _documents_beside(path))
    if meant is not None:
        return f"There is no file {name}. Did you mean {escape(str(path.with_name(meant)))}?"
    word = did_you_mean(str(path), commands)
    if word is not None:
        return f"There is no file {name}. Did you mean `holdfast chat {word}`?"
    return f"There is no file {name}. Create it with `holdfast chat new {escape(quote(str(path)))}`."


def _documents_beside(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(path.parent) if entry.name.endswith(DOCUMENT_SUFFIX))
    except OSError:
        return []


_OR_BY_ID: Final = "or use the call's id in `holdfast pending`"


def project_of(path: Path | None, flags: Flags) -> Project:
    """Load the configuration that applies to a document, without its frontmatter; without a path, the one here."""
    return load_project(None if path is None else path.resolve().parent, flags=flags or None, checked=False)


def open_read_only(path: Path, project: Project) -> DocumentConversation:
    """Read a document without taking it over from the process that advances it."""
    return DocumentConversation(path, state=chats_dir(project))


def known_documents(project: Project) -> Iterator[Path]:
    """Yield the documents of the project that have open calls or are being advanced."""
    folder = chats_dir(project)
    for document in document_states(folder):
        if document.path.is_file() and (document.calls or lock_owner(document.path, folder) is not None):
            yield document.path


def find_driver(path: Path, flags: Flags) -> ProcessIdentity | None:
    """Return the process that advances a document; its start time rules out a reused pid."""
    return lock_owner(path, chats_dir(project_of(path, flags)))


def find_call(given: str, file: str | None, flags: Flags) -> tuple[Path, Slot]:
    """Return the document and the open call with exactly this id, either its ledger id or its id in the document.

    The model chooses the ids in a document. So they are never completed from a prefix, and an id that another call has
    or had (in the ledger, in another document, in an earlier reply) is refused as ambiguous.
    """
    if file is not None:
        paths, where = [find_document(file)], f"in {location(find_document(file))}"
    else:
        paths, where = list(known_documents(project_of(None, flags))), "in the documents of this project"
    found = [(path, slot) for path in paths for slot in _slots(path, flags) if given in _ids(slot)]
    if not found:
        raise UnknownCall(f"No open call {where} has the id '{escape(given)}'. `holdfast chat status` lists them.")
    if len(found) > 1:
        places = ", ".join(f"{escape(slot.use.id)} in {location(path, slot.line)}" for path, slot in found[:5])
        raise UnknownCall(f"Several open calls have the id '{escape(given)}': {places}. Name the file, {_OR_BY_ID}.")
    path, slot = found[0]
    if slot.call is not None and given != slot.call.call_id and slot.status is Status.PENDING:
        _check_unique(path, slot, slot.call.call_id, flags, named=file is not None)
    return path, slot


def _check_unique(path: Path, slot: Slot, call_id: str, flags: Flags, *, named: bool) -> None:
    """Raise if the id that the model chose also belongs, or belonged, to another call."""
    project = project_of(path, flags)
    earlier = (turn for turn in read_turns(open_read_only(path, project).document) if turn.number < slot.turn)
    if any(asked.use.id == slot.use.id for turn in earlier for asked in turn.calls):
        raise UnknownCall(
            f"An earlier reply in {location(path)} has a call '{escape(slot.use.id)}' too. Use this one's ledger id: "
            f"`holdfast chat run {call_id} {location(path)}`."
        )
    if named:
        return
    with open_ledger(project, read_only=True) as ledger:
        others = [one for one in ledger.calls_with_given_id(slot.use.id) if one != call_id]
    if others:
        raise UnknownCall(
            f"Another call had the id '{escape(slot.use.id)}' before the one in {location(path, slot.line)}. "
            f"Name the file, {_OR_BY_ID}."
        )


def _slots(path: Path, flags: Flags) -> Sequence[Slot]:
    try:
        return open_read_only(path, project_of(path, flags)).slots()
    except HoldfastError:
        return []


def _ids(slot: Slot) -> tuple[str, ...]:
    return (slot.use.id,) if slot.call is None else (slot.use.id, slot.call.call_id)
