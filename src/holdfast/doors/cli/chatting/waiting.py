"""What is said of calls without a result when the command ends: where each stands, why, and what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.agent.conversation import Slot, Status
from holdfast.agent.standing import Standing, standing_of
from holdfast.contract.call import HeldCall
from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.chatting.documents import place
from holdfast.doors.cli.chatting.shapes import preview_of
from holdfast.doors.cli.held import HeldView
from holdfast.text.visible import visible

if TYPE_CHECKING:
    from holdfast.assemble.chat import Chat
    from holdfast.runtime.runtime import Runtime


def waiting_lines(chat: Chat, slots: Sequence[Slot]) -> Iterator[str]:
    """Every one of them, and how to answer without a terminal."""
    runtime, path = chat.runtime, chat.path
    asked: list[HeldCall] = []
    for slot in slots:
        known = standing_of(runtime, slot)
        status = "new" if slot.status is None else slot.status
        yield f"{screen.paint('Waiting', 'yellow', stream=sys.stderr)} at {place(path, slot.line)} ({status})"
        held = known.held
        if slot.status is Status.PENDING and held is not None and held.state is State.PENDING:
            asked.append(held)
            tool = runtime.registry.find(held.call.tool)
            yield from (f"  {line}" for line in HeldView(held, risk=None if tool is None else tool.risk).short())
        else:
            yield f"  {screen.shown(preview_of(slot, runtime))}"
            yield f"  {_why(known, runtime, place(path))}"
    if asked:
        yield from _how(path, asked[0])


def _why(known: Standing, runtime: Runtime, name: str) -> str:
    """Why nobody is asked about it, and what to do."""
    slot, held = known.slot, known.held
    if slot.status is None or slot.status in (Status.DENIED, Status.REJECTED, Status.ABORTED):
        return f"Its turn has not come yet; `holdfast chat {name}` goes on."
    if slot.text.strip():
        return "There is text where its result goes: remove the fence to send it, or the text to let the call run."
    if known.state is State.RUNNING or (held is not None and held.state is State.APPROVED and held.waiter is not None):
        return f"Another process runs it; `holdfast chat {name}` takes its result in when it has ended."
    if runtime.registry.find(slot.use.name) is None:
        return f"There is no tool '{visible(slot.use.name)}' here: bring it back, or write status=rejected."
    if runtime.planning:
        return f"It is approved, and with --plan nothing runs that changes something; `holdfast chat {name}` runs it."
    if slot.status is Status.PENDING and held is None:
        return "Nothing is held for it: write its result into the block, or remove the block to be asked."
    return f"It is approved and could not run here: `holdfast chat {name}` tries again, status=rejected gives it up."


def _how(path: Path, held: HeldCall) -> Iterator[str]:
    name, first = place(path), held.call.id
    if held.definition_only:
        yield f"Answer with `holdfast answer {first} TEXT`, or write the result into the block in {name}."
    else:
        yield f"Approve with `holdfast approve {first}`, or by writing status=approved into the block in {name}."
    yield f"Then `holdfast chat {name}` goes on; on a terminal it asks."
