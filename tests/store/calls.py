"""Calls, pending calls and results for the tests of the store."""

from __future__ import annotations

import subprocess
import sys
from itertools import count

from holdfast.contract.call import Answer, Call, Caller, Decision, PendingCall, ProcessIdentity
from holdfast.contract.enums import State, Verdict
from holdfast.contract.json import Args, digest_of
from holdfast.contract.result import Result
from holdfast.contract.schedules import Schedule, ScheduledWork
from holdfast.store.entries import BeforeImage
from holdfast.store.ledger import Ledger
from holdfast.store.process_identity import this_process
from holdfast.store.schedules import new_schedule_id

APPROVED = Decision(Verdict.APPROVE, "urn:holdfast:approval:config", "It is in the list.")
ASKED = Decision(Verdict.ASK, "urn:holdfast:approval:config", "No rule covers it.")
DONE = Result(True, "done\n")
YES = Answer(kind="approve", by="ada")
SCHEDULED = 1_800_000_000.0
"""When schedules are made, a full hour: 2027-01-15 08:00 UTC."""
_numbers = count(1)


def make_call(call_id: str | None = None, *, tool: str = "file.write", args: Args | None = None) -> Call:
    return Call(
        id=call_id or f"c{next(_numbers)}",
        tool=tool,
        name_used=tool,
        args={"path": "a.txt"} if args is None else args,
        caller=Caller(interface="test", session="s1"),
        cwd="/project",
    )


def make_pending(call_id: str | None = None, *, args: Args | None = None, tool: str = "file.write") -> PendingCall:
    call = make_call(call_id, args=args, tool=tool)
    return PendingCall(
        call=call,
        state=State.PENDING,
        digest=digest_of([call.tool, call.args]),
        definition_digest="d" * 64,
        decision=ASKED,
        preview="file.write: a.txt",
        held_at=1.5,
    )


async def begin(ledger: Ledger, call: Call, *, digest: str | None = None, mutates: bool = True) -> None:
    await ledger.begin(call, digest=digest, definition_digest="d" * 64, mutates=mutates, decision=APPROVED)


def before_images(ledger: Ledger, call_id: str) -> list[BeforeImage]:
    """Return the before-images of a call, in the order they were recorded."""
    rows = ledger.rows("SELECT body FROM entries WHERE call = ? AND kind = 'before' ORDER BY id", (call_id,))
    return [ledger.read_body(body, BeforeImage) for (body,) in rows]


def dead_process() -> ProcessIdentity:
    """Return the identity of a process that has ended; its PID was real."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait(30)
    return ProcessIdentity(child.pid, this_process().started)


def make_schedule(expression: str = "* * * * *", *, zone: str = "UTC", document: str | None = None) -> Schedule:
    return Schedule(
        id=new_schedule_id(),
        work=ScheduledWork(
            expression=expression,
            zone=zone,
            document=document,
            tool=None if document else "note",
            args=None if document else {"text": "x"},
        ),
        caller=Caller(interface="cron"),
        cwd="/project",
        by="cli:ada",
        call="c1",
        created=SCHEDULED,
    )
