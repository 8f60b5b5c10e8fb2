"""The state that the phases of the loop share: runtime, conversation, caller, cancellation, events and writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.agent.approval_provenance import ApprovalProvenance
from holdfast.agent.conversation import Conflict, Conversation, LedgerCall, SetResult, SetStatus, Slot, Status
from holdfast.agent.events import AgentEvent, OnEvent, ResultWritten, StatusWritten
from holdfast.agent.result_history import ResultHistory
from holdfast.agent.slot_state import SlotState, read_slot_state
from holdfast.agent.surface import Surface, ToolCatalog
from holdfast.contract.call import Caller, Decision
from holdfast.contract.enums import Verdict
from holdfast.contract.errors import CallError, HoldfastError
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Result
from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import TOOL_SEARCH
from holdfast.runtime.pipeline import CallRequest, Prepared
from holdfast.runtime.runtime import Runtime

T = TypeVar("T")


class LoopStopped(Exception):
    """The loop was cancelled."""


class DecidedCall(NamedTuple):
    """A prepared call with its decision, or the result that ended it early."""

    prepared: Prepared | Result
    decision: Decision | None
    run_count: int
    """How many calls had run before it was prepared."""

    @property
    def verdict(self) -> Verdict | None:
        """None if the call has ended."""
        return None if self.decision is None else self.decision.verdict


class LoopContext:
    def __init__(
        self,
        runtime: Runtime,
        conversation: Conversation,
        caller: Caller | Callable[[], Caller] | None,
        provider: str,
        by: str,
        on_event: OnEvent | None,
    ) -> None:
        """Without `caller`, calls use the runtime's caller with this provider."""
        self.runtime = runtime
        self.conversation = conversation
        self.by = by
        self.surface: Surface | None = None
        self.guard_surface: Surface | None = None
        """The guard's restriction of `surface`."""
        self.stop = asyncio.Event()
        self.early_results: dict[str, Result] = {}
        """Results of calls that ended before they ran, by call id, in case there is no ledger."""
        self.written_results: dict[str, Result] = {}
        """Results written to the conversation, by tool use id."""
        self.run_count = 0
        """Number of calls that have run: a call prepared before the last one may be outdated."""
        self.deferred: set[tuple[int, ToolUse]] = set()
        """Slots that the loop cannot advance for now."""
        self.conflict: str | None = None
        self.write_error: Exception | None = None
        """Why the conversation cannot be written."""
        self.provenance = ApprovalProvenance(runtime, conversation)
        self.guard_results: ResultHistory | None = None
        """Typed results for a guard."""
        self.search_results = ResultHistory(runtime, conversation.id, only=TOOL_SEARCH)
        self._abandoned: set[str] = set()
        """Remembered calls that are no longer in the conversation and can no longer run."""
        self._caller_option = caller
        self._provider = provider
        self._catalog: tuple[tuple[Caller, int], ToolCatalog] | None = None
        self._narrowed_caller: tuple[tuple[Caller, int, Surface | None, Surface | None], Caller] | None = None
        self._on_event = on_event
        self._warned: set[str] = set()

    def reset(self) -> None:
        """Prepare for another run of the loop."""
        self.stop = asyncio.Event()
        self.conflict = self.write_error = None
        self.early_results.clear()
        self.written_results.clear()
        self.deferred.clear()
        self._warned.clear()

    @property
    def _base_caller(self) -> Caller:
        if self._caller_option is not None:
            return self._caller_option if isinstance(self._caller_option, Caller) else self._caller_option()
        own = self.runtime.caller
        return own if own.provider else replace(own, provider=self._provider)

    @property
    def caller(self) -> Caller:
        """The caller, restricted to the tools of this turn's surfaces."""
        base = self._base_caller
        if self.surface is None and self.guard_surface is None:
            return base
        now = (base, self.runtime.registry.revision, self.surface, self.guard_surface)
        if self._narrowed_caller is None or self._narrowed_caller[0] != now:
            left = self.tools() if self.guard_surface is None else self.guard_surface.select(self.tools())
            names = {tool.name for tool in left}
            searches = len(names) > self.runtime.config.tools.search_threshold
            if searches and self.runtime.access.usable(TOOL_SEARCH, base):
                names.add(TOOL_SEARCH)
            self._narrowed_caller = (now, replace(base, only=frozenset(names)))
        return self._narrowed_caller[1]

    def catalog(self) -> ToolCatalog:
        """The caller's tools, cached until the caller or the registry changes."""
        caller = self.caller
        now = (caller, self.runtime.registry.revision)
        if self._catalog is None or self._catalog[0] != now:
            search = self.runtime.access.usable(TOOL_SEARCH, caller)
            self._catalog = (now, ToolCatalog(self.runtime.visible(caller), search))
        return self._catalog[1]

    def tools(self) -> Sequence[Tool]:
        """The caller's tools within `surface`; a guard may narrow them further."""
        visible = self.runtime.visible(self._base_caller)
        return visible if self.surface is None else self.surface.select(visible)

    @property
    def stopped(self) -> bool:
        return self.stop.is_set()

    def emit(self, event: AgentEvent) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:  # a failing event handler must not cost a call its result
            self.runtime.events.internal_error(error)

    def warn(self, message: str) -> None:
        """Emit a warning once per run."""
        if message not in self._warned:
            self._warned.add(message)
            self.emit(WarningRaised("", message))

    async def run_unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`; cancel it and raise `LoopStopped` when the loop is cancelled."""
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise LoopStopped
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def slots(self) -> Sequence[Slot]:
        """The calls without a result. Withdraws pending calls that are no longer in the conversation.

        A call that ran stays remembered: if it reappears unchanged, it must not run again.
        """
        slots = self.conversation.slots()
        wanted = {slot.call.call_id for slot in slots if slot.call is not None}
        stale = {call.call_id for call in self.conversation.remembered()} - wanted - self._abandoned
        withdrawn = {call_id for call_id in stale if self.runtime.pending.cancel(call_id)}
        if withdrawn:
            self.conversation.forget(withdrawn)
        self._abandoned = (self._abandoned | stale) - wanted
        return slots

    def withdraw(self, state: SlotState) -> None:
        """Withdraw a pending call and mark it approved, so that it runs like any other."""
        slot, pending = state.slot, state.pending
        if slot.call is None or pending is None:
            return
        # The conversation first: a crash in between leaves a call that is still pending, not one that is lost.
        self.conversation.remember(slot, LedgerCall(call_id=pending.call.id, digest=""))
        self.write([SetStatus(slot, Status.APPROVED)])
        written = self.conflict is None and self.write_error is None
        if written and self.runtime.pending.withdraw(pending.call.id, pending.digest):
            self.conversation.forget([pending.call.id])

    def forget_calls(self) -> None:
        """Forget all remembered calls, after a new reply was written."""
        if past := [call.call_id for call in self.conversation.remembered()]:
            self.conversation.forget(past)
        self._abandoned.clear()

    def slot_states(self, only: str | None = None) -> list[SlotState]:
        """The state of each slot, the first of each id."""
        first: dict[str, Slot] = {}
        for slot in self.slots():
            if only in (None, slot.use.id):
                first.setdefault(slot.use.id, slot)
        return [read_slot_state(self.runtime, slot) for slot in first.values()]

    def assign_call_ids(self, slots: Sequence[Slot]) -> list[Slot]:
        """The slots with call ids, stored before the calls start: after a crash the ledger is asked by these ids."""
        assigned = [slot if slot.call else replace(slot, call=self._new_call()) for slot in slots]
        fresh = [(slot, now.call) for slot, now in zip(slots, assigned, strict=True) if now.call and not slot.call]
        if fresh:
            self.conversation.remember_all(fresh)
        return assigned

    async def judge(self, slot: Slot) -> Decision:
        return await self.runtime.judge(slot.use.name, _arguments(slot), caller=self.caller, given_id=slot.use.id)

    async def prepare(self, slot: Slot) -> DecidedCall:
        """Take the call of a slot through the pipeline up to the decision, under its assigned id."""
        assert slot.call is not None
        runtime, run_count = self.runtime, self.run_count
        try:
            request = CallRequest.checked(
                slot.use.name,
                _arguments(slot),
                caller=self.caller,
                cwd=runtime.workspace.cwd,
                request=f"{self.conversation.id}:{slot.turn}",
                given_id=slot.use.id,
                call_id=slot.call.call_id,
            )
        except CallError:
            return DecidedCall(await self.call(slot), None, run_count)  # `call` refuses it with the usual message
        prepared = await runtime.pipeline.prepare(request)
        decision = None if isinstance(prepared, Result) else await runtime.pipeline.decide(prepared)
        return DecidedCall(prepared, decision, run_count)

    async def run_decided(self, slot: Slot, decided: DecidedCall) -> Result:
        """Run a prepared call. If another call has run since, prepare it again: its effect may have changed."""
        prepared, decision = decided.prepared, decided.decision
        if isinstance(prepared, Result) or decision is None:
            assert isinstance(prepared, Result)
            return prepared
        if decided.run_count != self.run_count:
            return await self.call(slot)
        work = self.runtime.lifecycle.run_prepared(prepared, decision)
        telemetry = self.runtime.telemetry
        return await (work if telemetry is None else telemetry.span(slot.use.name, slot.use.id, work))

    async def call(self, slot: Slot) -> Result:
        """Take the call of a slot through the whole pipeline, under its assigned id."""
        assert slot.call is not None
        return await self.runtime.call(
            slot.use.name,
            _arguments(slot),
            caller=self.caller,
            request=f"{self.conversation.id}:{slot.turn}",
            given_id=slot.use.id,
            call_id=slot.call.call_id,
        )

    def _new_call(self) -> LedgerCall:
        return LedgerCall(call_id=self.runtime.pipeline.new_call_id(), digest="")

    def write(self, changes: Sequence[SetStatus | SetResult]) -> None:
        """Write changes, one by one if they conflict. Unwritten results stay in the ledger for the next turn."""
        if self.write_error is not None or not changes:
            return
        try:
            self.conversation.change(changes)
            self.provenance.record_shown(changes)
        except Conflict as conflict:
            if len(changes) == 1:
                self.conflict = str(conflict)
                return
            for change in changes:
                self.write([change])
        except (OSError, HoldfastError) as error:
            self.write_error = error
        else:
            self._announce(changes)

    def _announce(self, changes: Sequence[SetStatus | SetResult]) -> None:
        for change in changes:
            slot = change.slot
            if isinstance(change, SetResult):
                self.written_results[slot.use.id] = change.result
                self.search_results.note(slot.turn, slot.use, change.result)
                if self.guard_results is not None:
                    self.guard_results.note(slot.turn, slot.use, change.result)
                self.emit(ResultWritten(slot.use, change.result))
            else:
                waits = change.status is Status.PENDING and slot.call is not None
                self.emit(StatusWritten(slot.use, change.status, slot.call.call_id if waits and slot.call else None))


def _arguments(slot: Slot) -> str:
    """The arguments as JSON: models may send nothing for a tool without parameters."""
    return slot.use.arguments.strip() or "{}"
