"""A child process for the tests: child_process.py COMMAND LEDGER [ARGUMENTS]. It waits for a line before it acts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from holdfast.contract.errors import NotPending
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, YES, begin, make_call


def consume(ledger: Ledger, call_id: str) -> None:
    """Try to use an approval and print whether it worked."""
    pending_call = ledger.find_pending(call_id)
    say("ready")
    sys.stdin.readline()
    if pending_call is None:
        say("gone")
        return
    try:
        asyncio.run(begin(ledger, pending_call.call, digest=pending_call.digest))
    except NotPending:
        say("lost")
    else:
        say("won")
        ledger.end_now(call_id, DONE)


def consume_grant(ledger: Ledger, grant_id: str) -> None:
    say("ready")
    sys.stdin.readline()
    say("won" if ledger.grants.consume(grant_id, "some call") else "lost")


def approve(ledger: Ledger, call_id: str) -> None:
    """Approve a call on which another process is waiting."""
    pending_call = ledger.find_pending(call_id)
    assert pending_call is not None
    say("ready")
    sys.stdin.readline()
    ledger.answer(call_id, YES, digest=pending_call.digest)
    say("answered")


def write(ledger: Ledger, prefix: str) -> None:
    """Record a hundred calls, half of them concurrently."""
    say("ready")
    sys.stdin.readline()

    async def scenario() -> None:
        for number in range(50):
            await ledger.record_call(make_call(f"{prefix}-{number}"), APPROVED, DONE)
        together = (make_call(f"{prefix}-{number}") for number in range(50, 100))
        await asyncio.gather(*(ledger.record_call(call, APPROVED, DONE) for call in together))

    asyncio.run(scenario())
    say("written")


def run(ledger: Ledger, call_id: str) -> None:
    """Begin a call and wait until killed."""
    asyncio.run(begin(ledger, make_call(call_id)))
    say("ready")
    sys.stdin.readline()


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


COMMANDS = {"consume": consume, "consume_grant": consume_grant, "approve": approve, "write": write, "run": run}

if __name__ == "__main__":
    with Ledger.open(Path(sys.argv[2])) as opened:
        COMMANDS[sys.argv[1]](opened, *sys.argv[3:])
