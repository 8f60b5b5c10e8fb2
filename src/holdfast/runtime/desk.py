"""The desk where held calls wait for a person. Answers come from any door and count once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Literal, cast

from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, HeldCall, Proposal
from holdfast.contract.errors import (
    ArgumentsError,
    CallError,
    HoldfastError,
    LedgerError,
    NotPending,
    StaleApproval,
    UnknownCall,
)
from holdfast.contract.event import Approved, Finished, Pending
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.values import Args, encode_json
from holdfast.contract.vocabulary import Failure, State, Verdict
from holdfast.rules.hooks import CANCELLED as CANCELLED_BY_USER
from holdfast.rules.hooks import HOOK as HOOK_SOURCE
from holdfast.runtime import intake
from holdfast.runtime.arguments import own
from holdfast.runtime.context import RunContext
from holdfast.runtime.digest import approval_digest, what_changed
from holdfast.runtime.judging import files_named
from holdfast.runtime.plans import Plan
from holdfast.runtime.refusals import ABORTED, invalid, no_secret, words_of
from holdfast.store import owner

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.ledger import Ledger

Asker = Callable[[HeldCall], Awaitable[Answer | None]]
"""Shows a held call to a person; None means that nobody answered here."""
Nobody = Literal["deny", "park", "wait"]
"""What happens to a call that must be asked about when there is no asker."""

POLL_SECONDS: Final = 0.05
REJECTED_BY_USER: Final = "This tool has been rejected by the user."
_MAX_ROUNDS: Final = 5
_PREVIEW_WIDTH: Final = 160


class Desk:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._woken: dict[str, asyncio.Event] = {}
        self._document = None if runtime.document is None else str(runtime.document)

    async def hold(self, plan: Plan, ctx: RunContext, decision: Decision, proposal: Proposal | None) -> Result:
        """Hold a call until somebody answers, or say at once that nobody will."""
        runtime = self._runtime
        waits = runtime.asker is not None or runtime.nobody == "wait"
        if not waits and runtime.nobody == "deny":
            return await self._nobody(plan, ctx, decision)
        held = self._held(plan, ctx, decision, proposal, waits=waits)
        ledger = runtime.ledger_for_held()
        try:
            await ledger.hold(held)
        except LedgerError as error:
            text = f"Tool '{plan.tool.name}' needs approval and cannot be held: {error}"
            return self._end(ctx, Result(False, error=text, state=State.FAILED, failure=Failure.LEDGER))
        ctx.begun = True
        self._announce(held)
        if not waits:
            return self._parked(held)
        attending = self._attend(ctx, held, ledger)
        try:
            return await (attending if ctx.parent is None else ctx.parent.while_waiting(attending))
        except LedgerError as error:
            text = f"Call {ctx.call_id} cannot go on: {error}"
            return self._end(ctx, Result(False, error=text, state=State.FAILED, failure=Failure.LEDGER))
        except asyncio.CancelledError:
            self._withdraw(held.call.id, ledger)
            raise
        finally:
            self._woken.pop(ctx.call_id, None)

    def _withdraw(self, call_id: str, ledger: Ledger) -> None:
        """The caller is gone: what still waits, approved or not, must never run."""
        ledger.end_now(call_id, _cancelled(call_id), unless_running=True)

    async def _attend(self, ctx: RunContext, held: HeldCall, ledger: Ledger) -> Result:
        """Wait for answers until the call has ended or may run."""
        for _ in range(_MAX_ROUNDS):
            settled = await self._settled(held, ledger)
            if settled is None and await self._leave(held, ledger):
                return self._parked(held)
            if settled is None:
                continue
            if isinstance(settled, Result):
                return self._end(ctx, settled)
            plan = self._plan(settled.call)
            if isinstance(plan, Result):
                return await self._end_approved(ctx, settled, plan)
            outcome = await self.run_approved(plan, settled, ctx)
            if isinstance(outcome, Result):
                return outcome
            held = outcome
            self._announce(held)
        await self._leave(held, ledger)
        return self._parked(held)

    async def _leave(self, held: HeldCall, ledger: Ledger) -> bool:
        """Park a call nobody here waits for any more; False if it was answered at the last moment."""
        try:
            await ledger.rehold(replace(held, waiter=None), "nobody answered here", only_pending=True)
        except (NotPending, UnknownCall):
            return False
        return True

    async def _settled(self, held: HeldCall, ledger: Ledger) -> HeldCall | Result | None:
        """The approved call, the result it ended with, or None when the asker had no answer."""
        call_id = held.call.id
        woken = self._woken.setdefault(call_id, asyncio.Event())
        asking: asyncio.Task[None] | None = None
        if self._runtime.asker is not None:
            asking = asyncio.create_task(self._ask(held))
            asking.add_done_callback(lambda _: woken.set())
        try:
            while True:
                woken.clear()
                now = ledger.held(call_id)
                if now is None:
                    return ledger.result(call_id) or _cancelled(call_id)
                if now.state is State.APPROVED:
                    return now
                if asking is not None and asking.done() and self._runtime.nobody != "wait":
                    return None
                with contextlib.suppress(TimeoutError):  # not `wait_for`, which may swallow a cancellation
                    async with asyncio.timeout(POLL_SECONDS):
                        await woken.wait()
        finally:
            if asking is not None:
                asking.cancel()

    async def _ask(self, held: HeldCall) -> None:
        assert self._runtime.asker is not None
        try:
            answer = await self._runtime.asker(held)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._runtime.warn(f"The asker failed, so nobody was asked: {words_of(error, type(error).__name__)}")
            return
        if answer is None:
            return
        try:
            await self.answer(held.call.id, answer, digest=held.digest)
        except (NotPending, UnknownCall):
            return  # somebody else was faster
        except HoldfastError as error:
            self._runtime.warn(f"The answer to call {held.call.id} could not be taken: {error}")

    async def answer(self, call_id: str, answer: Answer, *, digest: str | None = None) -> HeldCall:
        """Take an answer to a held call. `digest` is what the person was shown; without one, what is held now."""
        answer, digest = intake.answer(answer), intake.optional_text(digest, "The digest of an answer")
        ledger = self._runtime.ledger_for_held()
        held = ledger.held(call_id)
        if held is None:
            raise UnknownCall(f"No call '{call_id}' is waiting; `holdfast pending` lists those that are.")
        if answer.kind in ("approve", "edit") and held.definition_only:
            raise CallError(f"Call {call_id} waits for its result, not for a yes: holdfast answer {call_id} TEXT")
        if answer.kind == "reject" and not answer.message:
            refused = held.decision.source == HOOK_SOURCE
            answer = replace(answer, message=CANCELLED_BY_USER if refused else REJECTED_BY_USER)
        if answer.kind == "edit":
            held, answer = await self._edit(held, answer, digest, ledger)
            digest = held.digest
        settled = ledger.answer(call_id, answer, digest=held.digest if digest is None else digest)
        if settled.state is State.APPROVED and not self._runtime.bus.idle:
            self._runtime.bus.emit(Approved(call_id, answer.by))
        if call_id in self._woken:
            self._woken[call_id].set()
        return settled

    def check_current(self, tool: Tool, held: HeldCall) -> None:
        """Raises `StaleApproval` where tool, sandbox or named files are not those the call was held with."""
        runtime = self._runtime
        files = files_named(runtime, tool, held.call, held.proposal)
        if approval_digest(tool, held.call, runtime.sandbox.profile, held.proposal, files) != held.digest:
            changed = what_changed(held, replace(held, definition_digest=tool.digest, files=files))
            raise StaleApproval(f"Call {held.call.id} has changed since it was shown ({changed}); look at it again.")

    async def change(self, held: HeldCall, args: Args, *, by: str) -> HeldCall:
        """Hold the call with other arguments, checked like any others and not approved yet: to be shown first."""
        said = intake.answer(Answer(kind="edit", by=by, args=args))
        fresh, _ = await self._edit(held, said, held.digest, self._runtime.ledger_for_held())
        return fresh

    async def _edit(
        self, held: HeldCall, answer: Answer, digest: str | None, ledger: Ledger
    ) -> tuple[HeldCall, Answer]:
        """Changed arguments are validated, proposed and judged like any others, then approved as they are."""
        if held.call.caller.document not in (None, self._document):
            document = held.call.caller.document
            raise CallError(f"Only where its document is open can new arguments be checked: holdfast chat {document}")
        plan = self._plan(held.call)
        if isinstance(plan, Result):
            raise CallError(
                f"Only the program that has '{held.call.tool}' can check new arguments for it; answer there, "
                f"or say what to change: holdfast reject {held.call.id} -m TEXT"
            )
        changed = replace(held, call=replace(held.call, args=dict(answer.args or {}), asked=None))
        fresh = await self._prepare(plan, changed, self._context(plan, changed.call))
        if isinstance(fresh, Result):
            raise CallError(f"The changed call would not run: {fresh.text}")
        ledger.answer(held.call.id, answer, digest=held.digest if digest is None else digest)
        await ledger.rehold(fresh, f"arguments changed by {answer.by}")
        return fresh, Answer(kind="approve", by=answer.by, message=answer.message)

    async def run_approved(self, plan: Plan, held: HeldCall, ctx: RunContext | None = None) -> Result | HeldCall:
        """Run a call whose approval is for exactly what would happen now; otherwise hold it again as what it is."""
        ctx = ctx or self._context(plan, held.call)
        ctx.tool, ctx.timeout = plan.tool, plan.timeout_of(held.call.args)
        try:
            fresh = await self._prepare(plan, held, ctx)
        except ArgumentsError as error:
            fresh = _lost_secret(held) or invalid(held.call, error)
        if isinstance(fresh, Result):
            return await self._end_approved(ctx, held, fresh)
        ledger = self._runtime.ledger_for_held()
        changed = fresh.digest != held.digest or fresh.definition_only
        lost = _lost_secret(held) if changed else None
        if lost is not None:
            return await self._end_approved(ctx, held, lost)
        by = held.approver or "a person"
        decision = Decision(Verdict.APPROVE, f"person:{by}", f"approved by {by}")
        try:
            if changed:
                await ledger.rehold(fresh, f"{what_changed(held, fresh)} changed since it was approved")
                return fresh
            return await self._runtime.pipeline.perform(plan, ctx, decision, fresh.proposal, digest=held.digest)
        except (NotPending, StaleApproval, UnknownCall):
            return self._end(ctx, await self._elsewhere(held.call.id, ledger))

    async def _prepare(self, plan: Plan, held: HeldCall, ctx: RunContext) -> HeldCall | Result:
        """Every stage between finding the tool and the decision, as for a new call: the call as it would be held now,
        or the result it ends with. Raises `ArgumentsError` for arguments the schema refuses."""
        call = held.call
        args = plan.tool.schema.accept(own(call.args if call.asked is None else call.asked))
        ctx.call_record = replace(call, args=args, asked=None)
        if plan.missing_scope is not None:
            return no_secret(call.name_used, plan.missing_scope)
        refusal = await self._runtime.pipeline.before(plan, ctx) if plan.before else None
        if refusal is not None:
            return refusal
        proposal = await self._runtime.pipeline.propose(plan, ctx)
        if isinstance(proposal, Result):
            return proposal
        decision = await self._runtime.decide(plan.tool, ctx.call_record, proposal)
        if decision.verdict is Verdict.DENY:
            text = f"It is denied by {decision.source}: {decision.reason}"
            return Result(False, error=text, state=State.DENIED, failure=Failure.DENIED_BY_POLICY)
        return replace(self._held(plan, ctx, decision, proposal, waits=False), waiter=held.waiter)

    async def _end_approved(self, ctx: RunContext, held: HeldCall, result: Result) -> Result:
        """An approved call that ends without running gets the result a new call would get."""
        result = self._runtime.redactor.result(replace(result, call_id=held.call.id))
        ledger = self._runtime.ledger_for_held()
        if not ledger.end_now(held.call.id, result, unless_running=True):
            result = await self._elsewhere(held.call.id, ledger)
        return self._end(ctx, result)

    async def _elsewhere(self, call_id: str, ledger: Ledger) -> Result:
        """Another process used the approval: its result is the call's one result."""
        while (result := ledger.result(call_id)) is None:
            held = ledger.held(call_id)
            if held is not None and held.state in (State.PENDING, State.APPROVED):
                return self._parked(held)
            ledger.recover()
            await asyncio.sleep(POLL_SECONDS)
        return result

    async def resume(self) -> list[Result]:
        """Run what was approved while nobody who knows the tool was there. A document's calls wait until it goes on."""
        ledger = self._runtime.ledger
        results: list[Result] = []
        for held in ledger.pending() if ledger is not None else ():
            if held.state is State.APPROVED and held.call.caller.document is None:
                result = await self.resume_one(held)
                if result is not None:
                    results.append(result)
        return results

    async def resume_one(self, held: HeldCall) -> Result | None:
        """Run one approved call here, unless its own process waits for it or this one does not know the tool."""
        if held.definition_only or (held.waiter is not None and owner.alive(held.waiter)):
            return None
        if held.call.caller.document not in (None, self._document):
            return None  # its paths and its rules are those of that document
        plan = self._plan(held.call)
        if isinstance(plan, Result):
            return self._refuse(held, plan) if plan.failure is Failure.NOT_ALLOWED else None
        if self._runtime.planning and plan.mutates:
            return None
        outcome = await self.run_approved(plan, held)
        return outcome if isinstance(outcome, Result) else self._parked(outcome, changed=what_changed(held, outcome))

    def withdraw(self, call_id: str, digest: str) -> bool:
        """Take back a call that still waits as exactly this; False if it does not."""
        held = self._waiting(call_id)
        return held is not None and held.state is State.PENDING and held.digest == digest and self.cancel(call_id)

    def refuse(self, call_id: str, refusal: Result) -> bool:
        """End a held call with a refusal it would get now; False if it does not wait any more."""
        held = self._waiting(call_id)
        return held is not None and self._refuse(held, refusal) is not None

    def _refuse(self, held: HeldCall, refusal: Result) -> Result | None:
        refusal = replace(refusal, call_id=held.call.id)
        ended = self._runtime.ledger_for_held().end_now(held.call.id, refusal, unless_running=True)
        return refusal if ended else None

    def cancel(self, call_id: str) -> bool:
        """End a call that waits, approved or not, also one whose record cannot be read any more."""
        ended = self._runtime.ledger_for_held().end_now(call_id, _cancelled(call_id), unless_running=True)
        if call_id in self._woken:
            self._woken[call_id].set()
        return ended

    def _waiting(self, call_id: str) -> HeldCall | None:
        """A held call that has not begun: pending, or approved and not yet run."""
        held = self._runtime.ledger_for_held().held(call_id)
        return held if held is not None and held.state in (State.PENDING, State.APPROVED) else None

    def _plan(self, call: Call) -> Plan | Result:
        """As it was asked for: a name can say in which unit its timeout is. Else the refusal a new call would get."""
        find = self._runtime.plans.find
        plan = find(call.name_used, call.caller)
        if not isinstance(plan, Plan) or plan.tool.name != call.tool:
            plan = find(call.tool, call.caller)
        return plan

    def _context(self, plan: Plan, call: Call) -> RunContext:
        return RunContext(self._runtime, plan.tool, call, plan.timeout_of(call.args))

    def _held(
        self, plan: Plan, ctx: RunContext, decision: Decision, proposal: Proposal | None, *, waits: bool
    ) -> HeldCall:
        from holdfast.text.preview import preview
        from holdfast.text.summary import summary_of

        tool, call = plan.tool, ctx.call_record
        redactor = self._runtime.redactor
        shown = cast(Args, redactor.value(call.args)) if redactor.active else call.args  # before anything is cut
        files = files_named(self._runtime, tool, call, proposal)
        return HeldCall(
            call=call,
            state=State.PENDING,
            digest=approval_digest(tool, call, self._runtime.sandbox.profile, proposal, files),
            definition_digest=tool.digest,
            decision=decision,
            preview=preview(call.name_used, shown, _PREVIEW_WIDTH, tool.format_preview),
            summary=proposal.summary if proposal else summary_of(shown, tool.summary, call.cwd),
            proposal=proposal,
            files=files,
            definition_only=tool.definition_only,
            held_at=time.time(),
            waiter=owner.this_process() if waits else None,
        )

    def _announce(self, held: HeldCall) -> None:
        if not self._runtime.bus.idle:
            self._runtime.bus.emit(Pending(held.call.id, held.call, held.preview, held.digest))

    async def _nobody(self, plan: Plan, ctx: RunContext, decision: Decision) -> Result:
        name = ctx.call_record.name_used
        if plan.tool.definition_only:
            text = f"Tool '{name}' is finished from outside and nobody is there to do it."
        else:
            text = f"Tool '{name}' needs approval and nobody is there to ask. {decision.reason}"
        refusal = Result(False, error=text, state=State.DENIED, failure=Failure.NOBODY_TO_ASK)
        denial = Decision(Verdict.DENY, "nobody", text)
        return await self._runtime.pipeline.end_early(ctx.call_record, refusal, "nobody", decision=denial)

    def _parked(self, held: HeldCall, *, changed: str = "") -> Result:
        """`changed`: what is different from what was approved."""
        call_id = held.call.id
        if changed:
            text = f"Call {call_id} has changed since it was approved ({changed}) and waits again: "
            text += f"holdfast approve {call_id}"
        elif held.definition_only:
            text = f"Call {call_id} waits for its result: holdfast answer {call_id}"
        else:
            text = f"Call {call_id} waits for approval: holdfast approve {call_id}"
        failure = Failure.AWAITING_ANSWER if held.definition_only else Failure.AWAITING_APPROVAL
        return Result(
            False, error=text, state=State.PENDING, failure=Failure.STALE if changed else failure, call_id=call_id
        )

    def _end(self, ctx: RunContext, result: Result) -> Result:
        result = replace(result, call_id=ctx.call_id)
        if not self._runtime.bus.idle:
            self._runtime.bus.emit(Finished(ctx.call_id, result, result.state))
        return result


def _lost_secret(held: HeldCall) -> Result | None:
    """Secrets are not stored: what comes back from the ledger has a label in their place, and must not run."""
    if b"[secret " not in encode_json([held.call.args, held.call.asked, held.proposal]):
        return None
    text = "It was approved, but its arguments held a secret, which is not kept; ask for the call again."
    return Result(False, error=text, state=State.FAILED, failure=Failure.STALE)


def _cancelled(call_id: str) -> Result:
    return Result(False, error=ABORTED, state=State.CANCELLED, failure=Failure.CANCELLED, call_id=call_id)
