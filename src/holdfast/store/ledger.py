"""The ledger: every call, decision, answer, before-image and result, in the order they happened."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from holdfast.contract.call import Answer, Call, Decision, HeldCall, Owner
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Failure, State
from holdfast.store import operations
from holdfast.store.blobs import Blobs
from holdfast.store.bodies import Before, BodyReader
from holdfast.store.chain import Verification
from holdfast.store.changes import After, state_of, to_text
from holdfast.store.database import IN_MEMORY, Database, Durability, Op, Transaction
from holdfast.store.derived import rebuild
from holdfast.store.owner import alive, this_process
from holdfast.store.queries import Queries
from holdfast.store.redact import Redactor
from holdfast.store.schema import GENESIS
from holdfast.store.sealing import Sealer
from holdfast.store.verify import verify

if TYPE_CHECKING:
    from holdfast.store.grants import Grants
    from holdfast.store.writer import Writer

T = TypeVar("T")


class Ledger(Queries):
    """One per project, shared by every process that works on it. Methods ending in `_now` do not need a loop."""

    def __init__(self, database: Database, blobs: Blobs, redactor: Redactor) -> None:
        super().__init__(database, BodyReader(blobs))
        self.path = database.path
        self.blobs = blobs
        self.redactor = redactor
        self.seal = Sealer(redactor, blobs)
        self.grant_changes = 0
        """How often this process has changed the grants here."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        durability: Durability = "process",
        redact: Redactor | None = None,
        read_only: bool = False,
    ) -> Self:
        """With `process` a commit survives the death of the process, with `power` that of the machine."""
        redactor = redact or Redactor()
        database = Database.open(path, durability=durability, read_only=read_only)
        return cls(database, Blobs(path.parent / "blobs", redactor, sync=durability == "power"), redactor)

    @classmethod
    def in_memory(cls, *, redact: Redactor | None = None) -> Self:
        """A ledger that goes with the process."""
        redactor = redact or Redactor()
        return cls(Database.in_memory(), Blobs(None, redactor), redactor)

    @property
    def volatile(self) -> bool:
        """It goes with the process."""
        return self.path == IN_MEMORY

    def close(self) -> None:
        if "_writer" in self.__dict__:
            self._writer.drain()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, op: Op[T]) -> T:
        """Do it now, blocking while another process writes."""
        return self._database.run(op)

    async def commit(self, op: Op[T]) -> T:
        """Do it together with whatever else is done in this turn of the event loop."""
        return await self._writer.commit(op)

    async def record_whole(
        self, call: Call, decision: Decision, result: Result, *, original_args: object = None
    ) -> None:
        """A call that is over when it is first written: pure, finished, denied or invalid."""
        await self._writer.commit(operations.record_whole(self.seal, call, decision, result, original_args))

    def record_whole_now(
        self, call: Call, decision: Decision, result: Result, *, original_args: object = None
    ) -> None:
        self.run(operations.record_whole(self.seal, call, decision, result, original_args))

    async def hold(self, held: HeldCall) -> None:
        """From now on the call waits, here and after a restart. A caller cancelled meanwhile leaves nothing waiting."""
        op = operations.hold(self.seal, held)
        await self._writer.commit(op, droppable=True, if_lost=lambda: self._never_began(held.call.id))
        self.remember(held)

    async def rehold(self, held: HeldCall, why: str, *, only_pending: bool = False) -> None:
        """The same call as something else: it waits again, for a new answer."""
        await self._writer.commit(operations.rehold(self.seal, held, why, only_pending=only_pending))
        self.remember(held)

    def answer(self, call_id: str, answer: Answer, *, digest: str) -> HeldCall:
        """Take the answer to what was shown. Only an approval lets the call run; an edit leaves it waiting."""
        settled = self.run(operations.answer(self.seal, self.read_body, call_id, answer, digest))
        return self.as_shown(settled)

    async def begin(
        self, call: Call, *, digest: str | None, definition_digest: str, mutates: bool, decision: Decision
    ) -> None:
        """The intent, before anything happens. With a digest it uses up the approval of exactly that."""
        op = operations.begin(self.seal, this_process(), call, digest, definition_digest, mutates, decision)
        await self._writer.commit(op, droppable=True, if_lost=lambda: self._never_began(call.id))

    def begin_now(self, call: Call, *, definition_digest: str, mutates: bool, decision: Decision) -> None:
        self.run(operations.begin(self.seal, this_process(), call, None, definition_digest, mutates, decision))

    async def end(self, call_id: str, result: Result) -> bool:
        """The one result. False, and nothing is written, if the call is not open."""
        ended = await self._writer.commit(operations.end(self.seal, call_id, result))
        self.forget(call_id)
        return ended

    def end_now(self, call_id: str, result: Result, *, unless_running: bool = False) -> bool:
        ended = self.run(operations.end(self.seal, call_id, result, unless_running=unless_running))
        self.forget(call_id)
        return ended

    def recover(self) -> list[str]:
        """End the running calls of dead processes; what waits keeps waiting. Any process may do it at any time."""
        rows = self.rows("SELECT call, pid, pid_start, mutates FROM open_calls WHERE state = 'running'")
        gone = {owner for owner in {row[1:3] for row in rows} if not alive(Owner(*owner))}
        dead = [(call, pid, started, bool(mutates)) for call, pid, started, mutates in rows if (pid, started) in gone]
        return self.run(operations.interrupt(self.seal, dead)) if dead else []

    def before_image(self, call_id: str, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """Keep what the path held before the call changes it; None if there was nothing."""
        blob = None if content is None else self.blobs.put(content)
        body = self.seal(Before(to_text(str(path)), blob, mode, len(content or b"")))
        self.run(lambda tx: tx.append(call_id, "before", body))

    def after_image(self, call_id: str, path: Path, content: bytes | None, mode: int | None = None) -> None:
        """What the call leaves at the path; only its digest is kept."""
        body = self.seal(After(to_text(str(path)), state_of(content, mode)))
        self.run(lambda tx: tx.append(call_id, "after", body))

    def verify(self, anchor: str | None = None) -> Verification:
        return verify(self._database, self.read_body, anchor)

    def head(self) -> str:
        """The last hash."""
        rows = self.rows("SELECT hash FROM entries ORDER BY id DESC LIMIT 1")
        return (rows[0][0] if rows else GENESIS).hex()

    def shrink(self) -> bool:
        """Give the disk back what was pruned; False if another process is in the way."""
        return self._database.shrink()

    def rebuild_open(self) -> None:
        """Derive the tables of open calls, grants and trust from the entries again."""

        def op(tx: Transaction) -> None:
            rebuild(tx, self.read_body)

        self.run(op)

    @cached_property
    def _writer(self) -> Writer:
        from holdfast.store.writer import Writer

        return Writer(self._database)

    @cached_property
    def grants(self) -> Grants:
        """The grants of this project."""
        from holdfast.store.grants import Grants

        return Grants(self)

    def version(self) -> tuple[int, int]:
        """Cheap to ask, and different after anyone has written."""
        return self._database.version()

    def _never_began(self, call_id: str) -> None:
        text = f"Call {call_id} was cancelled before it began; nothing was done."
        result = Result(False, error=text, state=State.CANCELLED, failure=Failure.CANCELLED, call_id=call_id)
        self.end_now(call_id, result)
