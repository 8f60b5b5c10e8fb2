"""The kill test of the runtime: forks workers on one ledger and kills each with SIGKILL at a random moment.

The oracle is outside the store: a worker appends to files with one write each.
`executed` gets the id of a call at the moment its tool runs; `acknowledged` gets the id and state of a call after the
runtime has returned it; `pending` gets the id of a call that was acknowledged as pending.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from holdfast import Answer, Runtime, State, Tool
from holdfast.config.config import ApprovalConfig, Config
from holdfast.contract.errors import CallError
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger

IN_FLIGHT = 8


class Oracle:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def note(self, name: str, line: str) -> None:
        opened = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(opened, f"{line}\n".encode())
        os.close(opened)

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []


def _tools(oracle: Oracle) -> list[Tool]:
    async def mutate(args: Any, ctx: Any) -> str:
        oracle.note("executed", ctx.call_id)
        await asyncio.sleep(random.random() * 0.004)
        return "changed"

    async def look(args: Any, ctx: Any) -> str:
        return "seen"

    return [
        Tool(name="mutate", execute=mutate, effects=frozenset({"external"})),
        Tool(name="asked", execute=mutate, effects=frozenset({"external"})),
        Tool(name="look", execute=look, effects=frozenset()),
    ]


async def _work(folder: Path, oracle: Oracle, at_work: int) -> None:
    ledger = Ledger.open(folder / "state" / "ledger.db")
    config = Config(approval=ApprovalConfig(auto_approve=("mutate",)))
    runtime = Runtime(
        tools=_tools(oracle), ledger=ledger, nobody="pending", config=config, workspace=Workspace(cwd=str(folder))
    )

    async def one() -> None:
        while True:
            name = random.choice(["mutate", "mutate", "look", "asked"])
            result = await runtime.call(name)
            if result.state is State.PENDING:
                oracle.note("pending", result.call_id)
                if random.random() < 0.7:
                    try:
                        result = await runtime.answer(result.call_id, Answer(kind="approve", by="driver"))
                    except CallError:
                        continue
            if result.state is not State.PENDING:
                oracle.note("acknowledged", f"{result.call_id} {result.state}")
                os.write(at_work, b".")

    async with runtime:
        os.write(at_work, b"!")
        await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))


def _kill_one(folder: Path, oracle: Oracle) -> None:
    seen, at_work = os.pipe()
    worker = os.fork()
    if worker == 0:
        random.seed()
        try:
            asyncio.run(_work(folder, oracle, at_work))
        except BaseException as error:
            oracle.note("broken", repr(error))
        os._exit(1)
    os.close(at_work)
    if random.random() < 0.8:  # the others are killed while they start, recover and resume
        for _ in range(random.randrange(1, 24)):  # as much work on a busy machine as on an idle one
            select.select([seen], [], [], 20)
            os.read(seen, 1)
        time.sleep(random.uniform(0.0, 0.005))
    else:
        time.sleep(random.uniform(0.0, 0.04))
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    os.close(seen)


def main(folder: Path, kills: int) -> dict[str, Any]:
    oracle = Oracle(folder)
    in_between = 0
    for _ in range(kills):
        _kill_one(folder, oracle)
        ledger = Ledger.open(folder / "state" / "ledger.db")
        in_between += bool(ledger.recover())
        ledger.close()
    ledger = Ledger.open(folder / "state" / "ledger.db")
    verified = ledger.verify()
    states = {record.call.id: record.state for record in ledger.calls(limit=1_000_000)}
    executed = Counter(oracle.lines("executed"))
    acknowledged = dict(line.split() for line in oracle.lines("acknowledged"))
    return {
        "verified": verified.ok,
        "problem": str(verified),
        "kills_between_intent_and_result": in_between,
        "broken_workers": oracle.lines("broken"),
        "ran_twice": [call for call, times in executed.items() if times > 1],
        "ran_unrecorded": [call for call in executed if call not in states],
        "lost": [call for call, state in acknowledged.items() if states.get(call) != state],
        "lost_pending": [call for call in oracle.lines("pending") if call not in states],
        "interrupted_but_not_unknown": [
            call
            for call in executed
            if call not in acknowledged and states.get(call) not in (State.UNKNOWN, State.DONE)
        ],
        "unknown": sum(state is State.UNKNOWN for state in states.values()),
        "still_running": [call for call, state in states.items() if state is State.RUNNING],
        "calls": len(states),
        "acknowledged": len(acknowledged),
        "pending": sum(state is State.PENDING for state in states.values()),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
