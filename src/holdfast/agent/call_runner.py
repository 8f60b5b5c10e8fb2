"""Phases 1 and 2 of the loop: categorise the calls of a reply, run them and write their results."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import SetResult, SetStatus, Slot, Status
from holdfast.agent.events import PhaseStarted, StatusWritten
from holdfast.agent.loop_context import DecidedCall, LoopContext
from holdfast.agent.slot_state import SlotAction, SlotState, read_slot_state, result_for_model, user_result
from holdfast.contract.call import Answer
from holdfast.contract.enums import ENDS, Failure, State, Verdict
from holdfast.contract.errors import CallError, NotPending, StaleApproval, UnknownCall
from holdfast.contract.result import Result
from holdfast.runtime.pending import POLL_SECONDS
from holdfast.runtime.results import ABORTED, approvals_so_far
from holdfast.store import process_identity

RUN_ACTIONS: Final = frozenset({SlotAction.RUN, SlotAction.APPROVE, SlotAction.RESUME, SlotAction.AWAIT})
_CANCEL_SECONDS: Final = 10.0
"""How long a call may take to end after it was cancelled; normally far less."""


class CallJob(Struct, frozen=True):
    """A call to run to its end."""

    slot: Slot
    action: SlotAction
    denied: bool = False
    """The decision is known to be a denial."""
    decided: DecidedCall | None = None
    """Set if the call is prepared already."""


class CallRunner:
    def __init__(self, context: LoopContext) -> None:
        self._context = context

    async def categorise(self, states: Sequence[SlotState], *, at_once: bool) -> None:
        """Phase 1: decide each call. With `at_once`, also run the approved ones, so that they are prepared only once.

        Without it, only calls end here that need no approval to end, such as an unknown tool or invalid arguments.
        """
        context = self._context
        context.emit(PhaseStarted("categorise"))
        placed: list[SetStatus] = []
        fresh = [
            each.slot for each in states if each.slot.aborted is None and each.action is not SlotAction.MARK_PENDING
        ]
        assigned = dict(zip(fresh, context.assign_call_ids(fresh), strict=True))
        ended: list[CallJob] = []
        approved: list[CallJob] = []
        for state in states:
            slot = state.slot
            if slot.aborted is not None:
                placed.append(SetStatus(slot, Status.ABORTED))
            elif state.action is SlotAction.MARK_PENDING:
                placed.append(self._mark_pending(state))
            else:
                slot = assigned[slot]
                decided = await context.run_unless_stopped(context.prepare(slot))
                if decided.verdict is not Verdict.APPROVE:
                    denied = decided.verdict is Verdict.DENY
                    ended.append(CallJob(slot, SlotAction.RUN, denied=denied, decided=decided))
                elif slot.status is Status.PENDING:
                    context.deferred.add((slot.turn, slot.use))  # a person typed `pending`, so a person removes it
                elif at_once:
                    approved.append(CallJob(slot, SlotAction.RUN, decided=decided))
                else:
                    placed.append(SetStatus(slot, Status.APPROVED))
        context.write(placed)
        await self.run(ended)
        if approved and not context.stopped:
            for job in approved:
                context.emit(StatusWritten(job.slot.use, Status.APPROVED, None))
            context.emit(PhaseStarted("execute"))
            await self.run(approved)

    async def execute(self, states: Sequence[SlotState]) -> None:
        """Phase 2: write the results of ended calls, then run the others."""
        context = self._context
        context.emit(PhaseStarted("execute"))
        results = [await self._ended_result(state) for state in states if state.action is SlotAction.WRITE_RESULT]
        context.write([change for change in results if change is not None])
        to_run = [state for state in states if state.action in RUN_ACTIONS]
        slots = context.assign_call_ids([state.slot for state in to_run])
        await self.run([CallJob(slot, state.action) for slot, state in zip(slots, to_run, strict=True)])

    async def _ended_result(self, state: SlotState) -> SetResult | None:
        """The result of a call that does not run (any more); None if the ledger has just received another answer."""
        context, slot, record = self._context, state.slot, state.record
        ended = None if record is None else record.result
        if ended is None and slot.call is not None:
            ended = context.early_results.get(slot.call.call_id)
        if ended is not None:
            return SetResult(slot, result_for_model(state, ended))
        typed = user_result(slot)
        assert typed is not None
        if slot.call is None or state.pending is None:
            return SetResult(slot, typed)
        call_id = slot.call.call_id
        if state.state is State.APPROVED or slot.aborted is not None or slot.status is Status.ABORTED:
            return SetResult(slot, typed) if context.runtime.pending.cancel(call_id) else None
        kind = "respond" if typed.success else "reject"
        try:
            result = await context.runtime.answer(call_id, Answer(kind=kind, by=context.by, message=typed.text))
        except (NotPending, UnknownCall, StaleApproval):
            return None
        return SetResult(slot, result)

    async def run(self, jobs: Sequence[CallJob]) -> None:
        """Run calls to their end, `tools.max_concurrent` at a time, and write each result as soon as it exists.

        On cancellation, running calls are stopped and queued ones do not start: each still gets its result.
        """
        with self._context.provenance.while_running([job.slot for job in jobs if not job.denied]):
            await self._run(jobs)

    async def _run(self, jobs: Sequence[CallJob]) -> None:
        context = self._context
        # Calls that run elsewhere go last: waiting for them must not take the place of a call that can run.
        queue = deque(sorted(jobs, key=lambda job: job.action is SlotAction.AWAIT))
        # An attached asker shows one question at a time.
        limit = 1 if context.runtime.interfaces.askers else context.runtime.config.tools.max_concurrent
        running: dict[asyncio.Task[Result | None], CallJob] = {}
        stop = asyncio.ensure_future(context.stop.wait())
        deadline = None
        try:
            while queue or running:
                while queue and (context.stopped or len(running) < limit) and context.write_error is None:
                    job = queue.popleft()
                    work = self._cancel_queued(job) if context.stopped else self._run_job(job)
                    running[asyncio.create_task(work)] = job
                if not running:
                    return
                if context.stopped:
                    now = asyncio.get_running_loop().time()
                    deadline = deadline or now + _CANCEL_SECONDS
                    self._cancel_running(running, late=now > deadline)
                    await asyncio.wait(running, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.wait({*running, stop}, return_when=asyncio.FIRST_COMPLETED)
                ended = [task for task in running if task.done()]
                context.run_count += sum(not running[task].denied for task in ended)
                changes = [self._change_after(running.pop(task), task) for task in ended]
                context.write([change for change in changes if change is not None])
        finally:
            stop.cancel()

    def _cancel_running(self, running: dict[asyncio.Task[Result | None], CallJob], *, late: bool) -> None:
        """Called repeatedly, because a call does not notice a cancellation between two of its stages."""
        for task, job in running.items():
            if late:
                task.cancel()
            elif job.action is not SlotAction.AWAIT and job.slot.call is not None:
                self._context.runtime.cancel(job.slot.call.call_id)

    async def _cancel_queued(self, job: CallJob) -> Result | None:
        assert job.slot.call is not None
        call_id = job.slot.call.call_id
        if job.action is SlotAction.AWAIT:
            return None
        if job.action is not SlotAction.RUN and not self._context.runtime.pending.cancel(call_id):
            return None
        return Result(False, error=ABORTED, state=State.CANCELLED, failure=Failure.CANCELLED, call_id=call_id)

    async def _run_job(self, job: CallJob) -> Result | None:
        """The result of a call, or its intermediate state; None if there is nothing to write now."""
        context, slot = self._context, job.slot
        runtime = context.runtime
        assert slot.call is not None
        call_id = slot.call.call_id
        if job.action is SlotAction.RUN:
            result = await (context.call(slot) if job.decided is None else context.run_decided(slot, job.decided))
            state = read_slot_state(runtime, slot)
            return await self._await_elsewhere(call_id) if state.state is State.RUNNING else result
        if job.action is SlotAction.AWAIT:
            return await self._await_elsewhere(call_id)
        refusal = runtime.access.find(slot.use.name, context.caller)
        if isinstance(refusal, Result) and refusal.failure is Failure.NOT_ALLOWED:
            refusal = replace(refusal, call_id=call_id)
            return refusal if runtime.pending.end(call_id, refusal) else None
        if job.action is SlotAction.RESUME:
            return await self._resume(call_id)
        try:
            answer = Answer(kind="approve", by=context.by)
            return await runtime.answer(call_id, answer, digest=slot.call.digest)
        except (NotPending, UnknownCall):
            return None  # another interface answered first: the ledger has the result
        except CallError as error:
            return Result(False, error=str(error), state=State.PENDING, failure=Failure.STALE, call_id=call_id)

    async def _resume(self, call_id: str) -> Result | None:
        pending = self._context.runtime.pending.get(call_id)
        if pending is None or pending.state is not State.APPROVED:
            return None
        if pending.waiter is not None and process_identity.is_alive(pending.waiter):
            return await self._await_elsewhere(call_id)
        ran = await self._context.runtime.lifecycle.resume(pending)
        return ran or Result(False, state=State.APPROVED, call_id=call_id)

    async def _await_elsewhere(self, call_id: str) -> Result | None:
        """Wait for a call that another process runs."""
        context = self._context
        return await context.runtime.pending.wait_for_result(call_id, stopped=lambda: context.stopped)

    def _change_after(self, job: CallJob, task: asyncio.Task[Result | None]) -> SetStatus | SetResult | None:
        """The change to write after a job has finished."""
        context, slot = self._context, job.slot
        assert slot.call is not None
        state = read_slot_state(context.runtime, slot)
        ended = None if state.record is None else state.record.result
        if task.cancelled():
            return None if ended is None else SetResult(slot, result_for_model(state, ended))
        result = ended or task.result()
        if result is None:
            return None
        if result.state is State.PENDING:
            if job.action is SlotAction.RUN and slot.status is Status.APPROVED:
                changed = f"Call '{slot.use.id}' changed since it was shown"
                context.warn(f"{changed}, so the approval no longer counts. Review it again.")
            if result.failure is Failure.STALE:
                context.warn(f"Call '{slot.use.id}' was not run: {result.error}")
            elif state.pending is not None and state.pending.approved_by:
                approvals = approvals_so_far(state.pending)
                context.warn(f"Call '{slot.use.id}' has {approvals}: holdfast approve {slot.call.call_id}")
            return None if state.pending is None else SetStatus(slot, Status.PENDING)
        if result.state not in ENDS:
            context.deferred.add((slot.turn, slot.use))
            return None
        if job.denied and result.state is State.DENIED:
            context.early_results[slot.call.call_id] = result
            return SetStatus(slot, Status.DENIED)
        return SetResult(slot, result_for_model(state, result))

    def _mark_pending(self, state: SlotState) -> SetStatus:
        context, slot = self._context, state.slot
        if slot.status is Status.APPROVED:
            name, call_id = f"Call '{slot.use.id}'", "" if slot.call is None else slot.call.call_id
            if state.arguments_changed:
                context.warn(
                    f"{name} has arguments that were changed elsewhere, so its approval here does not count. "
                    f"Use: holdfast approve {call_id}"
                )
            elif state.maybe_forged or context.provenance.writer_active:
                context.warn(
                    f"{name} is still pending: a tool could have typed that approval. Use: holdfast approve {call_id}"
                )
            else:
                context.warn(
                    f"{name} is pending again: it changed since it was shown, or a tool could have typed the approval."
                )
        return SetStatus(slot, Status.PENDING)
