"""A call from request to result: through the pipeline, and through the wait for an answer if it needs one.

    run ─▶ prepare ─▶ decide ─┬─ approve ──────────────────────────────────▶ perform ─▶ Result
                              ├─ deny ─────────────────────────────────────────────────▶ Result
                              └─ ask ─▶ pending ─▶ answer ─▶ prepare again ─▶ perform ─▶ Result

A call that was approved by a person passes `prepare` and `decide` again and runs only if its digest is still the one
that was approved. If anything changed meanwhile, it becomes pending again.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final, cast

from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, PendingCall
from holdfast.contract.enums import Failure, State, Verdict
from holdfast.contract.errors import (
    CallError,
    HoldfastError,
    InvalidArguments,
    LedgerError,
    NotPending,
    StaleApproval,
    UnknownCall,
)
from holdfast.contract.event import Decided
from holdfast.contract.json import Args
from holdfast.contract.result import Result
from holdfast.contract.widening import Widening
from holdfast.rules.resolvers import GRANTS
from holdfast.runtime import input_checks
from holdfast.runtime.access import CallPlan
from holdfast.runtime.approvals import Approvals, describe_changes
from holdfast.runtime.context import Environment, RunContext
from holdfast.runtime.interfaces import Interfaces
from holdfast.runtime.pending import PendingCalls
from holdfast.runtime.pipeline import Approval, CallRequest, Pipeline, Prepared
from holdfast.runtime.results import (
    PLAN_MODE,
    PREVIEW_WIDTH,
    denied,
    failed,
    how_to_answer,
    invalid_arguments_prefix,
    nobody_to_ask,
    plan_mode_result,
    redacted_arguments,
    still_pending,
)
from holdfast.store import process_identity

_MAX_ROUNDS: Final = 5
"""How often a call may change between its approval and its run before this process stops waiting for it."""


class CallLifecycle:
    """Runs calls, and takes the answers to pending ones."""

    def __init__(
        self,
        pipeline: Pipeline,
        approvals: Approvals,
        pending: PendingCalls,
        interfaces: Interfaces,
        environment: Environment,
        *,
        plan_mode: bool,
    ) -> None:
        self._pipeline = pipeline
        self._approvals = approvals
        self._pending = pending
        self._interfaces = interfaces
        self._redactor = environment.redactor
        self._events = environment.events
        self._command_calls = environment.commands.command_calls
        self._document = environment.workspace.document
        self._plan_mode = plan_mode
        self._resuming: dict[str, asyncio.Event] = {}
        """Approved calls that run here now: a second attempt waits for the first."""

    async def run(self, request: CallRequest) -> Result:
        """Take a call from request to result. Raises only if the caller's task is cancelled."""
        prepared = await self._pipeline.prepare(request, self._pipeline.record_cancelled_early)
        return await self.run_prepared(prepared, None) if isinstance(prepared, Prepared) else prepared

    async def run_prepared(self, prepared: Prepared, decision: Decision | None) -> Result:
        """Take a prepared call to its result, with a decision that was made before or is made now."""
        pipeline = self._pipeline
        try:
            if prepared.plan.immediate_approval is not None:
                return await pipeline.perform(prepared, Approval(prepared.plan.immediate_approval))
            return await self._follow(prepared, decision or await pipeline.decide(prepared))
        except asyncio.CancelledError:
            if not prepared.ctx.in_ledger:
                pipeline.record_cancelled_early(prepared.call)
            raise
        except Exception as error:
            return pipeline.record_internal_error(prepared.plan, prepared.ctx, error)

    async def run_nested(self, name: str, args: Args, parent: RunContext) -> Result:
        """Run a call that a tool makes: all stages, with the rights of the call it is nested in."""
        above = parent.call_record
        if parent.cancelled:
            text = f"Tool '{name}' was not called: the call that asks for it has been stopped."
            return failed(text, State.CANCELLED, Failure.CANCELLED)
        return await self.run(CallRequest(name, args, above.caller, above.cwd, parent))

    async def _follow(self, prepared: Prepared, decision: Decision) -> Result:
        """Run the call, make it pending or refuse it, as decided."""
        plan, ctx, proposal = prepared.plan, prepared.ctx, prepared.proposal
        if decision.verdict is not Verdict.APPROVE:
            self._command_calls.discard(ctx)
        if decision.source == GRANTS and not self._plan_mode and not self._use_grant(prepared):
            decision = Decision(Verdict.ASK, GRANTS, "The grant that covered this call has been used up.")
        decision = self._pipeline.apply_mode(plan, prepared.call.args, decision)
        if decision.verdict is not Verdict.APPROVE:
            self._pipeline.emit(Decided(ctx.call_id, decision))
        if decision is PLAN_MODE:
            result = plan_mode_result(plan.tool, ctx.call_record, proposal)
            return await self._pipeline.end_early(ctx.call_record, result, PLAN_MODE.source)
        if decision.verdict is Verdict.DENY:
            refusal = denied(ctx.call_record, decision)
            return await self._pipeline.end_early(ctx.call_record, refusal, decision.source, decision=decision)
        if decision.verdict is Verdict.ASK:
            return await self._ask(prepared, decision)
        return await self._pipeline.perform(prepared, Approval(decision))

    def _use_grant(self, prepared: Prepared) -> bool:
        try:
            return self._approvals.use_grant(prepared.plan.tool, prepared.call, prepared.proposal)
        except HoldfastError as error:
            self._events.warn(f"A grant could not be used for call {prepared.call.id}: {error}")
            return False

    # -------------------------------------------------------- waiting for an answer

    async def _ask(self, prepared: Prepared, decision: Decision) -> Result:
        """Make a call pending and wait for its answer, or refuse it at once if no one can be asked."""
        plan, ctx = prepared.plan, prepared.ctx
        interfaces = self._interfaces
        waits_here = bool(interfaces.askers) or interfaces.nobody == "wait"
        if not interfaces.can_ask:
            refusal = nobody_to_ask(plan.tool, ctx.call_record, decision)
            denial = Decision(Verdict.DENY, "nobody", refusal.error or "")
            return await self._pipeline.end_early(ctx.call_record, refusal, "nobody", decision=denial)
        waiter = process_identity.this_process() if waits_here else None
        pending = self._pending_call(prepared, decision, waiter=waiter)
        try:
            await self._pending.store(pending)
        except LedgerError as error:
            text = f"Tool '{plan.tool.name}' needs approval, but the pending call cannot be stored: {error}"
            return self._pipeline.finish(ctx.call_record, failed(text, State.FAILED, Failure.LEDGER))
        ctx.in_ledger = True
        if not waits_here:
            return still_pending(pending, shared=self._pending.shared)
        waiting = self._wait_for_answer(pending, ctx.parent)
        try:
            return await (waiting if ctx.parent is None else ctx.parent.wait_for_user(waiting))
        except LedgerError as error:
            text = f"Call {ctx.call_id} cannot continue: {error}"
            return self._pipeline.finish(ctx.call_record, failed(text, State.FAILED, Failure.LEDGER))
        except asyncio.CancelledError:
            self._pending.cancel(ctx.call_id)  # pending or approved, it must never run now
            raise

    async def _wait_for_answer(
        self, pending: PendingCall, parent: RunContext | None, seconds: float | None = None
    ) -> Result:
        """Wait until the call has ended, or is approved and has run."""
        for _ in range(_MAX_ROUNDS):
            answered = await self._pending.wait(pending, self.answer)
            if answered is None:
                if await self._pending.release(pending):
                    now = self._pending.get(pending.call.id) or pending
                    return still_pending(now, shared=self._pending.shared)
                continue  # an answer arrived at the last moment
            if isinstance(answered, Result):
                return self._pipeline.finish(pending.call, answered)
            outcome = await self._run_approved(answered, parent, seconds)
            if isinstance(outcome, Result):
                return outcome
            pending = outcome
            self._pending.announce(pending)
        await self._pending.release(pending)
        return still_pending(pending, shared=self._pending.shared)

    async def rejoin(self, call_id: str, seconds: float) -> Result:
        """Wait for a call that an earlier request left pending, as that request would have.

        If another process runs the call, its result is waited for no longer than `seconds`.
        """
        pending = self._pending.get(call_id)
        if pending is not None and pending.state is State.PENDING:
            return await self._wait_for_answer(pending, None, seconds)
        if pending is not None and pending.state is State.APPROVED:
            ran = await self.resume(pending)
            if ran is not None:
                return await self.rejoin(call_id, seconds) if ran.failure is Failure.STALE else ran
        return await self._pipeline.wait_elsewhere(call_id, seconds)

    # --------------------------------------------------------------------- answers

    async def answer(self, call_id: str, answer: Answer, digest: str | None = None) -> PendingCall:
        """Accept an answer to a pending call.

        `digest` is what the person was shown; without one, what is pending now.
        """
        answer = input_checks.check_answer(answer)
        digest = input_checks.check_optional_text(digest, "The digest of an answer")
        if answer.kind == "edit":
            found = self._find(call_id)
            shown = replace(found, digest=digest or found.digest)
            fresh = await self.edit(shown, answer.args or {}, by=answer.by, identity=answer.identity)
            answer, digest = replace(answer, kind="approve", args=None), fresh.digest
        if not answer.widen:
            return self._pending.answer(call_id, answer, digest)
        return await self._approve_widened(call_id, answer, answer.widen, digest)

    async def _approve_widened(
        self, call_id: str, answer: Answer, widening: Widening, digest: str | None
    ) -> PendingCall:
        """Accept an approval that lets the call reach more.

        `digest` is of the pending call, or of the widened call that `with_widening` returned.
        """
        if answer.kind != "approve":
            raise CallError("Only an approval can widen a call.")
        found = self._find(call_id)
        fresh = await self.with_widening(found, widening)
        if digest != fresh.digest:
            now = await self.current(found)
            if now.digest != found.digest:  # the new digest would approve what the person was not shown
                raise StaleApproval(
                    f"Call {call_id} is not what was shown: {describe_changes(found, now)} changed since. "
                    f"Review it again{f' with `holdfast pending {call_id}`' if self._pending.shared else ''}."
                )
        shown = found.digest if digest in (None, fresh.digest) else digest
        return self._pending.answer(call_id, answer, shown, becomes=fresh)

    def _find(self, call_id: str) -> PendingCall:
        found = self._pending.get(call_id)
        if found is None:
            raise self._pending.unknown_call(call_id)
        return found

    async def with_widening(self, pending: PendingCall, widening: Widening) -> PendingCall:
        """The call as it would run if its approval let it reach more, to be shown. Nothing is recorded."""
        fresh = await self._recheck(replace(pending, widened=widening), None)
        return replace(fresh, widened=widening)

    async def edit(self, pending: PendingCall, args: Args, *, by: str, identity: str = "") -> PendingCall:
        """Replace the arguments of a pending call. The new ones are checked, and still need an approval."""
        answer = input_checks.check_answer(Answer(kind="edit", by=by, args=args, identity=identity))
        fresh = await self._recheck(pending, dict(answer.args or {}))
        self._pending.ledger.answer(pending.call.id, answer, digest=pending.digest)
        await self._pending.store_changed(fresh, f"arguments changed by {answer.by}")
        return fresh

    async def _recheck(self, pending: PendingCall, args: Args | None) -> PendingCall:
        """Prepare and decide about a call that a person changed. Raises `CallError` if it would not run."""
        call = pending.call
        if pending.definition_only:
            how = how_to_answer(pending, shared=self._pending.shared)
            raise CallError(f"Call {call.id} waits for its result, not for an approval: {how}")
        if not self._belongs_here(call):
            document = call.caller.document
            raise CallError(f"A changed call can be checked only where its document is open: holdfast chat {document}")
        prepared = await self._pipeline.prepare(CallRequest.from_pending(pending, args=args, unrecorded=True))
        if isinstance(prepared, Result):
            if prepared.failure in (Failure.UNKNOWN_TOOL, Failure.NOT_ALLOWED):
                raise CallError(
                    f"Only the program that has '{call.tool}' can check a change to it; answer there, "
                    f"or say what to change: holdfast reject {call.id} -m TEXT"
                )
            if prepared.failure in (Failure.INVALID_ARGUMENTS, Failure.BAD_JSON):
                raise InvalidArguments([(prepared.error or "").removeprefix(invalid_arguments_prefix(call))])
            raise CallError(f"The changed call would not run. {prepared.text}")
        decision = await self._pipeline.decide(prepared)
        if decision.verdict is Verdict.DENY:
            raise CallError(f"The changed call would not run. {denied(prepared.call, decision).error}")
        return self._pending_call(prepared, decision, waiter=pending.waiter)

    async def current(self, pending: PendingCall) -> PendingCall:
        """The call as it would be pending now. Nothing is recorded. Raises `CallError` if it would not run."""
        prepared = await self._pipeline.prepare(CallRequest.from_pending(pending, unrecorded=True))
        if isinstance(prepared, Result):
            raise CallError(f"Call {pending.call.id} would not run: {prepared.text}")
        return self._pending_call(prepared, await self._pipeline.decide(prepared), waiter=pending.waiter)

    async def as_shown(self, pending: PendingCall) -> PendingCall:
        """The call as it would be pending now. Raises `StaleApproval` if that is not what was shown."""
        pending = input_checks.check_pending(pending)
        now = await self.current(pending)
        if now.digest != pending.digest:
            changed = describe_changes(pending, now)
            raise StaleApproval(f"Call {pending.call.id} has changed since it was shown ({changed}). Review it again.")
        return now

    # -------------------------------------------------------------- approved calls

    async def resume(self, pending: PendingCall) -> Result | None:
        """Run an approved call here; None if its own process waits for it, or this process cannot run it."""
        call = pending.call
        if pending.definition_only or (pending.waiter is not None and process_identity.is_alive(pending.waiter)):
            return None
        if not self._belongs_here(call):
            return None  # its paths and rules are those of its document
        plan = self._pipeline.find_plan(CallRequest.from_pending(pending))
        if isinstance(plan, Result) and plan.failure is not Failure.NOT_ALLOWED:
            return None
        if self._plan_mode and isinstance(plan, CallPlan) and plan.tool.mutates_with(call.args):
            return None
        if (other := self._resuming.get(call.id)) is not None:
            await other.wait()
            return self._pending.result(call.id) or await self._pipeline.wait_elsewhere(call.id)
        ended = self._resuming[call.id] = asyncio.Event()
        try:
            outcome = await self._run_approved(pending, None)
        finally:
            del self._resuming[call.id]
            ended.set()
        if isinstance(outcome, Result):
            return outcome
        return still_pending(outcome, shared=self._pending.shared, changed=describe_changes(pending, outcome))

    async def resume_all(self) -> list[Result]:
        """Run the calls that were approved while no process had their tool.

        A document's calls run when the document is continued.
        """
        approved = [pending for pending in self._pending.list() if pending.state is State.APPROVED]
        ran = [await self.resume(pending) for pending in approved if pending.call.caller.document is None]
        return [result for result in ran if result is not None]

    async def _run_approved(
        self, pending: PendingCall, parent: RunContext | None, seconds: float | None = None
    ) -> Result | PendingCall:
        """Run an approved call if its digest has not changed. Otherwise it becomes pending again and is returned."""
        prepared = await self._pipeline.prepare(CallRequest.from_pending(pending, parent=parent))
        if isinstance(prepared, Result):
            return prepared
        ctx = prepared.ctx
        ctx.in_ledger = True
        decision = await self._pipeline.decide(prepared)
        if decision.verdict is Verdict.DENY:
            return await self._pipeline.end_pending(pending, denied(prepared.call, decision))
        now = self._pending_call(prepared, decision, waiter=pending.waiter)
        by = pending.approver or "a person"
        approval = Approval(Decision(Verdict.APPROVE, f"person:{by}", f"approved by {by}"), pending.digest)
        changed = (
            now.digest != pending.digest
            or now.definition_only
            or 1 < now.approvals_needed > len(pending.approved_by)  # stricter than it was when it was approved
        )
        try:
            if not changed:
                ctx.grant(tuple(map(Path, now.secrets)))
                return await self._pipeline.perform(prepared, approval)
            redacted = redacted_arguments(pending.call, pending.proposal)
            if redacted is not None:
                return await self._pipeline.end_pending(pending, redacted)
            why = f"{describe_changes(pending, now)} changed since it was approved"
            if pending.widened is not None:
                # The approval is void, and so is the widening it gave.
                request = CallRequest.from_pending(replace(pending, widened=None), parent=parent)
                plain = await self._pipeline.prepare(request)
                if isinstance(plain, Result):
                    return plain
                now = self._pending_call(plain, await self._pipeline.decide(plain), waiter=pending.waiter)
            await self._pending.store_changed(now, why)
        except (NotPending, StaleApproval, UnknownCall):
            # Another process used the approval: its result is the result of this call.
            result = await self._pipeline.wait_elsewhere(pending.call.id, seconds)
            return self._pipeline.finish(pending.call, result)
        return now

    def owns(self, call: Call) -> bool:
        """Whether the rules of this runtime are those of the call: both belong to the same document, or to none."""
        return call.caller.document == (None if self._document is None else str(self._document))

    def _belongs_here(self, call: Call) -> bool:
        """Whether the call belongs to no document, or to the one this runtime works for."""
        return call.caller.document in (None, None if self._document is None else str(self._document))

    def _pending_call(self, prepared: Prepared, decision: Decision, *, waiter: Any) -> PendingCall:
        # Imported here: most calls never become pending.
        from holdfast.text.preview import call_summary, preview

        tool, call, proposal = prepared.plan.tool, prepared.call, prepared.proposal
        redactor = self._redactor
        # Redacted before the preview cuts anything: a secret at the cut must be recognised whole.
        shown = cast(Args, redactor.value(call.args)) if redactor.active else call.args
        files = self._approvals.files_named(tool, call, proposal)
        secrets = self._approvals.secret_paths(tool, call)
        return PendingCall(
            call=call,
            state=State.PENDING,
            digest=self._approvals.digest(tool, call, proposal, files, secrets),
            definition_digest=tool.digest,
            decision=decision,
            preview=preview(call.name_used, shown, PREVIEW_WIDTH, tool.format_preview),
            summary=proposal.summary if proposal else call_summary(shown, tool.summary, call.cwd),
            proposal=proposal,
            files=files,
            secrets=tuple(map(str, secrets)),
            definition_only=tool.definition_only,
            held_at=time.time(),
            waiter=waiter,
            approvals_needed=1 if tool.definition_only else self._approvals.approvals_needed(tool, proposal),
        )
