"""The path of a call, in its order. Every door's calls come through `Pipeline.run`; there is no other way in.

find ▸ policy ▸ validate ▸ secrets ▸ before ▸ re-validate ▸ propose ▸ chain ▸ caps ▸ run ▸ after ▸ bound ▸ record
"""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from holdfast.contract.call import Call, Caller, Decision, Proposal
from holdfast.contract.errors import ArgumentsError, BadJson, CallError, HoldfastError, LedgerError, NotPending
from holdfast.contract.event import Decided, Event, Finished, Proposed, Received, Started
from holdfast.contract.result import Result
from holdfast.contract.values import MAX_ARGUMENT_BYTES, Args
from holdfast.contract.vocabulary import Failure, State, Verdict
from holdfast.rules.resolvers import GRANTS
from holdfast.runtime.arguments import Arguments, own, parse_object, read_arguments, recordable
from holdfast.runtime.context import RunContext
from holdfast.runtime.execute import Ended, Executor, Waiting
from holdfast.runtime.keeping import bound
from holdfast.runtime.locks import Claim
from holdfast.runtime.middleware import Deny, run_after, run_before
from holdfast.runtime.outcome import STOPPED, checked_proposal, owned, to_result
from holdfast.runtime.plans import Plan
from holdfast.runtime.refusals import (
    PLANNING,
    broken,
    invalid,
    no_secret,
    planned,
    refused_paths,
    result_lost,
    too_deep,
    unrecorded,
)
from holdfast.runtime.turns import Turns

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

_POLICY = "policy"
_CANCELLED_EARLY = Decision(Verdict.DENY, "caller", "The caller was cancelled before the tool ran.")


class Origin(NamedTuple):
    """Where a call comes from."""

    caller: Caller
    cwd: str
    parent: RunContext | None = None
    request: str | None = None
    given_id: str | None = None
    call_id: str | None = None


class Pipeline:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._plans = runtime.plans.default
        self._turns = Turns(self._tell)
        self.executor = Executor()

    async def run(self, name: str, arguments: Arguments, origin: Origin) -> Result:
        """Take one call from its door to its result. Raises only if the caller's task is cancelled."""
        runtime = self._runtime
        if get_running_loop() is not runtime.loop:
            runtime.attach()
        call_id = origin.call_id
        if call_id is None:
            runtime.calls += 1
            call_id = f"{runtime.session}-{runtime.calls}"
        plan = self._plans.get(name) if origin.caller is runtime.caller else None
        if plan is None:
            plan = runtime.plans.find(name, origin.caller)
        if not runtime.bus.idle:
            parent = origin.parent.call_id if origin.parent else None
            runtime.bus.emit(Received(call_id, name, origin.caller, parent))
        if origin.parent is not None and origin.parent.call_record.depth >= runtime.config.tools.max_depth:
            plan = too_deep(name, runtime.config.tools.max_depth)
        if isinstance(plan, Result):
            plan = await self._wait_for_tool(name, origin, plan)
            if isinstance(plan, Result):
                return await self.end_early(_call(call_id, name, name, {}, origin), plan, _POLICY, arguments)
        tool = plan.tool
        original = None
        try:
            if type(arguments) is str:
                given = parse_object(arguments, plan.open_schema)
                args = given if plan.is_valid(given) else tool.schema.mend(given)
            else:
                given = read_arguments(arguments)
                args = tool.schema.judge(given)
            if args is not given:
                original = own(given, MAX_ARGUMENT_BYTES) if type(args) is dict else None
            elif given is arguments and (runtime.ledger is not None or plan.decision is None):
                args = own(given, MAX_ARGUMENT_BYTES)  # what is judged must not change under us
        except BadJson as error:
            args = error
        if isinstance(args, ArgumentsError):
            call = _call(call_id, tool.name, name, {}, origin)
            return await self.end_early(call, invalid(call, args), "schema", arguments)
        if origin.parent is None:
            caller, cwd, _, request, given_id, _ = origin
            call = Call(call_id, tool.name, name, args, caller, cwd, None, request, given_id, 0, call_id, original)
        else:
            call = _call(call_id, tool.name, name, args, origin, original)
        if plan.missing_scope is not None:
            return await self.end_early(call, no_secret(name, plan.missing_scope), "secrets")
        ctx = RunContext(
            runtime, tool, call, plan.timeout_of(args) if plan.timeout_unit else plan.timeout, origin.parent
        )
        try:
            if plan.before:
                stop = await self.before(plan, ctx)
                if stop is not None:
                    return await self.end_early(ctx.call_record, stop, "middleware")
            if plan.settled is not None:
                return await self._perform(plan, ctx, plan.settled, None, None)
            return await self.judge(plan, ctx)
        except asyncio.CancelledError:
            if not ctx.begun:
                self._record_cancelled(ctx.call_record, _CANCELLED_EARLY, opened=False, unknown=False)
            raise
        except Exception as error:
            return self._broken(plan, ctx, error)

    async def refuse(self, name: str, error: CallError, origin: Origin) -> Result:
        """A call with something in it that cannot be kept: it gets its result, and what was wrong is left out."""
        runtime = self._runtime
        if get_running_loop() is not runtime.loop:
            runtime.attach()
        call = _call(origin.call_id or runtime.new_call_id(), name, name, {}, origin)
        refusal = Result(False, error=str(error), state=State.INVALID, failure=Failure.INVALID_ARGUMENTS)
        return await self.end_early(call, refusal, "caller")

    async def _wait_for_tool(self, name: str, origin: Origin, refusal: Result) -> Plan | Result:
        """A tool nobody knows may still come from a source that is loading."""
        if refusal.failure is not Failure.UNKNOWN_TOOL or self._runtime.registry.ready:
            return refusal
        await self._runtime.wait_for_sources()
        return self._runtime.plans.find(name, origin.caller)

    async def before(self, plan: Plan, ctx: RunContext) -> Result | None:
        """Let the hooks change or refuse the arguments; the refusal, if there is one."""
        seconds = self._runtime.config.tools.default_timeout
        answer = await run_before(plan.before, own(ctx.call_record.args), ctx, seconds)
        if isinstance(answer, Deny):
            reason = answer.reason or f"tool `{ctx.tool.name}` denied by middleware"
            return Result(False, error=reason, state=State.DENIED, failure=Failure.DENIED_BY_MIDDLEWARE)
        call = ctx.call_record
        try:
            args = own(plan.tool.schema.accept(answer), MAX_ARGUMENT_BYTES)
            ctx.call_record = replace(call, args=args, asked=None if args == call.args else call.args)
        except ArgumentsError as error:
            return Result(
                False,
                error=f"A hook gave tool '{ctx.tool.name}' arguments it cannot take: {error}.",
                state=State.DENIED,
                failure=Failure.DENIED_BY_MIDDLEWARE,
            )
        return None

    async def judge(self, plan: Plan, ctx: RunContext) -> Result:
        """Propose, decide, and then run, hold or refuse."""
        runtime = self._runtime
        proposal = None
        if plan.tool.propose is not None:
            proposal = await self.propose(plan, ctx)
            if isinstance(proposal, Result):
                return await self.end_early(ctx.call_record, proposal, "proposal")
            if proposal is not None:
                self._tell(Proposed(ctx.call_id, proposal))
        decision = plan.decision
        if decision is None:
            decision = await runtime.decide(plan.tool, ctx.call_record, proposal)
        if decision.source == GRANTS and not runtime.planning and not self._use_grant(plan, ctx, proposal):
            decision = Decision(Verdict.ASK, GRANTS, "The grant that covered this call has been used up.")
        if decision.verdict is Verdict.DENY:
            refusal = Result(
                False,
                error=f"Tool '{ctx.call_record.name_used}' was denied: {decision.reason}",
                state=State.DENIED,
                failure=Failure.DENIED_BY_POLICY,
            )
            self._tell(Decided(ctx.call_id, decision))
            return await self.end_early(ctx.call_record, refusal, decision.source, decision=decision)
        if runtime.planning and plan.mutates:
            self._tell(Decided(ctx.call_id, PLANNING))
            return await self.end_early(ctx.call_record, planned(plan.tool, ctx.call_record, proposal), PLANNING.source)
        if decision.verdict is Verdict.ASK or plan.tool.definition_only:
            self._tell(Decided(ctx.call_id, decision))
            return await runtime.desk.hold(plan, ctx, decision, proposal)
        return await self.perform(plan, ctx, decision, proposal)

    def _use_grant(self, plan: Plan, ctx: RunContext, proposal: Proposal | None) -> bool:
        try:
            return self._runtime.use_grant(plan.tool, ctx.call_record, proposal)
        except HoldfastError as error:
            self._runtime.warn(f"A grant could not be used for call {ctx.call_id}: {error}")
            return False

    async def propose(self, plan: Plan, ctx: RunContext) -> Proposal | Result | None:
        """What a two-phase tool would do; its immediate result if it needs nobody's leave; None for other tools."""
        tool = plan.tool
        if tool.propose is None:
            return None
        args = own(ctx.call_record.args)
        asked, ctx.timeout = ctx.timeout, self._runtime.config.tools.default_timeout  # the call's time is for the work
        try:
            value = await self.executor.call(tool, tool.propose, args, ctx, direct=plan.proposes_direct, mutates=False)
        finally:
            ctx.timeout = asked
        if isinstance(value, Proposal):
            return checked_proposal(value, tool, ctx.call_id)
        return value.result if isinstance(value, Ended) else to_result(value, tool, ctx.call_id)

    async def perform(
        self,
        plan: Plan,
        ctx: RunContext,
        decision: Decision,
        proposal: Proposal | None,
        *,
        digest: str | None = None,
    ) -> Result:
        """Run what may run. With a digest, the approval bound to it is used up first, once."""
        tool, call = plan.tool, ctx.call_record
        if tool.touches is None:
            return await self._perform(plan, ctx, decision, proposal, digest)
        try:
            claim = Claim(self._runtime.touched(tool, call), exclusive=plan.mutates, group=call.group)
        except HoldfastError as error:
            return await self._refuse_paths(call, refused_paths(error), digest)
        refusal = await self._turns.take(claim, ctx)
        if refusal is not None:
            return await self._refuse_paths(call, refusal, digest)
        try:
            return await self._perform(plan, ctx, decision, proposal, digest)
        finally:
            self._turns.give_back(claim)

    def cancel(self, call_id: str) -> bool:
        """Stop a call that runs, or one that waits for its turn on a path."""
        return self._turns.cancel(call_id) or self.executor.stop(call_id)

    async def _refuse_paths(self, call: Call, refusal: Result, digest: str | None) -> Result:
        if digest is None:
            return await self.end_early(call, refusal, "paths")
        refusal = replace(refusal, call_id=call.id)
        self._runtime.ledger_for_held().end_now(call.id, refusal)
        return self._finish(call, refusal)

    async def _perform(
        self,
        plan: Plan,
        ctx: RunContext,
        decision: Decision,
        proposal: Proposal | None,
        digest: str | None,
    ) -> Result:
        runtime, tool, call = self._runtime, plan.tool, ctx.call_record
        ledger = runtime.ledger if digest is None else runtime.ledger_for_held()
        opened = ledger is not None and (plan.mutates or digest is not None)
        if opened:
            assert ledger is not None
            try:
                await ledger.begin(
                    call, digest=digest, definition_digest=tool.digest, mutates=plan.mutates, decision=decision
                )
            except (LedgerError, NotPending) as error:
                if digest is not None and isinstance(error, NotPending):
                    raise  # the approval has been used elsewhere
                return self._finish(call, unrecorded(tool.name, error))
        ctx.begun = True
        if not runtime.bus.idle:
            runtime.bus.emit(Decided(call.id, decision))
            runtime.bus.emit(Started(call.id, tool.name, call.parent))
        if plan.logged:
            runtime.log(f"Tool '{tool.name}' runs as call {call.id}: {decision.reason}")
        args = call.args if ledger is None and not plan.after else own(call.args)
        try:
            if proposal is None:
                assert plan.execute is not None
                value = self.executor.begin(tool, plan.execute, args, ctx, direct=plan.direct, mutates=plan.mutates)
                if type(value) is Waiting:
                    value = await self.executor.finish(value)
            else:
                assert tool.apply is not None
                payload = own(proposal.payload)
                value = await self.executor.call(
                    tool, tool.apply, payload, ctx, direct=plan.applies_direct, mutates=plan.mutates
                )
            result = value.result if type(value) is Ended else to_result(value, tool, call.id)
            if plan.after:
                result = await self._after(plan, ctx, result)
        except (asyncio.CancelledError, GeneratorExit):
            self._record_cancelled(call, decision, opened=opened, unknown=plan.mutates)
            raise
        if ctx.streamed:
            ctx.finish_stream()
        if runtime.redactor.active:
            result = runtime.redactor.result(result)
        if len(result.output) >= runtime.surely_short:
            result = bound(result, tool, runtime.config.output, call.id, ledger)
        if ledger is not None:
            try:
                if opened:
                    await ledger.end(call.id, result)
                else:
                    await ledger.record_whole(call, decision, result)
            except LedgerError as error:
                return self._finish(call, result_lost(tool.name, error, mutates=plan.mutates))
        if not runtime.bus.idle:
            runtime.bus.emit(Finished(call.id, result, result.state))
        return result

    async def _after(self, plan: Plan, ctx: RunContext, result: Result) -> Result:
        answer = await run_after(
            plan.after, own(ctx.call_record.args), ctx, result, self._runtime.config.tools.default_timeout
        )
        if isinstance(answer, Result):
            return (
                replace(owned(answer, ctx.call_id), state=result.state)
                if result.state in STOPPED
                else owned(answer, ctx.call_id)
            )
        return Result(
            False,
            error=f"Tool '{ctx.tool.name}' ran, but {answer}; its output is withheld.",
            state=result.state if result.state in STOPPED else State.FAILED,
            failure=Failure.DENIED_BY_MIDDLEWARE,
            call_id=ctx.call_id,
        )

    def _record_cancelled(self, call: Call, decision: Decision, *, opened: bool, unknown: bool) -> None:
        """The caller's task was cancelled: the call still gets its one result, written without waiting."""
        text = decision.reason
        if decision is not _CANCELLED_EARLY:
            text = "The caller was cancelled while the tool ran"
            text += "; whether it took effect is not known." if unknown else "; it changes nothing."
        state = State.UNKNOWN if unknown else State.CANCELLED
        result = Result(False, error=text, state=state, failure=Failure.CANCELLED, call_id=call.id)
        self._record_now(call, decision, result, opened=opened)
        self._tell(Finished(call.id, result, result.state))

    def _record_now(self, call: Call, decision: Decision, result: Result, *, opened: bool) -> None:
        ledger = self._runtime.ledger_for_held() if opened else self._runtime.ledger
        if ledger is None:
            return
        try:
            if not (opened and ledger.end_now(call.id, result)):
                ledger.record_whole_now(call, decision, result)
        except NotPending:
            return  # its end has been written already
        except HoldfastError as error:
            self._runtime.warn(f"The end of call {call.id} could not be recorded: {error}")

    def _broken(self, plan: Plan, ctx: RunContext, error: Exception) -> Result:
        """What nobody foresaw: reported, recorded, and not raised into the caller."""
        self._runtime.report(error)
        result = broken(ctx.call_record, error, unknown=ctx.begun and plan.mutates)
        self._record_now(ctx.call_record, Decision(Verdict.DENY, "fault", result.error or ""), result, opened=ctx.begun)
        return self._finish(ctx.call_record, result)

    async def end_early(
        self, call: Call, result: Result, source: str, given: Any = None, decision: Decision | None = None
    ) -> Result:
        """A call that ends before anything ran: still recorded, still one result."""
        runtime = self._runtime
        if not result.call_id:
            result = replace(result, call_id=call.id)
        if runtime.redactor.active:
            result = runtime.redactor.result(result)
        if runtime.ledger is not None:
            verdict = Verdict.DENY if result.state in (State.DENIED, State.INVALID) else Verdict.APPROVE
            judged = decision or Decision(verdict, source, result.error or "answered without running")
            try:
                await runtime.ledger.record_whole(call, judged, result, original_args=recordable(given))
            except LedgerError as error:
                runtime.warn(f"Call {call.id} could not be recorded: {error}")
        return self._finish(call, result)

    def _tell(self, event: Event) -> None:
        if not self._runtime.bus.idle:
            self._runtime.bus.emit(event)

    def _finish(self, call: Call, result: Result) -> Result:
        if result.call_id != call.id:
            result = replace(result, call_id=call.id)
        if not self._runtime.bus.idle:
            self._runtime.bus.emit(Finished(call.id, result, result.state))
        return result


def _call(call_id: str, tool: str, name_used: str, args: Args, origin: Origin, original: Args | None = None) -> Call:
    caller, cwd, parent, request, given_id, _ = origin
    if parent is None:
        return Call(call_id, tool, name_used, args, caller, cwd, None, request, given_id, 0, call_id, original)
    above = parent.call_record
    depth, group = above.depth + 1, above.group
    return Call(call_id, tool, name_used, args, caller, cwd, above.id, request, given_id, depth, group, original)
