"""Phases 1 and 2: say what is to become of each call, run what may run, write what has ended."""

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
from holdfast.runtime.results import ABORTED
from holdfast.store import process_identity

RUNNING_STEPS: Final = frozenset({SlotAction.RUN, SlotAction.APPROVE, SlotAction.RESUME, SlotAction.AWAIT})
_PATIENCE: Final = 10.0
"""Seconds a call has to end after it was asked to; what runs it needs far less."""


class Job(Struct, frozen=True):
    """A call to bring to its end."""

    slot: Slot
    step: SlotAction
    denied: bool = False
    """It is known that it will not run."""
    ready: DecidedCall | None = None
    """Prepared already."""


async def execute(bench: LoopContext, standings: Sequence[SlotState]) -> None:
    bench.tell(PhaseStarted("execute"))
    settled = [await _settle(bench, standing) for standing in standings if standing.action is SlotAction.WRITE_RESULT]
    bench.write([change for change in settled if change is not None])
    runs = [standing for standing in standings if standing.action in RUNNING_STEPS]
    slots = bench.open_all([standing.slot for standing in runs])
    await carry_out(bench, [Job(slot, standing.action) for slot, standing in zip(slots, runs, strict=True)])


async def _settle(bench: LoopContext, standing: SlotState) -> SetResult | None:
    """A call that needs nothing to run any more; None if the ledger has just heard something else about it."""
    slot, record = standing.slot, standing.record
    ended = None if record is None else record.result
    if ended is None and slot.call is not None:
        ended = bench.results.get(slot.call.call_id)
    if ended is not None:
        return SetResult(slot, result_for_model(standing, ended))
    said = user_result(slot)
    assert said is not None
    if slot.call is None or standing.pending is None:
        return SetResult(slot, said)
    call_id = slot.call.call_id
    if standing.state is State.APPROVED or slot.aborted is not None or slot.status is Status.ABORTED:
        return SetResult(slot, said) if bench.runtime.pending.cancel(call_id) else None
    kind = "respond" if said.success else "reject"
    try:
        result = await bench.runtime.answer(call_id, Answer(kind=kind, by=bench.by, message=said.text))
    except (NotPending, UnknownCall, StaleApproval):
        return None
    return SetResult(slot, result)


async def carry_out(bench: LoopContext, jobs: Sequence[Job]) -> None:
    """Bring every call to its end, `tools.max_concurrent` at a time; each result is written when it is there.

    When somebody says stop, what runs is stopped and what has not begun does not begin: all of them get their result.
    """
    with bench.sight.acting([job.slot for job in jobs if not job.denied]):
        await _carry_out(bench, jobs)


async def _carry_out(bench: LoopContext, jobs: Sequence[Job]) -> None:
    waiting = deque(sorted(jobs, key=lambda job: job.step is SlotAction.AWAIT))
    limit = 1 if bench.runtime.interfaces.askers else bench.runtime.config.tools.max_concurrent
    running: dict[asyncio.Task[Result | None], Job] = {}
    stop = asyncio.ensure_future(bench.stop.wait())
    deadline = None
    try:
        while waiting or running:
            while waiting and (bench.stopped or len(running) < limit) and bench.trouble is None:
                job = waiting.popleft()
                running[asyncio.create_task(_not_begun(bench, job) if bench.stopped else _bring(bench, job))] = job
            if not running:
                return
            if bench.stopped:
                deadline = deadline or asyncio.get_running_loop().time() + _PATIENCE
                _stop(bench, running, late=asyncio.get_running_loop().time() > deadline)
                await asyncio.wait(running, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.wait({*running, stop}, return_when=asyncio.FIRST_COMPLETED)
            ended = [task for task in running if task.done()]
            bench.runs += sum(not running[task].denied for task in ended)
            changes = [_change(bench, running.pop(task), task) for task in ended]
            bench.write([change for change in changes if change is not None])
    finally:
        stop.cancel()


def _stop(bench: LoopContext, running: dict[asyncio.Task[Result | None], Job], *, late: bool) -> None:
    """Ask again and again: a call cannot hear it between two of its steps."""
    for task, job in running.items():
        if late:
            task.cancel()
        elif job.step is not SlotAction.AWAIT and job.slot.call is not None:
            bench.runtime.cancel(job.slot.call.call_id)


async def _not_begun(bench: LoopContext, job: Job) -> Result | None:
    assert job.slot.call is not None
    call_id = job.slot.call.call_id
    if job.step is SlotAction.AWAIT or (job.step is not SlotAction.RUN and not bench.runtime.pending.cancel(call_id)):
        return None
    return Result(False, error=ABORTED, state=State.CANCELLED, failure=Failure.CANCELLED, call_id=call_id)


async def _bring(bench: LoopContext, job: Job) -> Result | None:
    """The result of a call, or a stop on its way; None if there is nothing to write now."""
    runtime, slot = bench.runtime, job.slot
    assert slot.call is not None
    call_id = slot.call.call_id
    if job.step is SlotAction.RUN:
        result = await (bench.call(slot) if job.ready is None else bench.go_on(slot, job.ready))
        known = read_slot_state(runtime, slot)
        return await _elsewhere(bench, call_id) if known.state is State.RUNNING else result
    if job.step is SlotAction.AWAIT:
        return await _elsewhere(bench, call_id)
    refusal = runtime.access.find(slot.use.name, bench.caller)
    if isinstance(refusal, Result) and refusal.failure is Failure.NOT_ALLOWED:
        refusal = replace(refusal, call_id=call_id)
        return refusal if runtime.pending.end(call_id, refusal) else None
    if job.step is SlotAction.RESUME:
        return await _resume(bench, call_id)
    try:
        answer = Answer(kind="approve", by=bench.by)
        return await runtime.answer(call_id, answer, digest=slot.call.digest)
    except (NotPending, UnknownCall):
        return None  # somebody else was faster: the ledger says what became of it
    except CallError as error:
        return Result(False, error=str(error), state=State.PENDING, failure=Failure.STALE, call_id=call_id)


async def _resume(bench: LoopContext, call_id: str) -> Result | None:
    held = bench.runtime.pending.get(call_id)
    if held is None or held.state is not State.APPROVED:
        return None
    if held.waiter is not None and process_identity.is_alive(held.waiter):
        return await _elsewhere(bench, call_id)
    ran = await bench.runtime.lifecycle.resume(held)
    return ran or Result(False, state=State.APPROVED, call_id=call_id)


async def _elsewhere(bench: LoopContext, call_id: str) -> Result | None:
    """Another process runs it: its result is the call's one result."""
    return await bench.runtime.pending.wait_for_result(call_id, stopped=lambda: bench.stopped)


def _change(bench: LoopContext, job: Job, task: asyncio.Task[Result | None]) -> SetStatus | SetResult | None:
    """What a call's end means for the conversation."""
    slot = job.slot
    assert slot.call is not None
    known = read_slot_state(bench.runtime, slot)
    ended = None if known.record is None else known.record.result
    if task.cancelled():
        return None if ended is None else SetResult(slot, result_for_model(known, ended))
    result = ended or task.result()
    if result is None:
        return None
    if result.state is State.PENDING:
        if job.step is SlotAction.RUN and slot.status is Status.APPROVED:
            bench.warn(f"Call '{slot.use.id}' waits: nobody was asked about it as it stands now, nor approved it.")
        if result.failure is Failure.STALE:
            bench.warn(f"Call '{slot.use.id}' was not run: {result.error}")
        return None if known.pending is None else SetStatus(slot, Status.PENDING)
    if result.state not in ENDS:
        bench.resting.add((slot.turn, slot.use))
        return None
    if job.denied and result.state is State.DENIED:
        bench.results[slot.call.call_id] = result
        return SetStatus(slot, Status.DENIED)
    return SetResult(slot, result_for_model(known, result))


async def categorise(bench: LoopContext, standings: Sequence[SlotState], *, at_once: bool) -> None:
    """Each call is prepared once. Without `at_once` nothing runs here but what ends before anybody could be asked: an
    unknown tool, arguments that do not fit; what may run is marked, and prepared again when it does."""
    bench.tell(PhaseStarted("categorise"))
    placed: list[SetStatus] = []
    fresh = [
        each.slot for each in standings if each.slot.aborted is None and each.action is not SlotAction.MARK_PENDING
    ]
    opened = dict(zip(fresh, bench.open_all(fresh), strict=True))
    ended: list[Job] = []
    approved: list[Job] = []
    for standing in standings:
        slot = standing.slot
        if slot.aborted is not None:
            placed.append(SetStatus(slot, Status.ABORTED))
        elif standing.action is SlotAction.MARK_PENDING:
            placed.append(_shown_again(bench, standing))
        else:
            slot = opened[slot]
            ready = await bench.unless_stopped(bench.prepare(slot))
            if ready.verdict is not Verdict.APPROVE:
                ended.append(Job(slot, SlotAction.RUN, denied=ready.verdict is Verdict.DENY, ready=ready))
            elif slot.status is Status.PENDING:
                bench.resting.add((slot.turn, slot.use))  # a person wrote it, so a person takes it away
            elif at_once:
                approved.append(Job(slot, SlotAction.RUN, ready=ready))
            else:
                placed.append(SetStatus(slot, Status.APPROVED))
    bench.write(placed)
    await carry_out(bench, ended)
    if approved and not bench.stopped:
        for job in approved:
            bench.tell(StatusWritten(job.slot.use, Status.APPROVED, None))
        bench.tell(PhaseStarted("execute"))
        await carry_out(bench, approved)


def _shown_again(bench: LoopContext, standing: SlotState) -> SetStatus:
    slot = standing.slot
    if slot.status is Status.APPROVED:
        what, call = f"Call '{slot.use.id}'", "" if slot.call is None else slot.call.call_id
        if standing.arguments_changed:
            bench.warn(f"{what} was changed elsewhere, so its approval here does not count: holdfast approve {call}")
        elif standing.maybe_forged or bench.sight.blocked:
            bench.warn(f"{what} is still pending: a tool could have typed that approval. Use: holdfast approve {call}")
        else:
            bench.warn(f"{what} waits again: it is not what was shown, or something ran that could have typed that.")
    return SetStatus(slot, Status.PENDING)
