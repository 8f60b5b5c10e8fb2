"""`holdfast chat status` and `cancel`: where documents stand, who advances them, and what their calls wait for."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import to_builtins

from holdfast.agent.conversation import Diagnostic, Slot, Status
from holdfast.agent.slot_state import SlotState, read_slot_state
from holdfast.chat.conversation import DocumentConversation
from holdfast.chat.state_file import lock_owner
from holdfast.chat.turns import first_pending, reply_indexes
from holdfast.cli import console
from holdfast.cli.chat.documents import find_document, known_documents, location, open_read_only, project_of
from holdfast.cli.chat.trust_prompt import is_trusted
from holdfast.cli.errors import UsageProblem
from holdfast.cli.json_output import DocumentOutput, SlotOutput, StopOutput, position
from holdfast.cli.layout import field_lines, quoted_field_lines, wrap_sentence
from holdfast.cli.pending_view import PendingView, record_shown, tool_use_lines
from holdfast.cli.project_context import Flags, open_runtime_for, warn_about_config
from holdfast.config.config import Config
from holdfast.contract.call import PendingCall, ProcessIdentity
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError
from holdfast.factory.chat import ChatSession, chats_dir, review_trust
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape

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
    paths = [find_document(file)] if file is not None else list(known_documents(project_of(None, flags)))
    for path in paths:
        found, pending = _document(path.resolve(), flags)
        if as_json:
            console.print_json(found)
            record_shown(project_of(path, flags).state, pending)
        else:
            _show(found)
    if not paths and not as_json:
        console.print_out("No document of this project is being advanced or has calls open.")
    return 0


def _document(path: Path, flags: Flags) -> tuple[DocumentOutput, list[PendingCall]]:
    """What is known of it, and the pending calls that are in that."""
    project = project_of(path, flags)
    warn_about_config(project)
    conversation = open_read_only(path, project)
    config, problems, trusted = _frontmatter(path, flags)
    slots = conversation.slots()
    owner = find_driver(path, flags)
    with open_runtime_for(project, read_only=True) as runtime:
        shown = [SlotOutput.of(slot, runtime) for slot in slots]
        opened = [slot.call.call_id for slot in slots if slot.call is not None]
        pending = [found for one in opened if (found := runtime.pending.ledger.find_pending(one)) is not None]
    found = DocumentOutput(
        path=str(path),
        next=_next(conversation, slots),
        pid=None if owner is None else owner.pid,
        model=(config or project.loaded.config).model.name,
        trusted=trusted,
        slots=shown,
        diagnostics=to_builtins([*problems, *conversation.diagnostics()]),
        cursor=position(first_pending(conversation.document)),
        replies=len(reply_indexes(conversation.document)),
        since_you=conversation.turns_since_user(),
        usage=conversation.usage,
    )
    return found, pending


def _frontmatter(path: Path, flags: Flags) -> tuple[Config | None, list[Diagnostic], bool | None]:
    """The configuration with it, what is wrong with it, and whether it counts in full; None without one."""
    try:
        found = review_trust(path, flags=flags or None)
    except HoldfastError as error:
        return None, [Diagnostic("error", str(error), 1, 1)], False
    return (None, [], None) if found is None else (found.now.config, list(found.diagnostics), is_trusted(found))


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


def _show(found: DocumentOutput) -> None:
    console.print_out_lines(wrap_sentence(f"Document {location(found.path)}", sys.stdout, "bold"))
    by = "" if found.pid is None else f" (process {found.pid} is at it)"
    _row("next", f"{_NEXT[found.next]}{by}")
    _quote("model", found.model)
    if found.trusted is False:
        _row("trust", f"its frontmatter can only tighten; `holdfast trust {location(found.path)}`")
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
    """A word and what there is to say about it."""
    console.print_out_lines(field_lines(label, text, sys.stdout, width=_LABEL, colour=colour))


def _quote(label: str, text: str) -> None:
    """A word and what others say there."""
    console.print_out_lines(quoted_field_lines(label, text, sys.stdout, width=_LABEL))


def cancel_driver(flags: Flags, file: str | None, *, as_json: bool) -> int:
    path, owner = _find_driven(flags, file)
    name = "any document of this project" if path is None else location(path)
    if owner is not None:
        _stop(owner, name)
    if as_json:
        pid = None if owner is None else owner.pid
        console.print_json(StopOutput(path=None if path is None else str(path), pid=pid, told=pid is not None))
    elif owner is None:
        console.print_err(f"Nobody is advancing {name} just now.")
    else:
        console.print_err(f"Process {owner.pid} was told to stop advancing {name}.")
    return 0


def find_driver(path: Path, flags: Flags) -> ProcessIdentity | None:
    """The process that drives a document, if it is the very one that took it."""
    return lock_owner(path, chats_dir(project_of(path, flags)))


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
        raise UsageProblem(f"Several documents are being advanced: {names}; name one.")
    return found[0]


def _stop(owner: ProcessIdentity, name: str) -> None:
    """The owner was alive a moment ago, with the start time it had when it took the document."""
    try:
        os.kill(owner.pid, signal.SIGINT)
    except ProcessLookupError:
        return
    except PermissionError:
        raise UsageProblem(f"Process {owner.pid} advances {name} as another user; stop it there.") from None


def pending_lines(chat: ChatSession, slots: Sequence[Slot], *, watching: bool = False) -> Iterator[str]:
    """Every one of them, and how to answer without a terminal."""
    runtime, path = chat.runtime, chat.path
    goes_on = f"saving {location(path)}" if watching else f"`holdfast chat {location(path)}`"
    asked: list[PendingCall] = []
    for slot in slots:
        known = read_slot_state(runtime, slot)
        status = "new" if slot.status is None else slot.status
        yield from wrap_sentence(f"Waiting at {location(path, slot.line)} ({status})", sys.stderr, "yellow")
        pending = known.pending
        if slot.status is Status.PENDING and pending is not None and pending.state is State.PENDING:
            asked.append(pending)
            tool = runtime.registry.find(pending.call.tool)
            yield from PendingView(pending, risk=None if tool is None else tool.risk).short()
        else:
            yield from field_lines("why", _why(known, runtime, goes_on), sys.stderr)
            yield from tool_use_lines(slot.use.name, slot.use.arguments, sys.stderr)
    if asked:
        for words in _how(path, asked, watching=watching):
            yield from wrap_sentence(words, sys.stderr)


def _why(known: SlotState, runtime: Runtime, goes_on: str) -> str:
    """Why nobody is asked about it, and what to do."""
    slot, pending = known.slot, known.pending
    if slot.status is None or slot.status in (Status.DENIED, Status.REJECTED, Status.ABORTED):
        return f"Its turn has not come yet; {goes_on} continues."
    if slot.text.strip():
        return "There is text where its result goes: remove the fence to send it, or the text to let the call run."
    if known.state is State.RUNNING or (
        pending is not None and pending.state is State.APPROVED and pending.waiter is not None
    ):
        return f"Another process runs it; {goes_on} takes its result in when it has ended."
    if runtime.registry.find(slot.use.name) is None:
        return f"There is no tool '{escape(slot.use.name)}' here: bring it back, or write status=rejected."
    if runtime.planning:
        return "It is approved, and with --plan nothing runs that changes something; without --plan it does."
    if slot.status is Status.PENDING and pending is None:
        return "Nothing is held for it: write its result into the block, or remove the block to be asked."
    return f"It is approved and could not run here: {goes_on} tries again, status=rejected gives it up."


def _how(path: Path, asked: Sequence[PendingCall], *, watching: bool) -> Iterator[str]:
    name = location(path)
    answers = [f"`holdfast respond {pending.call.id} TEXT`" for pending in asked if pending.definition_only]
    approvals = [f"`holdfast approve {pending.call.id}`" for pending in asked if not pending.definition_only]
    if answers:
        yield f"Answer with {', '.join(answers)}, or write the result into the block in {name}."
    if approvals:
        yield f"Approve with {', '.join(approvals)}, or by writing status=approved into the block in {name}."
    if watching:
        yield f"Then save {name} to continue."
    else:
        yield f"Then continue with `holdfast chat {name}`, which asks on a terminal."
