"""Which documents of a project are open, and which of them has the call a person means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.agent.conversation import Status
from holdfast.contract.errors import HoldfastError, UnknownCall
from holdfast.doors.cli.chatting.documents import find_document, place
from holdfast.doors.cli.place import Flags
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.agent.conversation import Slot
    from holdfast.assemble import Setting
    from holdfast.chat.conversation import DocumentConversation

_OR: Final = "or the call by its id in `holdfast pending`"


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
    from holdfast.chat.remembering import driver, remembered_documents

    folder = chats_of(setting)
    for document in remembered_documents(folder):
        if document.path.is_file() and (document.open or driver(document.path, folder) is not None):
            yield document.path


def find_call(given: str, file: str | None, flags: Flags) -> tuple[Path, Slot]:
    """The open call with exactly this id, in the ledger or in the document.

    A model chooses the ids in a document, so that they are never completed, and one that could mean another call
    approves nothing: of the ledger, of another document, or of an earlier reply.
    """
    if file is not None:
        paths, where = [find_document(file)], f"in {place(find_document(file))}"
    else:
        paths, where = list(known_documents(setting_of(None, flags))), "in the documents of this project"
    found = [(path, slot) for path in paths for slot in _slots(path, flags) if given in _ids(slot)]
    if not found:
        raise UnknownCall(f"No open call {where} has the id '{visible(given)}'; `holdfast chat status` lists them.")
    if len(found) > 1:
        places = ", ".join(f"{visible(slot.use.id)} in {place(path, slot.line)}" for path, slot in found[:5])
        raise UnknownCall(f"Several open calls have the id '{visible(given)}': {places}; name the file, {_OR}.")
    path, slot = found[0]
    if slot.open is not None and given != slot.open.call_id and slot.status is Status.PENDING:
        _check_unique(path, slot, slot.open.call_id, flags, named=file is not None)
    return path, slot


def _check_unique(path: Path, slot: Slot, call_id: str, flags: Flags, *, named: bool) -> None:
    """The id that a model gave would approve a call: it must not be one that another call has, or had."""
    from holdfast.assemble import open_ledger
    from holdfast.chat.turns import turns

    setting = setting_of(path, flags)
    earlier = (turn for turn in turns(looked_at(path, setting).document) if turn.number < slot.turn)
    if any(asked.use.id == slot.use.id for turn in earlier for asked in turn.asked):
        raise UnknownCall(
            f"An earlier reply in {place(path)} has a call '{visible(slot.use.id)}' too; name this one by its id "
            f"in the ledger: holdfast chat run {call_id} {place(path)}"
        )
    if named:
        return
    with open_ledger(setting, read_only=True) as ledger:
        others = [one for one in ledger.calls_given(slot.use.id) if one != call_id]
    if others:
        raise UnknownCall(
            f"Another call had the id '{visible(slot.use.id)}' before the one in {place(path, slot.line)}; "
            f"name the file, {_OR}."
        )


def _slots(path: Path, flags: Flags) -> Sequence[Slot]:
    try:
        return looked_at(path, setting_of(path, flags)).slots()
    except HoldfastError:
        return []


def _ids(slot: Slot) -> tuple[str, ...]:
    return (slot.use.id,) if slot.open is None else (slot.use.id, slot.open.call_id)
