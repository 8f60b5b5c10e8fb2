"""The stages every call passes: `prepare`, `decide` and `perform`. There is no other way to run a tool.

prepare: find ▸ policy ▸ validate ▸ secrets ▸ before ▸ re-validate ▸ widen ▸ propose
decide:  approval chain ▸ caps
perform: claim paths ▸ run ▸ after ▸ redact ▸ truncate ▸ record

`CallLifecycle` drives calls through these stages, and through the wait for an answer where a call needs one.
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Call, Caller, Decision, PendingCall, Proposal
from holdfast.contract.enums import CHECKS_IN_DRY_RUN, RUNS_COMMANDS, Failure, State, Verdict
from holdfast.contract.errors import ArgumentsError, BadJson, CallError, HoldfastError, LedgerError, NotPending
from holdfast.contract.event import Decided, Event, Finished, Proposed, Received, Started
from holdfast.contract.json import MAX_ARGUMENT_BYTES, Args
from holdfast.contract.result import Result, with_exception
from holdfast.contract.tool import Tool
from holdfast.contract.widening import Widening
from holdfast.registry.source_loader import WAITING_FOR_SOURCES
from holdfast.rules.decider import SECRET
from holdfast.runtime import input_checks
from holdfast.runtime.access import CallPlan, CallPlans
from holdfast.runtime.approvals import Approvals
from holdfast.runtime.context import Environment, RunContext
from holdfast.runtime.executor import Executor, RuntimeResult
from holdfast.runtime.input_checks import Arguments, copy_json, parse_object, read_arguments, recordable_arguments
from holdfast.runtime.interfaces import Interfaces
from holdfast.runtime.middleware import Deny, run_after, run_before
from holdfast.runtime.path_locks import Claim, PathQueue
from holdfast.runtime.pending import PendingCalls
from holdfast.runtime.results import (
    NEEDS_EXTERNAL_RESULT,
    PLAN_MODE,
    STOPPED,
    call_not_recorded,
    check_proposal,
    failed,
    internal_error,
    invalid_arguments,
    limit_attachments,
    message_of,
    missing_secret,
    nested_too_deeply,
    nobody_to_ask,
    redacted_arguments,
    refused_paths,
    result_not_recorded,
    to_result,
    truncate_output,
    unfinished,
    with_final_state,
    withhold_content,
)

_CANCELLED_EARLY: Final = Decision(Verdict.DENY, "caller", "The caller was cancelled before the tool ran.")


class CallRequest(Struct, frozen=True):
    """A call as an interface asks for it, before anything is checked."""

    name: str
    arguments: Arguments
    caller: Caller
    cwd: str
    parent: RunContext | None = None
    """The context of the tool that makes this nested call."""
    request: str | None = None
    given_id: str | None = None
    call_id: str | None = None
    pending: PendingCall | None = None
    """The pending call that passes the stages again, after an answer or to be shown as it would be now."""
    stages: list[Stage] | None = None
    """Set in a dry run: collects what each stage said. Nothing is recorded, and tools see `ctx.dry_run`."""
    unrecorded: bool = False
    """Nothing is recorded: the code that prepares the call decides about it."""

    @property
    def widened(self) -> Widening | None:
        """What the approval of the pending call lets it reach."""
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
        """A request made of a program's input. Raises `CallError` for values that the ledger could not store."""
        name = name[: input_checks.MAX_TEXT] if type(name) is str else message_of(name, type(name).__name__)
        request = input_checks.check_optional_text(request, "The request of a call")
        given_id = input_checks.check_optional_text(given_id, "The given id of a call")
        return cls(name, arguments, caller, cwd, request=request, given_id=given_id, call_id=call_id)

    @classmethod
    def from_pending(cls, pending: PendingCall, *, args: Args | None = None, **more: Any) -> CallRequest:
        """The request of a pending call again, with the arguments it was asked for or with `args`."""
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
    """A call that passed every stage before the decision."""

    plan: CallPlan
    ctx: RunContext
    proposal: Proposal | None = None

    @property
    def call(self) -> Call:
        return self.ctx.call_record


class Approval(Struct, frozen=True):
    """Why a call may run: the decision, and the digest that a person approved, if one did."""

    decision: Decision
    digest: str | None = None


class Pipeline:
    """Prepares, decides about and performs calls.

    Every call ends in exactly one result. A call that ends before it runs is recorded with its refusal, a call that
    runs is recorded before and after, and an exception of holdfast itself becomes a result, too.
    """

    def __init__(
        self,
        plans: CallPlans,
        approvals: Approvals,
        pending: PendingCalls,
        interfaces: Interfaces,
        environment: Environment,
        *,
        session: str,
        plan_mode: bool,
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
        self._plan_mode = plan_mode
        self._registry = plans.registry
        self._session = session
        self._calls = 0
        self._path_queue = PathQueue(self.emit)
        self.executor = Executor()
        limits = self._output
        # A character is at most 4 bytes, and a line at least one character.
        self._always_fits = min(limits.max_bytes // 4, limits.max_lines, (limits.max_output_bytes or 1 << 30) // 4)
        """An output of fewer characters is never truncated."""

    def new_call_id(self) -> str:
        self._calls += 1
        return f"{self._session}-{self._calls}"

    # ------------------------------------------------------------------ prepare

    async def prepare(
        self, request: CallRequest, if_cancelled: Callable[[Call], None] | None = None
    ) -> Prepared | Result:
        """Take a call through every stage before the decision.

        Returns the prepared call, or the result of a call that a stage ends. Such a result is recorded, except in a
        dry run. If the caller's task is cancelled, nothing is recorded here, because the call may be prepared again;
        `if_cancelled` can record it.
        """
        if get_running_loop() is not self._events.loop:
            self._events.use_running_loop()
        name, arguments, parent, pending = request.name, request.arguments, request.parent, request.pending
        call_id = request.call_id or self.new_call_id()
        if not self._events.idle and pending is None and request.stages is None:
            self._events.emit(Received(call_id, name, request.caller, None if parent is None else parent.call_id))

        # Find the tool and apply the policy.
        usual = parent is None and pending is None
        plan = self._plans.find(name, request.caller) if usual else self.find_plan(request)
        if not isinstance(plan, CallPlan) and plan.failure is Failure.UNKNOWN_TOOL and not self._registry.ready:
            if request.stages is None:  # a source that is still loading may have it
                await self.wait_for_sources()
            plan = self.find_plan(request)
        if not isinstance(plan, CallPlan):
            stage = "policy" if plan.failure is Failure.NOT_ALLOWED else "find"
            return await self._refuse(request, _call(request, call_id, name, {}), plan, stage, arguments)
        tool = plan.tool

        # Validate the arguments. The call keeps a copy: the caller must not be able to change what was judged.
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
                args = copy_json(given, MAX_ARGUMENT_BYTES)
        except BadJson as error:
            args = error
        if isinstance(args, ArgumentsError):
            call = _call(request, call_id, tool.name, {})
            redacted = None if pending is None else redacted_arguments(pending.call, pending.proposal)
            return await self._refuse(request, call, redacted or invalid_arguments(call, args), "validate", arguments)
        call = _call(request, call_id, tool.name, args, original)
        missing_scope = plan.missing_scope
        if tool.referenced_secrets is not None:
            missing_scope = next((one for one in tool.secret_scopes(args) if one not in request.caller.scopes), None)
        if missing_scope is not None:
            return await self._refuse(request, call, missing_secret(name, missing_scope), "secrets")

        timeout = plan.timeout_of(args) if plan.timeout_unit else plan.timeout
        ctx = RunContext(self._environment, tool, call, timeout, parent)
        widens = self._approvals.may_widen(tool, request.widened)
        if not plan.before and tool.propose is None and request.stages is None and not widens:
            return Prepared(plan, ctx)
        return await self._prepare_with_user_code(request, plan, ctx, if_cancelled)

    async def _prepare_with_user_code(
        self, request: CallRequest, plan: CallPlan, ctx: RunContext, if_cancelled: Callable[[Call], None] | None
    ) -> Prepared | Result:
        """The stages that call middleware and the tool's `propose`."""
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
                refusal = None if dry_run else self._refuse_secret_files(plan, ctx.call_record)
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
            return self.record_internal_error(plan, ctx, error)
        if request.stages is not None:
            request.stages.append(Stage("propose"))
        elif proposal is not None and request.pending is None:
            self.emit(Proposed(ctx.call_id, proposal))
        return Prepared(plan, ctx, proposal)

    def find_plan(self, request: CallRequest) -> CallPlan | Result:
        """The plan of a nested or pending call, or the refusal.

        Looked up by the name that was used, because an alias can change the unit of `timeout`. A pending call keeps
        its tool even if that name now belongs to another one.
        """
        parent, pending = request.parent, request.pending
        if parent is not None and parent.call_record.depth >= self._tools.max_depth:
            return nested_too_deeply(request.name, self._tools.max_depth)
        plan = self._plans.find(request.name, request.caller)
        if pending is None or (isinstance(plan, CallPlan) and plan.tool.name == pending.call.tool):
            return plan
        return self._plans.find(pending.call.tool, request.caller)

    async def wait_for_sources(self) -> None:
        """Wait until every source of tools has reported or timed out."""
        if not self._registry.ready:
            self._events.notice(WAITING_FOR_SOURCES)
            await self._registry.wait_ready()

    async def _before(self, plan: CallPlan, ctx: RunContext) -> Result | None:
        """Run `before` middleware, which may replace the arguments; returns the refusal if it denies the call."""
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
            text = f"Middleware gave tool '{ctx.tool.name}' invalid arguments: {error}."
            return failed(text, State.DENIED, Failure.DENIED_BY_MIDDLEWARE)
        return None

    def _refuse_secret_files(self, plan: CallPlan, call: Call) -> Result | None:
        """Refuse a change to a secret file if no person can be asked about it.

        Refused before `propose` runs, because whether a change can be proposed reveals part of the file's content.
        """
        if self._interfaces.can_ask:
            return None
        found = self._approvals.secret_paths(plan.tool, call)
        reason = f"'{found[0]}' may hold secrets (sandbox.read_deny)." if found else ""
        return nobody_to_ask(plan.tool, call, Decision(Verdict.ASK, SECRET, reason)) if found else None

    async def _widen(self, request: CallRequest, plan: CallPlan, ctx: RunContext) -> Result | None:
        """Apply what rules and the approval let the call reach; returns the refusal if that is not allowed."""
        try:
            widening = await self._approvals.widening(plan.tool, ctx.call_record, request.widened)
            ctx.call_record = replace(ctx.call_record, widening=widening)
            self._environment.commands.sandbox_of(ctx.call_record)
        except HoldfastError as error:
            return failed(str(error), State.DENIED, Failure.DENIED_BY_POLICY)
        return None

    async def _propose(self, plan: CallPlan, ctx: RunContext) -> Proposal | Result:
        """Call `propose` of a two-phase tool: its proposal, or its result if it needs no approval."""
        tool = plan.tool
        assert tool.propose is not None
        args = copy_json(ctx.call_record.args)
        asked, ctx.timeout = ctx.timeout, self._tools.default_timeout  # the call's own timeout is for `apply`
        # The proposal may read secret files: it is shown to the person who is asked, not to the model.
        ctx.granted = self._approvals.secret_paths(tool, ctx.call_record)
        try:
            value = await self.executor.call(tool, tool.propose, args, ctx, direct=plan.proposes_direct, mutates=False)
        finally:
            ctx.timeout, ctx.granted = asked, ()
        if isinstance(value, Proposal):
            return check_proposal(value, tool, ctx.call_id)
        result = value.result if isinstance(value, RuntimeResult) else to_result(value, tool, ctx.call_id)
        return _marked(result, tool)

    async def _refuse(self, request: CallRequest, call: Call, result: Result, stage: str, given: Any = None) -> Result:
        """End a call before the decision. It is recorded, except in a dry run."""
        if request.stages is not None:
            request.stages.append(Stage(stage, result))
        if request.stages is not None or request.unrecorded:
            return replace(result, call_id=call.id)
        if request.pending is not None:
            return await self.end_pending(request.pending, result)
        return await self.end_early(call, result, stage, given)

    # ------------------------------------------------------------------- decide

    async def decide(self, prepared: Prepared) -> Decision:
        """The decision of the approval chain and the caps."""
        plan = prepared.plan
        return plan.decision or await self._approvals.decide(plan.tool, prepared.call, prepared.proposal)

    def apply_mode(self, plan: CallPlan, args: Args, decision: Decision) -> Decision:
        """The decision after plan mode, and for tools without code; the same for a run and a dry run."""
        if decision.verdict is Verdict.DENY:
            return decision
        if self._plan_mode and plan.tool.mutates_with(args):
            return PLAN_MODE
        return NEEDS_EXTERNAL_RESULT if decision.verdict is Verdict.APPROVE and plan.tool.definition_only else decision

    # ------------------------------------------------------------------ perform

    async def perform(self, prepared: Prepared, approval: Approval) -> Result:
        """Run an approved call. An approval with a digest is consumed first: raises `NotPending` if it was used.

        Calls that touch the same path take turns.
        """
        tool, ctx, call = prepared.plan.tool, prepared.ctx, prepared.call
        if tool.touches is None:
            return await self._perform(prepared, approval.decision, approval.digest)
        try:
            paths = self._approvals.touched_paths(tool, call)
            claim = Claim(paths, exclusive=prepared.plan.mutates, group=call.group)
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
        """Stop a call that runs or waits for a path."""
        return self._path_queue.cancel(call_id) or self.executor.stop(call_id)

    async def _refuse_paths(self, call: Call, refusal: Result, digest: str | None) -> Result:
        if digest is None:
            return await self.end_early(call, refusal, "paths")
        refusal = replace(refusal, call_id=call.id)
        if not self._pending.end(call.id, refusal):
            raise NotPending(f"Call {call.id} is running already.")  # it was resumed twice, and holds the paths itself
        return self.finish(call, refusal)

    async def _perform(self, prepared: Prepared, decision: Decision, digest: str | None) -> Result:
        plan, ctx, proposal = prepared.plan, prepared.ctx, prepared.proposal
        tool, call = plan.tool, ctx.call_record
        mutates = tool.mutates_with(call.args)

        # Write-ahead: a mutation is in the ledger before it starts, so that a crash leaves it as unknown.
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
                    raise  # another process has used the approval
                return self.finish(call, call_not_recorded(tool.name, error))
        ctx.in_ledger = True
        if call.widening is not None and self._environment.commands.sandbox.reveals_hidden_files(call.widening):
            ctx.withhold_output()
        if not self._events.idle:
            self._events.emit(Decided(call.id, decision))
            self._events.emit(Started(call.id, tool.name, call.parent))
        if (tool.risk if proposal is None else proposal.risk) in plan.logged:
            self._events.log(f"Tool '{tool.name}' runs as call {call.id}: {decision.reason}")

        # Run the tool, then `after` middleware. The tool gets a copy of the arguments if anything reads them later.
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

        result = _marked(result, tool)
        # Redact before truncating: a secret at the cut must be recognised whole.
        if ctx.streamed:
            ctx.finish_stream()
        if self._redactor.active:
            result = self._redactor.result(result)
        if result.attachments:
            result = limit_attachments(result, self._output)
        if len(result.output) >= self._always_fits:
            result = truncate_output(result, tool, self._output, call.id, None if ctx.read_secrets else ledger)
        if ctx.read_secrets:
            result = replace(result, metadata={**result.metadata, "withheld": True})
        if ctx.exception is not None and result.failure is Failure.TOOL_ERROR:
            with_exception(result, ctx.exception)

        if ledger is not None:
            stored = withhold_content(result) if ctx.read_secrets else result
            try:
                if opened:
                    await ledger.end(call.id, stored)
                else:
                    await ledger.record_call(call, decision, stored)
            except LedgerError as error:
                return self.finish(call, result_not_recorded(tool.name, error, mutates=mutates))
        return self.finish(call, result)

    async def _after(self, plan: CallPlan, ctx: RunContext, result: Result) -> Result:
        """Run `after` middleware. It cannot turn a stopped call into one that ended by itself."""
        answer = await run_after(plan.after, copy_json(ctx.call_record.args), ctx, result, self._tools.default_timeout)
        if isinstance(answer, Result):
            answer = with_final_state(answer, ctx.call_id)
            return replace(answer, state=result.state) if result.state in STOPPED else answer
        text = f"Tool '{ctx.tool.name}' ran, but {answer}; its output is withheld."
        state = result.state if result.state in STOPPED else State.FAILED
        return failed(text, state, Failure.DENIED_BY_MIDDLEWARE, ctx.call_id)

    async def run_checks(self, prepared: Prepared) -> Result | None:
        """In a dry run, the refusal of a tool that checks its arguments in `execute`, such as a path it must not read.

        Such a tool declares `CHECKS_IN_DRY_RUN`, and returns before it does anything if `ctx.dry_run` is set.
        """
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

    # ------------------------------------------------------------------- record

    def record_cancelled_early(self, call: Call) -> None:
        """Record a call whose caller was cancelled before the tool ran."""
        self._record_cancelled(call, _CANCELLED_EARLY, opened=False, unknown=False)

    def _record_cancelled(self, call: Call, decision: Decision, *, opened: bool, unknown: bool) -> None:
        # Written synchronously: an await in a task that is being cancelled may never return.
        text = decision.reason
        if decision is not _CANCELLED_EARLY:
            text = "The caller was cancelled while the tool ran"
            text += "; whether it took effect is not known." if unknown else "; it changes nothing."
        state = State.UNKNOWN if unknown else State.CANCELLED
        result = failed(text, state, Failure.CANCELLED, call.id)
        self._record_now(call, decision, result, opened=opened)
        self.finish(call, result)

    def _record_now(self, call: Call, decision: Decision, result: Result, *, opened: bool) -> None:
        ledger = self._pending.ledger if opened else self._ledger
        if ledger is None:
            return
        try:
            if not (opened and ledger.end_now(call.id, result)):
                ledger.record_call_now(call, decision, result)
        except NotPending:
            return  # its end is already recorded
        except HoldfastError as error:
            self._events.warn(f"The end of call {call.id} could not be recorded: {error}")

    def record_internal_error(self, plan: CallPlan, ctx: RunContext, error: Exception) -> Result:
        """Log and record an exception of holdfast itself, and return it as a result instead of raising it."""
        self._events.internal_error(error)
        call, recorded = ctx.call_record, ctx.in_ledger
        result = internal_error(call, error, unknown=recorded and plan.tool.mutates_with(call.args))
        self._record_now(call, Decision(Verdict.DENY, "fault", result.error or ""), result, opened=recorded)
        return self.finish(call, result)

    async def refuse(self, request: CallRequest, error: CallError) -> Result:
        """End a call whose input cannot be stored. `request` is made without the invalid values."""
        if get_running_loop() is not self._events.loop:
            self._events.use_running_loop()
        call = _call(request, request.call_id or self.new_call_id(), request.name, {})
        return await self.end_early(call, failed(str(error), State.INVALID, Failure.INVALID_ARGUMENTS), "caller")

    async def end_early(
        self, call: Call, result: Result, source: str, given: Any = None, decision: Decision | None = None
    ) -> Result:
        """Record a call that ends before it runs. `given` is what came instead of valid arguments."""
        if not result.call_id:
            result = replace(result, call_id=call.id)
        if self._redactor.active:
            result = self._redactor.result(result)
        if self._ledger is not None:
            verdict = Verdict.DENY if result.state in (State.DENIED, State.INVALID) else Verdict.APPROVE
            decision = decision or Decision(verdict, source, result.error or "answered without running")
            try:
                await self._ledger.record_call(call, decision, result, original_args=recordable_arguments(given))
            except LedgerError as error:
                self._events.warn(f"Call {call.id} could not be recorded: {error}")
        return self.finish(call, result)

    async def end_pending(self, pending: PendingCall, result: Result) -> Result:
        """End a pending call without running it. If another process was faster, its result counts."""
        result = self._redactor.result(replace(result, call_id=pending.call.id))
        if not self._pending.end(pending.call.id, result):
            result = await self.wait_elsewhere(pending.call.id)
        return self.finish(pending.call, result)

    async def wait_elsewhere(self, call_id: str, seconds: float | None = None) -> Result:
        """The result of a call that another process runs."""
        ended = await self._pending.wait_for_result(call_id, seconds=seconds)
        shared, runs = self._pending.shared, self._pending.is_active(call_id)
        return ended or unfinished(call_id, self._pending.get(call_id), shared=shared, runs=runs)

    def emit(self, event: Event) -> None:
        if not self._events.idle:
            self._events.emit(event)

    def finish(self, call: Call, result: Result) -> Result:
        """Announce the end of a call; returns its result."""
        if result.call_id != call.id:
            result = replace(result, call_id=call.id)
        if not self._events.idle:
            self._events.emit(Finished(call.id, result, result.state))
        return result


def _marked(result: Result, tool: Tool) -> Result:
    """The result with the sources of its tool, whichever stage it comes from."""
    if not tool.sources:
        return result
    return replace(result, metadata={**result.metadata, "untrusted": [*tool.sources]})


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
