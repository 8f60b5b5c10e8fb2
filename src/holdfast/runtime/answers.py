"""What is said to held calls: the part of a runtime that takes answers, and results in a tool's place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.contract.call import Answer, HeldCall
from holdfast.contract.errors import UnknownCall
from holdfast.contract.result import Result
from holdfast.contract.values import Args
from holdfast.contract.vocabulary import Failure, State
from holdfast.runtime import intake
from holdfast.runtime.refusals import awaiting_program

if TYPE_CHECKING:
    from holdfast.runtime.desk import Desk
    from holdfast.store.ledger import Ledger


class Answers:
    """`Runtime` is one of these."""

    desk: Desk
    _desk_ledger: Ledger | None

    def pending(self) -> list[HeldCall]:
        """Calls that wait, oldest first."""
        return self._desk_ledger.pending() if self._desk_ledger is not None else []

    async def answer(self, call_id: str, answer: Answer, *, digest: str | None = None) -> Result:
        """Answer a held call. If it may run and nobody else waits to run it, it runs here, now."""
        call_id = intake.known_call_id(call_id)
        held = await self.desk.answer(call_id, answer, digest=digest)
        if held.state is not State.APPROVED:
            return self.result(call_id) or Result(False, state=held.state, call_id=call_id)
        ran = await self.desk.resume_one(held)
        if ran is not None:
            return ran
        text = awaiting_program(held)
        return Result(False, error=text, state=State.APPROVED, failure=Failure.AWAITING_PROGRAM, call_id=call_id)

    async def approve(
        self, call_id: str, *, by: str = "program", args: Args | None = None, digest: str | None = None
    ) -> Result:
        """Yes to what was shown (`digest`) or, without one, to what is held now; with `args`, with these arguments."""
        kind = "approve" if args is None else "edit"
        return await self.answer(call_id, Answer(kind=kind, by=by, args=args), digest=digest)

    async def reject(self, call_id: str, message: str = "", *, by: str = "program") -> Result:
        """No; the model sees the message."""
        return await self.answer(call_id, Answer(kind="reject", by=by, message=message))

    async def give_result(self, call_id: str, output: str, *, by: str = "program", success: bool = True) -> Result:
        """Answer in the tool's place."""
        return await self.answer(call_id, Answer(kind="result", by=by, message=output, success=success))

    async def resolve(self, request_id: str, call_id: str, result: Result | str) -> Result:
        """Finish a held call from outside, by the ids the client knows it by."""
        request_id, call_id = intake.text(request_id, "The request"), intake.text(call_id, "The id of a call")
        asked = [held.call for held in self.pending() if held.call.request == request_id]
        found = [call.id for call in asked if call_id in (call.id, call.given_id)]
        if not found or self._desk_ledger is None:
            raise UnknownCall(f"No call '{call_id}' of request '{request_id}' is waiting.")
        # Models and clients choose ids, and may choose one twice, or one that another call has in the ledger.
        if len({*found, *self._desk_ledger.calls_given(call_id, request_id)}) > 1:
            raise UnknownCall(f"Several calls of request '{request_id}' are named '{call_id}'; give the ledger's id.")
        done = result if isinstance(result, Result) else Result(True, result)
        text = done.output if done.success else done.error or "Unknown error"
        return await self.give_result(found[0], text, by="resolve", success=done.success)

    async def resume(self) -> list[Result]:
        """Run what was approved while no program that knows the tool was there."""
        return await self.desk.resume()

    def result(self, call_id: str) -> Result | None:
        """The result of a call that has ended, from the ledger."""
        return None if self._desk_ledger is None else self._desk_ledger.result(intake.known_call_id(call_id))
