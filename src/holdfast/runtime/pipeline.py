"""The way every call takes: `prepare`, a decision, `perform`. There is no other way to run a tool.

prepare: find ▸ policy ▸ validate ▸ secrets ▸ before ▸ re-validate ▸ widen ▸ propose
decide:  approval chain ▸ caps
perform: claim paths ▸ run ▸ after ▸ redact ▸ bound ▸ record
"""

from __future__ import annotations

import asyncio
import time
from asyncio import get_running_loop
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Caller, Decision, PendingCall, Proposal
from holdfast.contract.enums import CHECKS_IN_DRY_RUN, RUNS_COMMANDS, Failure, State, Verdict
from holdfast.contract.errors import (
    ArgumentsError,
    BadJson,
    CallError,
    HoldfastError,
    InvalidArguments,
    LedgerError,
    NotPending,
    StaleApproval,
    UnknownCall,
)
from holdfast.contract.event import Decided, Event, Finished, Proposed, Received, Started
from holdfast.contract.json import MAX_ARGUMENT_BYTES, Args
from holdfast.contract.result import Result, with_exception
from holdfast.contract.widening import Widening
from holdfast.registry.source_loader import WAITING_FOR_SOURCES
from holdfast.rules.decider import SECRET
from holdfast.rules.resolvers import GRANTS
from holdfast.runtime import input_checks
from holdfast.runtime.access import CallPlan, CallPlans
from holdfast.runtime.approvals import Approvals, describe_changes
from holdfast.runtime.context import Environment, RunContext
from holdfast.runtime.executor import Executor, RuntimeResult
from holdfast.runtime.input_checks import Arguments, copy_json, parse_object, read_arguments, recordable_arguments
from holdfast.runtime.interfaces import Interfaces
from holdfast.runtime.middleware import Deny, run_after, run_before
from holdfast.runtime.path_locks import Claim, PathQueue
from holdfast.runtime.pending import PendingCalls
from holdfast.runtime.results import (
    OUTSIDE,
    PLANNING,
    STOPPED,
    call_not_recorded,
    checked_proposal,
    denied,
    failed,
    how_to_answer,
    internal_error,
    invalid_arguments,
    invalid_arguments_prefix,
    message_of,
    missing_secret,
    nested_too_deeply,
    nobody_to_ask,
    plan_mode_result,
    redacted_arguments,
    refused_paths,
    result_not_recorded,
    still_pending,
    to_result,
    truncate_output,
    unfinished,
    with_final_state,
    withhold_content,
)
from holdfast.store import process_identity

_CANCELLED_EARLY: Final = Decision(Verdict.DENY, "caller", "The caller was cancelled before the tool ran.")
_MAX_ROUNDS: Final = 5
"""How often a call that was approved may turn out to be another one by then."""
_PREVIEW_WIDTH: Final = 160


class CallRequest(Struct, frozen=True):
    """What an interface asks for."""

    name: str
    arguments: Arguments
    caller: Caller
    cwd: str
    parent: RunContext | None = None
    request: str | None = None
    given_id: str | None = None
    call_id: str | None = None
    pending: PendingCall | None = None
    """A pending call that meets every stage again."""
    stages: list[Stage] | None = None
    """A dry run: every stage is noted here, nothing is recorded, and tools are told."""
    unrecorded: bool = False
    """What becomes of it is for the one who prepares it to say: nothing is recorded."""

    @property
    def widened(self) -> Widening | None:
        """What the approval of a pending call lets it reach."""
        return None if self.pending is None else self.pending.widened

    @classmethod
    def checked(
        cls,
        name: object,
        arguments: Arguments,
        caller: Caller,
        cwd: str,
        request: object = None,
        given_id: object = None,
        call_id: str | None = None,
    ) -> CallRequest:
        """With what a program handed in; raises `CallError` for what could not be kept."""
        name = name[: input_checks.MAX_TEXT] if type(name) is str else message_of(name, type(name).__name__)
        request = input_checks.check_optional_text(request, "The request of a call")
        given_id = input_checks.check_optional_text(given_id, "The given id of a call")
        return cls(name, arguments, caller, cwd, request=request, given_id=given_id, call_id=call_id)

    @classmethod
    def again(cls, pending: PendingCall, *, args: Args | None = None, **more: Any) -> CallRequest:
        """A pending call once more, as it was asked for or with other arguments."""
        call = pending.call
        given = args if args is not None else call.args if call.asked is None else call.asked
        return cls(
            call.name_used,
            copy_json(given),
            call.caller,
            call.cwd,
            request=call.request,
            given_id=call.given_id,
            call_id=call.id,
            pending=pending,
            **more,
        )


class Stage(Struct, frozen=True):
    """What one stage of `prepare` said in a dry run."""

    name: str
    refusal: Result | None = None


class Prepared(Struct, frozen=True, eq=False):
    """A call that got through every stage before the decision."""

    plan: CallPlan
    ctx: RunContext
    proposal: Proposal | None = None

    @property
    def call(self) -> Call:
        return self.ctx.call_record


class Approval(Struct, frozen=True):
    """Why a call may run: a decision, and what a person was shown if one approved it."""

    decision: Decision
    digest: str | None = None


class Pipeline:
    def __init__(
        self,
        plans: CallPlans,
        approvals: Approvals,
        pending: PendingCalls,
        interfaces: Interfaces,
        environment: Environment,
        *,
        session: str,
        planning: bool,
    ) -> None:
        self._plans = plans
        self._approvals = approvals
        self._pending = pending
        self._interfaces = interfaces
        self._environment = environment
        self._events = environment.events
        self._ledger = environment.ledger
        self._redactor = environment.redactor
        self._tools = environment.config.tools
        self._output = environment.config.output
        self._command_calls = environment.commands.command_calls
        self._planning = planning
        self._registry = plans.registry
        self._session = session
        self._calls = 0
        self._path_queue = PathQueue(self._tell)
        self.executor = Executor()
        limits = self._output
        self._surely_short = min(limits.max_bytes // 4, limits.max_lines, (limits.max_output_bytes or 1 << 30) // 4)
        """Characters below which no output can be too long, in bytes or in lines."""

    def new_call_id(self) -> str:
        """An id no other call has."""
        self._calls += 1
        return f"{self._session}-{self._calls}"

    async def run(self, request: CallRequest) -> Result:
        """Take one call from its interface to its result. Raises only if the caller's task is cancelled."""
        prepared = await self.prepare(request, self._cancelled_early)
        return await self.run_prepared(prepared, None) if isinstance(prepared, Prepared) else prepared

    async def run_prepared(self, prepared: Prepared, decision: Decision | None) -> Result:
        """Bring a prepared call to its result, as was decided or is decided now."""
        try:
            if prepared.plan.immediate_approval is not None:
                return await self._perform(prepared, prepared.plan.immediate_approval, None)
            return await self._settle(prepared, decision or await self.decide(prepared))
        except asyncio.CancelledError:
            if not prepared.ctx.in_ledger:
                self._cancelled_early(prepared.call)
            raise
        except Exception as error:
            return self._broken(prepared.plan, prepared.ctx, error)

    async def run_nested(self, name: str, args: Args, parent: RunContext) -> Result:
        """A call by a tool: the whole way again, with the rights of the call it is nested in."""
        above = parent.call_record
        if parent.cancelled:
            text = f"Tool '{name}' was not called: the call that asks for it has been stopped."
            return failed(text, State.CANCELLED, Failure.CANCELLED)
        return await self.run(CallRequest(name, args, above.caller, above.cwd, parent))

    # ------------------------------------------------------------------ prepare

    async def prepare(
        self, request: CallRequest, if_cancelled: Callable[[Call], None] | None = None
    ) -> Prepared | Result:
        """Every stage before the decision: the prepared call, or the result the call ends with.

        A call that ends here is recorded, unless this is a dry run. One whose caller is cancelled meanwhile is not:
        it may be prepared again.
        """
        if get_running_loop() is not self._events.loop:
            self._events.use_running_loop()
        name, arguments, parent, pending = request.name, request.arguments, request.parent, request.pending
        call_id = request.call_id or self.new_call_id()
        if not self._events.idle and pending is None and request.stages is None:
            self._events.emit(Received(call_id, name, request.caller, None if parent is None else parent.call_id))
        usual = parent is None and pending is None
        plan = self._plans.find(name, request.caller) if usual else self._known(request)
        if not isinstance(plan, CallPlan) and plan.failure is Failure.UNKNOWN_TOOL and not self._registry.ready:
            if request.stages is None:  # it may still come from a source that is loading
                await self.wait_for_sources()
            plan = self._known(request)
        if not isinstance(plan, CallPlan):
            stage = "policy" if plan.failure is Failure.NOT_ALLOWED else "find"
            return await self._refuse(request, _call(request, call_id, name, {}), plan, stage, arguments)
        tool = plan.tool
        original = None
        try:
            if type(arguments) is str:
                given = parse_object(arguments, plan.open_schema)
                args = given if plan.is_valid(given) else tool.schema.coerce(given)
            else:
                given = read_arguments(arguments)
                args = tool.schema.check(given)
            if args is not given:
                original = copy_json(given, MAX_ARGUMENT_BYTES) if type(args) is dict else None
            elif given is arguments and (self._ledger is not None or plan.decision is None):
                args = copy_json(given, MAX_ARGUMENT_BYTES)  # what is judged must not change under us
        except BadJson as error:
            args = error
        if isinstance(args, ArgumentsError):
            call = _call(request, call_id, tool.name, {})
            lost = None if pending is None else redacted_arguments(pending.call, pending.proposal)
            return await self._refuse(request, call, lost or invalid_arguments(call, args), "validate", arguments)
        call = _call(request, call_id, tool.name, args, original)
        if plan.missing_scope is not None:
            return await self._refuse(request, call, missing_secret(name, plan.missing_scope), "secrets")
        timeout = plan.timeout_of(args) if plan.timeout_unit else plan.timeout
        ctx = RunContext(self._environment, tool, call, timeout, parent)
        widens = self._approvals.may_widen(tool, request.widened)
        if not plan.before and tool.propose is None and request.stages is None and not widens:
            return Prepared(plan, ctx)
        return await self._prepare_further(request, plan, ctx, if_cancelled)

    async def _prepare_further(
        self, request: CallRequest, plan: CallPlan, ctx: RunContext, if_cancelled: Callable[[Call], None] | None
    ) -> Prepared | Result:
        """The stages that run code of others: middleware and the tool's own proposal."""
        dry_run = ctx.dry_run = request.stages is not None
        if RUNS_COMMANDS in plan.tool.capabilities and not dry_run and not request.unrecorded:
            self._command_calls.add(ctx)
        proposal: Proposal | Result | None = None
        try:
            if plan.before:
                refusal = await self._before(plan, ctx)
                if refusal is not None:
                    return await self._refuse(request, ctx.call_record, refusal, "before")
            if self._approvals.may_widen(plan.tool, request.widened):
                refusal = await self._widen(request, plan, ctx)
                if refusal is not None:
                    return await self._refuse(request, ctx.call_record, refusal, "widen")
            if plan.tool.propose is not None:
                refusal = None if dry_run else self._refuse_secrets(plan, ctx.call_record)
                if refusal is not None:
                    return await self._refuse(request, ctx.call_record, refusal, "propose")
                proposal = await self._propose(plan, ctx)
                if isinstance(proposal, Result):
                    refusal = await self._refuse(request, ctx.call_record, proposal, "propose")
                    return with_exception(refusal, ctx.exception)
        except asyncio.CancelledError:
            if if_cancelled is not None:
                if_cancelled(ctx.call_record)
            raise
        except Exception as error:
            if dry_run or request.unrecorded:
                raise
            return self._broken(plan, ctx, error)
        if request.stages is not None:
            request.stages.append(Stage("propose"))
        elif proposal is not None and request.pending is None:
            self._tell(Proposed(ctx.call_id, proposal))
        return Prepared(plan, ctx, proposal)

    def _known(self, request: CallRequest) -> CallPlan | Result:
        """The plan of a call, or why there is none: by the name that was used, which can say in which unit a timeout
        is; a pending call keeps its tool."""
        parent, pending = request.parent, request.pending
        if parent is not None and parent.call_record.depth >= self._tools.max_depth:
            return nested_too_deeply(request.name, self._tools.max_depth)
        plan = self._plans.find(request.name, request.caller)
        if pending is None or (isinstance(plan, CallPlan) and plan.tool.name == pending.call.tool):
            return plan
        return self._plans.find(pending.call.tool, request.caller)

    async def wait_for_sources(self) -> None:
        """Until every source of tools has reported or timed out."""
        if not self._registry.ready:
            self._events.notice(WAITING_FOR_SOURCES)
            await self._registry.wait_ready()

    async def _before(self, plan: CallPlan, ctx: RunContext) -> Result | None:
        """Let middleware change or refuse the arguments; the refusal, if there is one."""
        has_deny = "deny" in plan.tool.input_schema.get("properties", {})
        answer = await run_before(
            plan.before, copy_json(ctx.call_record.args), ctx, self._tools.default_timeout, has_deny=has_deny
        )
        if isinstance(answer, Deny):
            reason = answer.reason or f"tool `{ctx.tool.name}` denied by middleware"
            return failed(reason, State.DENIED, Failure.DENIED_BY_MIDDLEWARE)
        call = ctx.call_record
        try:
            args = copy_json(plan.tool.schema.validate(answer), MAX_ARGUMENT_BYTES)
            ctx.call_record = replace(call, args=args, asked=None if args == call.args else call.args)
        except ArgumentsError as error:
            text = f"A hook gave tool '{ctx.tool.name}' arguments it cannot take: {error}."
            return failed(text, State.DENIED, Failure.DENIED_BY_MIDDLEWARE)
        return None

    def _refuse_secrets(self, plan: CallPlan, call: Call) -> Result | None:
        """A change to a file with secrets is proposed only if a person can be asked: whether it can be proposed says
        something about what is in the file."""
        if self._interfaces.can_ask:
            return None
        found = self._approvals.secret_paths(plan.tool, call)
        reason = f"'{found[0]}' may hold secrets (sandbox.read_deny)." if found else ""
        return nobody_to_ask(plan.tool, call, Decision(Verdict.ASK, SECRET, reason)) if found else None

    async def _widen(self, request: CallRequest, plan: CallPlan, ctx: RunContext) -> Result | None:
        """Let the call reach what rules and its approval say; the refusal, if nobody may give that."""
        try:
            widening = await self._approvals.widening(plan.tool, ctx.call_record, request.widened)
            ctx.call_record = replace(ctx.call_record, widening=widening)
            self._environment.commands.sandbox_of(ctx.call_record)
        except HoldfastError as error:
            return failed(str(error), State.DENIED, Failure.DENIED_BY_POLICY)
        return None

    async def _propose(self, plan: CallPlan, ctx: RunContext) -> Proposal | Result:
        """What a two-phase tool would do; its immediate result if it needs nobody's leave."""
        tool = plan.tool
        assert tool.propose is not None
        args = copy_json(ctx.call_record.args)
        asked, ctx.timeout = ctx.timeout, self._tools.default_timeout  # the call's time is for the work
        ctx.granted = self._approvals.secret_paths(
            tool, ctx.call_record
        )  # to be shown, not to be told: it is asked about
        try:
            value = await self.executor.call(tool, tool.propose, args, ctx, direct=plan.proposes_direct, mutates=False)
        finally:
            ctx.timeout, ctx.granted = asked, ()
        if isinstance(value, Proposal):
            return checked_proposal(value, tool, ctx.call_id)
        return value.result if isinstance(value, RuntimeResult) else to_result(value, tool, ctx.call_id)

    async def _refuse(self, request: CallRequest, call: Call, result: Result, stage: str, given: Any = None) -> Result:
        """A call that ends before the decision: still recorded, still one result."""
        if request.stages is not None:
            request.stages.append(Stage(stage, result))
        if request.stages is not None or request.unrecorded:
            return replace(result, call_id=call.id)
        if request.pending is not None:
            return await self._end_pending(request.pending, result)
        return await self.end_early(call, result, stage, given)

    # ------------------------------------------------------------------- decide

    async def decide(self, prepared: Prepared) -> Decision:
        """What chain and caps say about a call."""
        plan = prepared.plan
        return plan.decision or await self._approvals.decide(plan.tool, prepared.call, prepared.proposal)

    async def _settle(self, prepared: Prepared, decision: Decision) -> Result:
        """Run, leave pending or refuse, as was decided."""
        plan, ctx, proposal = prepared.plan, prepared.ctx, prepared.proposal
        if decision.verdict is not Verdict.APPROVE:
            self._command_calls.discard(ctx)
        if decision.source == GRANTS and not self._planning and not self._use_grant(prepared):
            decision = Decision(Verdict.ASK, GRANTS, "The grant that covered this call has been used up.")
        decision = self._final(plan, decision)
        if decision.verdict is not Verdict.APPROVE:
            self._tell(Decided(ctx.call_id, decision))
        if decision is PLANNING:
            return await self.end_early(
                ctx.call_record, plan_mode_result(plan.tool, ctx.call_record, proposal), PLANNING.source
            )
        if decision.verdict is Verdict.DENY:
            refusal = denied(ctx.call_record, decision)
            return await self.end_early(ctx.call_record, refusal, decision.source, decision=decision)
        if decision.verdict is Verdict.ASK:
            return await self._ask(prepared, decision)
        return await self.perform(prepared, Approval(decision))

    def _final(self, plan: CallPlan, decision: Decision) -> Decision:
        """What becomes of a call that chain and caps decided about, for the run and the dry run alike."""
        if decision.verdict is Verdict.DENY:
            return decision
        if self._planning and plan.mutates:
            return PLANNING
        return OUTSIDE if decision.verdict is Verdict.APPROVE and plan.tool.definition_only else decision

    def _use_grant(self, prepared: Prepared) -> bool:
        try:
            return self._approvals.use_grant(prepared.plan.tool, prepared.call, prepared.proposal)
        except HoldfastError as error:
            self._events.warn(f"A grant could not be used for call {prepared.call.id}: {error}")
            return False

    async def dry_run(self, request: CallRequest) -> tuple[Decision, Prepared | None]:
        """What a call would meet, with nothing run or recorded: the decision, and the call if it gets so far."""
        prepared = await self.prepare(request)
        if isinstance(prepared, Result):
            assert request.stages
            verdict = Verdict.APPROVE if prepared.success else Verdict.DENY
            reason = "It is answered without running." if prepared.success else prepared.error or "Unknown error"
            return Decision(verdict, request.stages[-1].name, reason), None
        decision = self._final(prepared.plan, await self.decide(prepared))
        if decision.verdict is Verdict.APPROVE:  # a call that needs a person is not tried before one has answered
            refusal = await self._try(prepared)
            if refusal is not None:
                return Decision(Verdict.DENY, "run", refusal.error or "Unknown error"), prepared
        return decision, prepared

    async def _try(self, prepared: Prepared) -> Result | None:
        """The refusal of a tool that checks its arguments where it runs, such as a path it must not read."""
        plan, tool, ctx = prepared.plan, prepared.plan.tool, prepared.ctx
        try:
            self._approvals.touched_paths(tool, prepared.call)
        except HoldfastError as error:
            return refused_paths(error)
        if CHECKS_IN_DRY_RUN not in tool.capabilities or plan.execute is None:
            return None
        args = copy_json(prepared.call.args)
        ctx.granted = self._approvals.secret_paths(tool, prepared.call)
        value = await self.executor.call(tool, plan.execute, args, ctx, direct=plan.direct, mutates=False)
        result = value.result if isinstance(value, RuntimeResult) else value
        return result if isinstance(result, Result) and not result.success else None

    # ------------------------------------------------------------------ pending

    async def _ask(self, prepared: Prepared, decision: Decision) -> Result:
        """Leave a call pending until somebody answers, or say at once that nobody will."""
        plan, ctx = prepared.plan, prepared.ctx
        interfaces = self._interfaces
        stays = bool(interfaces.askers) or interfaces.nobody == "wait"
        if not interfaces.can_ask:
            refusal = nobody_to_ask(plan.tool, ctx.call_record, decision)
            denial = Decision(Verdict.DENY, "nobody", refusal.error or "")
            return await self.end_early(ctx.call_record, refusal, "nobody", decision=denial)
        pending = self._as_pending(prepared, decision, waiter=process_identity.this_process() if stays else None)
        try:
            await self._pending.store(pending)
        except LedgerError as error:
            text = f"Tool '{plan.tool.name}' needs approval and cannot be held: {error}"
            return self._finish(ctx.call_record, failed(text, State.FAILED, Failure.LEDGER))
        ctx.in_ledger = True
        if not stays:
            return still_pending(pending, shared=self._pending.shared)
        attending = self._attend(pending, ctx.parent)
        try:
            return await (attending if ctx.parent is None else ctx.parent.wait_for_user(attending))
        except LedgerError as error:
            text = f"Call {ctx.call_id} cannot go on: {error}"
            return self._finish(ctx.call_record, failed(text, State.FAILED, Failure.LEDGER))
        except asyncio.CancelledError:
            self._pending.cancel(ctx.call_id)  # what still waits, approved or not, must never run
            raise

    async def _attend(self, pending: PendingCall, parent: RunContext | None, seconds: float | None = None) -> Result:
        """Wait for answers until the call has ended or may run."""
        for _ in range(_MAX_ROUNDS):
            settled = await self._pending.wait(pending, self.answer)
            if settled is None and await self._pending.release(pending):
                return still_pending(pending, shared=self._pending.shared)
            if settled is None:
                continue
            if isinstance(settled, Result):
                return self._finish(pending.call, settled)
            outcome = await self._run_approved(settled, parent, seconds)
            if isinstance(outcome, Result):
                return outcome
            pending = outcome
            self._pending.announce(pending)
        await self._pending.release(pending)
        return still_pending(pending, shared=self._pending.shared)

    async def attend(self, call_id: str, seconds: float) -> Result:
        """Go on with a call that an earlier request left pending, like the request that asked for it. What another
        process runs is waited for, no longer than that."""
        pending = self._pending.get(call_id)
        if pending is not None and pending.state is State.PENDING:
            return await self._attend(pending, None, seconds)
        if pending is not None and pending.state is State.APPROVED:
            ran = await self.resume(pending)
            if ran is not None:
                return await self.attend(call_id, seconds) if ran.failure is Failure.STALE else ran
        return await self._elsewhere(call_id, seconds)

    async def answer(self, call_id: str, answer: Answer, digest: str | None = None) -> PendingCall:
        """Take an answer to a pending call. `digest` is what the person was shown; without one, what is pending now."""
        answer, digest = (
            input_checks.check_answer(answer),
            input_checks.check_optional_text(digest, "The digest of an answer"),
        )
        if answer.kind == "edit":
            found = self._waiting(call_id)
            fresh = await self.change(replace(found, digest=digest or found.digest), answer.args or {}, by=answer.by)
            answer, digest = replace(answer, kind="approve", args=None), fresh.digest
        if not answer.widen:
            return self._pending.answer(call_id, answer, digest)
        return await self._approve_widened(call_id, answer, answer.widen, digest)

    async def _approve_widened(
        self, call_id: str, answer: Answer, widening: Widening, digest: str | None
    ) -> PendingCall:
        """Take a yes to a call that may reach more. `digest` is of the call as it waits, or as it was shown widened."""
        if answer.kind != "approve":
            raise CallError("Only an approval can widen a call.")
        found = self._waiting(call_id)
        fresh = await self.widened(found, widening)
        if digest != fresh.digest:
            now = await self.current(found)
            if now.digest != found.digest:  # a new digest would approve what nobody was shown
                raise StaleApproval(
                    f"Call {call_id} is not what was shown: {describe_changes(found, now)} changed since; "
                    f"look at it again{f' with `holdfast pending {call_id}`' if self._pending.shared else ''}."
                )
        shown = found.digest if digest in (None, fresh.digest) else digest
        return self._pending.answer(call_id, answer, shown, becomes=fresh)

    def _waiting(self, call_id: str) -> PendingCall:
        found = self._pending.get(call_id)
        if found is None:
            raise self._pending.unknown_call(call_id)
        return found

    async def widened(self, pending: PendingCall, widening: Widening) -> PendingCall:
        """The call as it would run if its approval let it reach more: to be shown first. Nothing is recorded."""
        fresh = await self._again(replace(pending, widened=widening), None)
        return replace(fresh, widened=widening)

    async def change(self, pending: PendingCall, args: Args, *, by: str) -> PendingCall:
        """The call with other arguments, checked like any others and not approved yet: to be shown first."""
        said = input_checks.check_answer(Answer(kind="edit", by=by, args=args))
        fresh = await self._again(pending, dict(said.args or {}))
        self._pending.ledger.answer(pending.call.id, said, digest=pending.digest)
        await self._pending.store_changed(fresh, f"arguments changed by {said.by}")
        return fresh

    async def _again(self, pending: PendingCall, args: Args | None) -> PendingCall:
        """A call as a person changed it, checked like any other."""
        call = pending.call
        if pending.definition_only:
            how = how_to_answer(pending, shared=self._pending.shared)
            raise CallError(f"Call {call.id} waits for its result, not for a yes: {how}")
        if not self._is_of_this_document(call):
            document = call.caller.document
            raise CallError(f"A changed call can be checked only where its document is open: holdfast chat {document}")
        prepared = await self.prepare(CallRequest.again(pending, args=args, unrecorded=True))
        if isinstance(prepared, Result):
            if prepared.failure in (Failure.UNKNOWN_TOOL, Failure.NOT_ALLOWED):
                raise CallError(
                    f"Only the program that has '{call.tool}' can check a change to it; answer there, "
                    f"or say what to change: holdfast reject {call.id} -m TEXT"
                )
            if prepared.failure in (Failure.INVALID_ARGUMENTS, Failure.BAD_JSON):
                raise InvalidArguments([(prepared.error or "").removeprefix(invalid_arguments_prefix(call))])
            raise CallError(f"The changed call would not run. {prepared.text}")
        decision = await self.decide(prepared)
        if decision.verdict is Verdict.DENY:
            raise CallError(f"The changed call would not run. {denied(prepared.call, decision).error}")
        return self._as_pending(prepared, decision, waiter=pending.waiter)

    async def resume(self, pending: PendingCall) -> Result | None:
        """Run an approved call here; None if its own process waits for it, or this one cannot run it."""
        call = pending.call
        if pending.definition_only or (pending.waiter is not None and process_identity.is_alive(pending.waiter)):
            return None
        if not self._is_of_this_document(call):
            return None  # its paths and its rules are those of that document
        known = self._known(CallRequest.again(pending))
        if isinstance(known, Result) and known.failure is not Failure.NOT_ALLOWED:
            return None
        if self._planning and isinstance(known, CallPlan) and known.mutates:
            return None
        outcome = await self._run_approved(pending, None)
        if isinstance(outcome, Result):
            return outcome
        return still_pending(outcome, shared=self._pending.shared, changed=describe_changes(pending, outcome))

    async def resume_all(self) -> list[Result]:
        """Run calls that were approved while no process had their tool. Calls of a document run when it goes on."""
        approved = [pending for pending in self._pending.list() if pending.state is State.APPROVED]
        ran = [await self.resume(pending) for pending in approved if pending.call.caller.document is None]
        return [result for result in ran if result is not None]

    async def current(self, pending: PendingCall) -> PendingCall:
        """The call as it would be pending now, with nothing recorded. Raises `CallError` if it would not run."""
        prepared = await self.prepare(CallRequest.again(pending, unrecorded=True))
        if isinstance(prepared, Result):
            raise CallError(f"Call {pending.call.id} would not run: {prepared.text}")
        return self._as_pending(prepared, await self.decide(prepared), waiter=pending.waiter)

    async def _run_approved(
        self, pending: PendingCall, parent: RunContext | None, seconds: float | None = None
    ) -> Result | PendingCall:
        """Run a call whose approval is for exactly what would happen now; otherwise it waits again as what it is."""
        prepared = await self.prepare(CallRequest.again(pending, parent=parent))
        if isinstance(prepared, Result):
            return prepared
        ctx = prepared.ctx
        ctx.in_ledger = True
        decision = await self.decide(prepared)
        if decision.verdict is Verdict.DENY:
            return await self._end_pending(pending, denied(prepared.call, decision))
        now = self._as_pending(prepared, decision, waiter=pending.waiter)
        by = pending.approver or "a person"
        approval = Approval(Decision(Verdict.APPROVE, f"person:{by}", f"approved by {by}"), pending.digest)
        changed = now.digest != pending.digest or now.definition_only
        try:
            if not changed:
                ctx.grant(tuple(map(Path, now.secrets)))
                return await self.perform(prepared, approval)
            lost = redacted_arguments(pending.call, pending.proposal)
            if lost is not None:
                return await self._end_pending(pending, lost)
            why = f"{describe_changes(pending, now)} changed since it was approved"
            if pending.widened is not None:  # what the void approval let it reach is void with it
                plain = await self.prepare(CallRequest.again(replace(pending, widened=None), parent=parent))
                if isinstance(plain, Result):
                    return plain
                now = self._as_pending(plain, await self.decide(plain), waiter=pending.waiter)
            await self._pending.store_changed(now, why)
        except (NotPending, StaleApproval, UnknownCall):
            return self._finish(pending.call, await self._elsewhere(pending.call.id, seconds))
        return now

    async def _end_pending(self, pending: PendingCall, result: Result) -> Result:
        """A pending call that ends without running gets the result a new call would get."""
        result = self._redactor.result(replace(result, call_id=pending.call.id))
        if not self._pending.end(pending.call.id, result):
            result = await self._elsewhere(pending.call.id)
        return self._finish(pending.call, result)

    async def _elsewhere(self, call_id: str, seconds: float | None = None) -> Result:
        """Another process runs it: its result is the call's one result."""
        ended = await self._pending.wait_for_result(call_id, seconds=seconds)
        shared, runs = self._pending.shared, self._pending.is_active(call_id)
        return ended or unfinished(call_id, self._pending.get(call_id), shared=shared, runs=runs)

    def _is_of_this_document(self, call: Call) -> bool:
        document = self._environment.workspace.document
        return call.caller.document in (None, None if document is None else str(document))

    def _as_pending(self, prepared: Prepared, decision: Decision, *, waiter: Any) -> PendingCall:
        from holdfast.text.preview import call_summary, preview

        tool, call, proposal = prepared.plan.tool, prepared.call, prepared.proposal
        redactor = self._redactor
        shown = cast(Args, redactor.value(call.args)) if redactor.active else call.args  # before anything is cut
        files = self._approvals.files_named(tool, call, proposal)
        secrets = self._approvals.secret_paths(tool, call)
        return PendingCall(
            call=call,
            state=State.PENDING,
            digest=self._approvals.digest(tool, call, proposal, files, secrets),
            definition_digest=tool.digest,
            decision=decision,
            preview=preview(call.name_used, shown, _PREVIEW_WIDTH, tool.format_preview),
            summary=proposal.summary if proposal else call_summary(shown, tool.summary, call.cwd),
            proposal=proposal,
            files=files,
            secrets=tuple(map(str, secrets)),
            definition_only=tool.definition_only,
            held_at=time.time(),
            waiter=waiter,
        )

    # ------------------------------------------------------------------ perform

    async def perform(self, prepared: Prepared, approval: Approval) -> Result:
        """Run what may run. An approval with a digest is used up first, once."""
        tool, ctx, call = prepared.plan.tool, prepared.ctx, prepared.call
        if tool.touches is None:
            return await self._perform(prepared, approval.decision, approval.digest)
        try:
            claim = Claim(self._approvals.touched_paths(tool, call), exclusive=prepared.plan.mutates, group=call.group)
        except HoldfastError as error:
            return await self._refuse_paths(call, refused_paths(error), approval.digest)
        refusal = await self._path_queue.acquire(claim, call.id, ctx.claims)
        if refusal is not None:
            return await self._refuse_paths(call, refusal, approval.digest)
        ctx.claims = (*ctx.claims, claim)
        try:
            return await self._perform(prepared, approval.decision, approval.digest)
        finally:
            self._path_queue.release(claim)

    def cancel(self, call_id: str) -> bool:
        """Stop a call that runs, or one that waits for its turn on a path."""
        return self._path_queue.cancel(call_id) or self.executor.stop(call_id)

    async def _refuse_paths(self, call: Call, refusal: Result, digest: str | None) -> Result:
        if digest is None:
            return await self.end_early(call, refusal, "paths")
        refusal = replace(refusal, call_id=call.id)
        self._pending.ledger.end_now(call.id, refusal)
        return self._finish(call, refusal)

    async def _perform(self, prepared: Prepared, decision: Decision, digest: str | None) -> Result:
        plan, ctx, proposal = prepared.plan, prepared.ctx, prepared.proposal
        tool, call, mutates = plan.tool, ctx.call_record, plan.mutates
        ledger = self._ledger if digest is None else self._pending.ledger
        opened = ledger is not None and (mutates or digest is not None)
        if opened:
            assert ledger is not None
            try:
                await ledger.begin(
                    call, digest=digest, definition_digest=tool.digest, mutates=mutates, decision=decision
                )
            except (LedgerError, NotPending) as error:
                if digest is not None and isinstance(error, NotPending):
                    raise  # the approval has been used elsewhere
                return self._finish(call, call_not_recorded(tool.name, error))
        ctx.in_ledger = True
        if call.widening is not None and self._environment.commands.sandbox.reveals_hidden_files(call.widening):
            ctx.withhold_output()
        if not self._events.idle:
            self._events.emit(Decided(call.id, decision))
            self._events.emit(Started(call.id, tool.name, call.parent))
        if (tool.risk if proposal is None else proposal.risk) in plan.logged:
            self._events.log(f"Tool '{tool.name}' runs as call {call.id}: {decision.reason}")
        args = call.args if ledger is None and not plan.after else copy_json(call.args)
        try:
            function, direct = plan.execute, plan.direct
            if proposal is not None:
                function, direct, args = tool.apply, plan.applies_direct, copy_json(proposal.payload)
            assert function is not None
            value = await self.executor.call(tool, function, args, ctx, direct=direct, mutates=mutates)
            result = value.result if type(value) is RuntimeResult else to_result(value, tool, call.id)
            if plan.after:
                result = await self._after(plan, ctx, result)
        except (asyncio.CancelledError, GeneratorExit):
            self._record_cancelled(call, decision, opened=opened, unknown=mutates)
            raise
        finally:
            self._command_calls.discard(ctx)
        if ctx.streamed:
            ctx.finish_stream()
        if self._redactor.active:
            result = self._redactor.result(result)
        if len(result.output) >= self._surely_short:
            result = truncate_output(result, tool, self._output, call.id, None if ctx.read_secrets else ledger)
        if ctx.exception is not None and result.failure is Failure.TOOL_ERROR:
            with_exception(result, ctx.exception)
        if ledger is not None:
            kept = withhold_content(result) if ctx.read_secrets else result
            try:
                if opened:
                    await ledger.end(call.id, kept)
                else:
                    await ledger.record_call(call, decision, kept)
            except LedgerError as error:
                return self._finish(call, result_not_recorded(tool.name, error, mutates=mutates))
        return self._finish(call, result)

    async def _after(self, plan: CallPlan, ctx: RunContext, result: Result) -> Result:
        answer = await run_after(plan.after, copy_json(ctx.call_record.args), ctx, result, self._tools.default_timeout)
        if isinstance(answer, Result):
            answer = with_final_state(answer, ctx.call_id)
            return replace(answer, state=result.state) if result.state in STOPPED else answer
        text = f"Tool '{ctx.tool.name}' ran, but {answer}; its output is withheld."
        state = result.state if result.state in STOPPED else State.FAILED
        return failed(text, state, Failure.DENIED_BY_MIDDLEWARE, ctx.call_id)

    # ------------------------------------------------------------------- record

    def _cancelled_early(self, call: Call) -> None:
        """The caller is gone before the call began: it still gets its one result."""
        self._record_cancelled(call, _CANCELLED_EARLY, opened=False, unknown=False)

    def _record_cancelled(self, call: Call, decision: Decision, *, opened: bool, unknown: bool) -> None:
        """The caller's task was cancelled: the call still gets its one result, written without waiting."""
        text = decision.reason
        if decision is not _CANCELLED_EARLY:
            text = "The caller was cancelled while the tool ran"
            text += "; whether it took effect is not known." if unknown else "; it changes nothing."
        state = State.UNKNOWN if unknown else State.CANCELLED
        result = failed(text, state, Failure.CANCELLED, call.id)
        self._record_now(call, decision, result, opened=opened)
        self._finish(call, result)

    def _record_now(self, call: Call, decision: Decision, result: Result, *, opened: bool) -> None:
        ledger = self._pending.ledger if opened else self._ledger
        if ledger is None:
            return
        try:
            if not (opened and ledger.end_now(call.id, result)):
                ledger.record_call_now(call, decision, result)
        except NotPending:
            return  # its end has been written already
        except HoldfastError as error:
            self._events.warn(f"The end of call {call.id} could not be recorded: {error}")

    def _broken(self, plan: CallPlan, ctx: RunContext, error: Exception) -> Result:
        """What nobody foresaw: reported, recorded, and not raised into the caller."""
        self._events.internal_error(error)
        result = internal_error(ctx.call_record, error, unknown=ctx.in_ledger and plan.mutates)
        self._record_now(
            ctx.call_record, Decision(Verdict.DENY, "fault", result.error or ""), result, opened=ctx.in_ledger
        )
        return self._finish(ctx.call_record, result)

    async def refuse(self, request: CallRequest, error: CallError) -> Result:
        """A call with something in it that cannot be kept: it gets its result, and what was wrong is left out."""
        if get_running_loop() is not self._events.loop:
            self._events.use_running_loop()
        call = _call(request, request.call_id or self.new_call_id(), request.name, {})
        return await self.end_early(call, failed(str(error), State.INVALID, Failure.INVALID_ARGUMENTS), "caller")

    async def end_early(
        self, call: Call, result: Result, source: str, given: Any = None, decision: Decision | None = None
    ) -> Result:
        """A call that ends before anything ran: still recorded, still one result."""
        if not result.call_id:
            result = replace(result, call_id=call.id)
        if self._redactor.active:
            result = self._redactor.result(result)
        if self._ledger is not None:
            verdict = Verdict.DENY if result.state in (State.DENIED, State.INVALID) else Verdict.APPROVE
            judged = decision or Decision(verdict, source, result.error or "answered without running")
            try:
                await self._ledger.record_call(call, judged, result, original_args=recordable_arguments(given))
            except LedgerError as error:
                self._events.warn(f"Call {call.id} could not be recorded: {error}")
        return self._finish(call, result)

    def _tell(self, event: Event) -> None:
        if not self._events.idle:
            self._events.emit(event)

    def _finish(self, call: Call, result: Result) -> Result:
        if result.call_id != call.id:
            result = replace(result, call_id=call.id)
        if not self._events.idle:
            self._events.emit(Finished(call.id, result, result.state))
        return result


def _call(request: CallRequest, call_id: str, tool: str, args: Args, original: Args | None = None) -> Call:
    if request.pending is not None:
        return replace(request.pending.call, args=args, asked=None, widening=None)
    above = None if request.parent is None else request.parent.call_record
    return Call(
        call_id,
        tool,
        request.name,
        args,
        request.caller,
        request.cwd,
        None if above is None else above.id,
        request.request,
        request.given_id,
        0 if above is None else above.depth + 1,
        call_id if above is None else above.group,
        original,
    )
