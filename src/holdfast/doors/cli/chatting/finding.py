"""Which documents of a project are open, and which of them has the call a person means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.contract.errors import HoldfastError, UnknownCall
from holdfast.doors.cli.chatting.documents import find_document, place
from holdfast.doors.cli.place import Flags
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.agent.conversation import Slot
    from holdfast.assemble import Setting
    from holdfast.chat.conversation import DocumentConversation


def setting_of(path: Path | None, flags: Flags) -> Setting:
    """What applies to a document, apart from its frontmatter; without one, what applies here."""
    from holdfast.assemble import load_setting

    return load_setting(None if path is None else path.resolve().parent, flags=flags or None, checked=False)


def looked_at(path: Path, setting: Setting) -> DocumentConversation:
    """A document to look at, whoever drives it."""
    from holdfast.assemble.chat import chats_of
    from holdfast.chat.conversation import DocumentConversation

    return DocumentConversation(path, state=chats_of(setting))


def known_documents(setting: Setting) -> Iterator[Path]:
    """Documents of the project that have calls open or that somebody drives."""
    from holdfast.assemble.chat import chats_of
    from holdfast.chat.locking import driver
    from holdfast.chat.remembering import remembered_documents

    folder = chats_of(setting)
    for document in remembered_documents(folder):
        if document.path.is_file() and (document.open or driver(document.path, folder) is not None):
            yield document.path


def find_call(prefix: str, file: str | None, flags: Flags) -> tuple[Path, Slot]:
    """The open call whose id, in the document or in the ledger, begins so."""
    if not prefix:
        raise UnknownCall("The id is empty; `holdfast chat status` lists the calls that are open.")
    if file is not None:
        path = find_document(file)
        found = [(path, slot) for slot in _matching(path, prefix, flags)]
        where = f"in {place(path)}"
    else:
        paths = known_documents(setting_of(None, flags))
        found = [(path, slot) for path in paths for slot in _matching(path, prefix, flags)]
        where = "in the documents of this project"
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownCall(
            f"No open call {where} has an id that begins with '{visible(prefix)}'; `holdfast chat status` lists them."
        )
    places = ", ".join(f"{visible(slot.use.id)} in {place(path, slot.line)}" for path, slot in found[:5])
    raise UnknownCall(f"Several open calls begin with '{visible(prefix)}': {places}; give more of the id, or the file.")


def _matching(path: Path, prefix: str, flags: Flags) -> list[Slot]:
    try:
        slots = looked_at(path, setting_of(path, flags)).slots()
    except HoldfastError:
        return []
    exact = [slot for slot in slots if prefix in _ids(slot)]
    return exact or [slot for slot in slots if any(one.startswith(prefix) for one in _ids(slot))]


def _ids(slot: Slot) -> tuple[str, ...]:
    return (slot.use.id,) if slot.open is None else (slot.use.id, slot.open.call_id)
