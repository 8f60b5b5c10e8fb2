"""What is said of calls without a result when the command ends: where each stands, why, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.agent.conversation import Slot, Status
from holdfast.agent.standing import Standing, standing_of
from holdfast.contract.call import PendingCall
from holdfast.contract.vocabulary import State
from holdfast.doors.cli.chatting.documents import place
from holdfast.doors.cli.folding import own_field, sentence
from holdfast.doors.cli.held import HeldView, given_lines
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble.chat import Chat
    from holdfast.runtime.runtime import Runtime


def waiting_lines(chat: Chat, slots: Sequence[Slot], *, watching: bool = False) -> Iterator[str]:
    """Every one of them, and how to answer without a terminal."""
    runtime, path = chat.runtime, chat.path
    goes_on = f"saving {place(path)}" if watching else f"`holdfast chat {place(path)}`"
    asked: list[PendingCall] = []
    for slot in slots:
        known = standing_of(runtime, slot)
        status = "new" if slot.status is None else slot.status
        yield from sentence(f"Waiting at {place(path, slot.line)} ({status})", sys.stderr, "yellow")
        held = known.held
        if slot.status is Status.PENDING and held is not None and held.state is State.PENDING:
            asked.append(held)
            tool = runtime.registry.find(held.call.tool)
            yield from HeldView(held, risk=None if tool is None else tool.risk).short()
        else:
            yield from own_field("why", _why(known, runtime, goes_on), sys.stderr)
            yield from given_lines(slot.use.name, slot.use.arguments, sys.stderr)
    if asked:
        for words in _how(path, asked[0], watching=watching):
            yield from sentence(words, sys.stderr)


def _why(known: Standing, runtime: Runtime, goes_on: str) -> str:
    """Why nobody is asked about it, and what to do."""
    slot, held = known.slot, known.held
    if slot.status is None or slot.status in (Status.DENIED, Status.REJECTED, Status.ABORTED):
        return f"Its turn has not come yet; {goes_on} goes on."
    if slot.text.strip():
        return "There is text where its result goes: remove the fence to send it, or the text to let the call run."
    if known.state is State.RUNNING or (held is not None and held.state is State.APPROVED and held.waiter is not None):
        return f"Another process runs it; {goes_on} takes its result in when it has ended."
    if runtime.registry.find(slot.use.name) is None:
        return f"There is no tool '{visible(slot.use.name)}' here: bring it back, or write status=rejected."
    if runtime.planning:
        return "It is approved, and with --plan nothing runs that changes something; without --plan it does."
    if slot.status is Status.PENDING and held is None:
        return "Nothing is held for it: write its result into the block, or remove the block to be asked."
    return f"It is approved and could not run here: {goes_on} tries again, status=rejected gives it up."


def _how(path: Path, held: PendingCall, *, watching: bool) -> Iterator[str]:
    name, first = place(path), held.call.id
    if held.definition_only:
        yield f"Answer with `holdfast answer {first} TEXT`, or write the result into the block in {name}."
    else:
        yield f"Approve with `holdfast approve {first}`, or by writing status=approved into the block in {name}."
    if watching:
        yield f"Then saving {name} goes on."
    else:
        yield f"Then `holdfast chat {name}` goes on; on a terminal it asks."
