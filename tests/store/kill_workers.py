"""Workers for the kill test: kill_workers.py LEDGER. They are forked from one process that has imported everything.

Each line on standard input ("work SEED" or "finish SEED") starts a worker; its PID is printed, and "gone" when it has
died. A worker logs to a separate file what was acknowledged to it and what it did, with one write per event.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from holdfast.contract.call import Answer
from holdfast.contract.enums import State
from holdfast.contract.errors import NotPending
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, YES, begin, make_call, make_pending

TASKS = 6


class Worker:
    def __init__(self, path: Path, seed: str) -> None:
        self.ledger = Ledger.open(path)
        self.seed = seed
        self.random = random.Random(seed)
        self.numbers = iter(range(1_000_000))
        self.told = os.open(path.with_suffix(".told"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(self, what: str, call_id: str) -> None:
        os.write(self.told, f"{what} {call_id}\n".encode())

    def new_id(self) -> str:
        return f"{self.seed}-{next(self.numbers)}"

    async def whole(self) -> None:
        call = make_call(self.new_id(), tool="pure")
        await self.ledger.record_call(call, APPROVED, DONE)
        self.tell("whole", call.id)

    async def mutate(self) -> None:
        call = make_call(self.new_id())
        await begin(self.ledger, call)
        await self._run(call.id)

    async def ask(self) -> None:
        pending_call = make_pending(self.new_id())
        await self.ledger.add_pending(pending_call)
        self.tell("held", pending_call.call.id)
        await asyncio.sleep(0)
        if self.random.random() < 0.2:
            self.ledger.answer(pending_call.call.id, Answer(kind="reject", by="ada"), digest=pending_call.digest)
            self.tell("rejected", pending_call.call.id)
        else:
            self.ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
            self.tell("approved", pending_call.call.id)

    async def use_an_approval(self) -> None:
        """Use an approval of any worker, including dead ones."""
        approved = [pending_call for pending_call in self.ledger.pending() if pending_call.state is State.APPROVED]
        if approved:
            pending_call = self.random.choice(approved)
            try:
                await begin(self.ledger, pending_call.call, digest=pending_call.digest)
            except NotPending:
                return
            await self._run(pending_call.call.id)

    async def _run(self, call_id: str) -> None:
        self.tell("begun", call_id)
        self.tell("ran", call_id)
        await asyncio.sleep(0)
        await self.ledger.end(call_id, DONE)
        self.tell("ended", call_id)

    async def work(self) -> None:
        steps = (self.whole, self.mutate, self.ask, self.use_an_approval)

        async def go_on() -> None:
            while True:
                await self.random.choice(steps)()

        self.ledger.recover()
        await asyncio.gather(*(go_on() for _ in range(TASKS)))

    async def finish(self) -> None:
        while any(pending_call.state is State.APPROVED for pending_call in self.ledger.pending()):
            await self.use_an_approval()


def main(path: Path) -> None:
    for line in sys.stdin:
        what, seed = line.split()
        pid = os.fork()
        if pid == 0:
            worker = Worker(path, seed)
            asyncio.run(worker.work() if what == "work" else worker.finish())
            os._exit(0)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        os.waitpid(pid, 0)
        sys.stdout.write("gone\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
