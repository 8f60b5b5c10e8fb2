"""`holdfast chat run`: one call of a document, alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.agent.conversation import Open, Status
from holdfast.contract.vocabulary import State
from holdfast.doors.cli.chatting.driving import Driver, Wishes
from holdfast.doors.cli.chatting.finding import find_call, setting_of
from holdfast.doors.cli.chatting.interrupting import interrupts
from holdfast.doors.cli.failures import WAITING
from holdfast.doors.cli.holding import review, was_shown
from holdfast.doors.cli.place import Flags, show_warnings
from holdfast.doors.cli.screen import note


def run_one(flags: Flags, given: str, file: str | None, digest: str | None, *, as_json: bool) -> int:
    path, slot = find_call(given, file, flags)
    approved = None
    if slot.open is not None and slot.status is Status.PENDING and not slot.text.strip():
        from holdfast.assemble import open_ledger

        with open_ledger(setting_of(path, flags), read_only=True) as ledger:
            held = ledger.held(slot.open.call_id)
            if held is not None and held.state is State.PENDING and not held.definition_only:
                if not was_shown(ledger, held, digest) and not asyncio.run(review(held)):
                    note(f"Call {held.call.id} still waits.")
                    return WAITING
                approved = Open(call_id=held.call.id, digest=held.digest)
    show_warnings()
    return asyncio.run(_run(path, slot.use.id, approved, Wishes(flags=flags, as_json=as_json)))


async def _run(path: Path, use_id: str, approved: Open | None, wishes: Wishes) -> int:
    with interrupts() as interrupt:
        return (await Driver(path, wishes, interrupt).run_one(use_id, approved)).exit_code
