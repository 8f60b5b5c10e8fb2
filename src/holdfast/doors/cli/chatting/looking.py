"""`holdfast chat status`: where documents stand, without touching them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import to_builtins

from holdfast.agent.conversation import Diagnostic, Status
from holdfast.contract.errors import HoldfastError
from holdfast.doors.cli import screen
from holdfast.doors.cli.chatting.documents import find_document, place
from holdfast.doors.cli.chatting.finding import known_documents, looked_at, setting_of
from holdfast.doors.cli.chatting.stopping import driver_of
from holdfast.doors.cli.folding import own_field, quoted_field, sentence
from holdfast.doors.cli.held import given_lines
from holdfast.doors.cli.holding import note_shown
from holdfast.doors.cli.outputs import Document, SlotOutput, position
from holdfast.doors.cli.place import Flags, runtime_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.agent.conversation import Slot
    from holdfast.chat.conversation import DocumentConversation
    from holdfast.config.model import Config
    from holdfast.contract.call import PendingCall

_NEXT: Final = {
    "categorise": "new calls are looked at",
    "execute": "answered calls run",
    "pending": "you answer what waits",
    "edited": "you remove the fence around your text",
    "send": "the model answers",
    "yours": "you write",
}

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


def show_status(flags: Flags, file: str | None, *, as_json: bool) -> int:
    paths = [find_document(file)] if file is not None else list(known_documents(setting_of(None, flags)))
    for path in paths:
        found, held = _document(path.resolve(), flags)
        if as_json:
            screen.put_json(found)
            note_shown(setting_of(path, flags).state, held)
        else:
            _show(found)
    if not paths and not as_json:
        screen.say("No document of this project is being advanced or has calls open.")
    return 0


def _document(path: Path, flags: Flags) -> tuple[Document, list[PendingCall]]:
    """What is known of it, and the pending calls that are in that."""
    from holdfast.chat.turns import first_pending, starts

    setting = setting_of(path, flags)
    conversation = looked_at(path, setting)
    config, problems, trusted = _frontmatter(path, flags)
    slots = conversation.slots()
    owner = driver_of(path, flags)
    with runtime_in(setting, looking=True) as runtime:
        shown = [SlotOutput.of(slot, runtime) for slot in slots]
        opened = [slot.open.call_id for slot in slots if slot.open is not None]
        held = [found for one in opened if (found := runtime.pending.ledger.held(one)) is not None]
    found = Document(
        path=str(path),
        next=_next(conversation, slots),
        pid=None if owner is None else owner.pid,
        model=(config or setting.loaded.config).model.name,
        trusted=trusted,
        slots=shown,
        diagnostics=to_builtins([*problems, *conversation.diagnostics()]),
        cursor=position(first_pending(conversation.document)),
        replies=len(starts(conversation.document)),
        since_you=conversation.turns_since_user(),
        usage=conversation.usage,
    )
    return found, held


def _frontmatter(path: Path, flags: Flags) -> tuple[Config | None, list[Diagnostic], bool | None]:
    """The configuration with it, what is wrong with it, and whether it counts in full; None without one."""
    from holdfast.assemble.chat import review
    from holdfast.doors.cli.chatting.trusting import is_trusted

    try:
        found = review(path, flags=flags or None)
    except HoldfastError as error:
        return None, [Diagnostic("error", str(error), 1, 1)], False
    return (None, [], None) if found is None else (found.now.config, [], is_trusted(found))


def _next(conversation: DocumentConversation, slots: Sequence[Slot]) -> str:
    """What happens when the document advances."""
    if not slots:
        return "send" if conversation.awaits_reply() else "yours"
    if any(slot.status is None for slot in slots):
        return "categorise"
    if all(slot.status is Status.PENDING and not slot.text.strip() for slot in slots):
        return "pending"
    if any(slot.status is Status.APPROVED and slot.text.strip() for slot in slots):
        return "edited"
    return "execute"


def _show(found: Document) -> None:
    for line in sentence(f"Document {place(found.path)}", sys.stdout, "bold"):
        screen.say(line)
    by = "" if found.pid is None else f" (process {found.pid} is at it)"
    _row("next", f"{_NEXT[found.next]}{by}")
    _quote("model", found.model)
    if found.trusted is False:
        _row("trust", f"its frontmatter can only tighten; `holdfast trust {place(found.path)}`")
    used = found.usage
    cost = "" if used.cost is None else f", ${used.cost}"
    _row("replies", f"{found.replies}, {found.since_you} since you wrote")
    _row("tokens", f"{used.input:,} in, {used.output:,} out{cost}")
    for slot in found.slots:
        status = slot.status or "new"
        call = "" if slot.call_id is None else f"call {slot.call_id} "
        _row(status, f"{call}at {place(found.path, slot.line)}", _COLOURS.get(status, "dim"))
        _quote("id", slot.id)
        for line in given_lines(slot.tool, slot.arguments, sys.stdout):
            screen.say(line)
    for item in found.diagnostics:
        _row(item["severity"], place(found.path, item["line"]), _COLOURS[item["severity"]])
        _quote("says", item["message"])


def _row(label: str, text: str, colour: str = "dim") -> None:
    """A word and what there is to say about it."""
    for line in own_field(label, text, sys.stdout, width=_LABEL, colour=colour):
        screen.say(line)


def _quote(label: str, text: str) -> None:
    """A word and what others say there."""
    for line in quoted_field(label, text, sys.stdout, width=_LABEL):
        screen.say(line)
