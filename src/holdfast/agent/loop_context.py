"""What the phases of the loop share: runtime, conversation, who asks, whether to stop, and how changes are written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from holdfast.agent.conversation import Conflict, Conversation, LedgerCall, SetResult, SetStatus, Slot, Status
from holdfast.agent.events import AgentEvent, OnEvent, ResultWritten, StatusWritten
from holdfast.agent.slot_state import SlotAction, SlotState, can_write_unrecorded, read_slot_state
from holdfast.agent.surface import ResultHistory, Surface, ToolCatalog
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


class ApprovalProvenance:
    def __init__(self, runtime: Runtime, conversation: Conversation) -> None:
        self._runtime = runtime
        self._conversation = conversation
        self._acting = 0
        self._shown: dict[str, str] = {}
        """What was shown of calls that wait, by call, and does not count while something acts unseen."""

    @property
    def blocked(self) -> bool:
        """Whether something runs that could write into the conversation."""
        return self._acting > 0 or self._runtime.services.writers_alive()

    @contextmanager
    def acting(self, slots: Sequence[Slot]) -> Generator[None]:
        """While these calls run. What was shown of the others is forgotten first, so that it does not count after a
        crash either."""
        if not any(can_write_unrecorded(self._runtime.registry.find(slot.use.name)) for slot in slots):
            yield
            return
        ours = {slot.call.call_id for slot in slots if slot.call is not None}
        others: list[tuple[Slot, LedgerCall]] = []
        for slot in self._conversation.slots():
            if slot.call is not None and slot.call.digest and slot.call.call_id not in ours:
                self._shown[slot.call.call_id] = slot.call.digest
                others.append((slot, LedgerCall(call_id=slot.call.call_id, digest="")))
        if others:
            self._conversation.remember_all(others)
        self._acting += 1
        try:
            yield
        finally:
            self._acting -= 1

    def show_again(self, standings: Sequence[SlotState]) -> None:
        """Nothing runs any more: what waits, and still says so, counts as shown."""
        if not self._shown or self.blocked:
            return
        again = [
            (standing.slot, LedgerCall(call_id=opened.call_id, digest=held.digest))
            for standing in standings
            if standing.action is SlotAction.WAIT_FOR_ANSWER
            and (opened := standing.slot.call) is not None
            and (held := standing.pending) is not None
            and opened.digest != held.digest
            and self._shown.get(opened.call_id) == held.digest
        ]
        if again:
            self._conversation.remember_all(again)
        self._shown.clear()

    def remember_shown(self, changes: Sequence[SetStatus | SetResult]) -> None:
        """After they were written: an approval of a placeholder is one of what was held when it was written."""
        ledger = self._runtime.pending.ledger
        shown: list[tuple[Slot, LedgerCall]] = []
        for change in changes:
            opened = change.slot.call
            if isinstance(change, SetStatus) and change.status is Status.PENDING and opened is not None:
                held = ledger.find_pending(opened.call_id)
                if held is not None and held.digest != opened.digest:
                    shown.append((change.slot, LedgerCall(call_id=opened.call_id, digest=held.digest)))
        if self.blocked:
            self._shown.update((opened.call_id, opened.digest) for _, opened in shown)
        elif shown:
            self._conversation.remember_all(shown)


T = TypeVar("T")


class LoopStopped(Exception):
    """Somebody asked the loop to stop."""


class DecidedCall(NamedTuple):
    """A call that is prepared, or the result it has ended with."""

    prepared: Prepared | Result
    decision: Decision | None
    since: int
    """How many calls had run by then."""

    @property
    def verdict(self) -> Verdict | None:
        """None: it has ended."""
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
        """`caller`, or what it returns when it is needed; else the runtime's own, for a model of this provider."""
        self.runtime = runtime
        self.conversation = conversation
        self.by = by
        self.surface: Surface | None = None
        self.narrowed: Surface | None = None
        """What a guard leaves of that."""
        self.stop = asyncio.Event()
        self.results: dict[str, Result] = {}
        """What ended before it ran, by call: the ledger knows it too, where there is one."""
        self.settled: dict[str, Result] = {}
        """What was written, by the id of the use."""
        self.runs = 0
        """How many calls have run: what was prepared before the last one may be out of date."""
        self.resting: set[tuple[int, ToolUse]] = set()
        """Slots nothing more can be done about for now."""
        self.conflict: str | None = None
        self.trouble: Exception | None = None
        """Why the conversation cannot be written."""
        self._over: set[str] = set()
        """Calls nobody asks for and nobody can run any more."""
        self.sight = ApprovalProvenance(runtime, conversation)
        self.notebook: ResultHistory | None = None
        """For whoever has to look at typed results later."""
        self.searches = ResultHistory(runtime, conversation.id, only=TOOL_SEARCH)
        """What was found where there are many tools."""
        self._given = caller
        self._provider = provider
        self._crowd: tuple[tuple[Caller, int], ToolCatalog] | None = None
        self._left: tuple[tuple[Caller, int, Surface | None, Surface | None], Caller] | None = None
        self._on_event = on_event
        self._warned: set[str] = set()

    def begin(self) -> None:
        """Somebody told the loop to go on."""
        self.stop = asyncio.Event()
        self.conflict = self.trouble = None
        self.results.clear()
        self.settled.clear()
        self.resting.clear()
        self._warned.clear()

    @property
    def _caller(self) -> Caller:
        if self._given is not None:
            return self._given if isinstance(self._given, Caller) else self._given()
        own = self.runtime.caller
        return own if own.provider else replace(own, provider=self._provider)

    @property
    def caller(self) -> Caller:
        """Who asks, with the tools this turn leaves them."""
        own = self._caller
        if self.surface is None and self.narrowed is None:
            return own
        now = (own, self.runtime.registry.revision, self.surface, self.narrowed)
        if self._left is None or self._left[0] != now:
            left = self.tools() if self.narrowed is None else self.narrowed.select(self.tools())
            names = {tool.name for tool in left}
            if len(names) > self.runtime.config.tools.search_threshold and self.runtime.access.usable(TOOL_SEARCH, own):
                names.add(TOOL_SEARCH)
            self._left = (now, replace(own, only=frozenset(names)))
        return self._left[1]

    def crowd(self) -> ToolCatalog:
        """What this turn leaves to the model, the same object until something changes."""
        caller = self.caller
        now = (caller, self.runtime.registry.revision)
        if self._crowd is None or self._crowd[0] != now:
            self._crowd = (
                now,
                ToolCatalog(self.runtime.visible(caller), self.runtime.access.usable(TOOL_SEARCH, caller)),
            )
        return self._crowd[1]

    def tools(self) -> Sequence[Tool]:
        """What whoever drives the loop leaves to the model; a guard may leave less."""
        visible = self.runtime.visible(self._caller)
        return visible if self.surface is None else self.surface.select(visible)

    @property
    def stopped(self) -> bool:
        return self.stop.is_set()

    def tell(self, event: AgentEvent) -> None:
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:  # who only watches must not come between a call and its result
            self.runtime.events.internal_error(error)

    def warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            self.tell(WarningRaised("", message))

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it; raises `Stopped` as soon as somebody says stop."""
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
        """What has no result yet. A held call the conversation does not ask for any more is withdrawn.

        One that ran stays remembered: if it is asked for again, unchanged, it must not run again.
        """
        slots = self.conversation.slots()
        wanted = {slot.call.call_id for slot in slots if slot.call is not None}
        stale = {opened.call_id for opened in self.conversation.remembered()} - wanted - self._over
        withdrawn = {call_id for call_id in stale if self.runtime.pending.cancel(call_id)}
        if withdrawn:
            self.conversation.forget(withdrawn)
        self._over = (self._over | stale) - wanted
        return slots

    def withdraw(self, standing: SlotState) -> None:
        """Take a held call back, and say that it may run: first there, so that a crash leaves one that waits."""
        slot, held = standing.slot, standing.pending
        if slot.call is None or held is None:
            return
        self.conversation.remember(slot, LedgerCall(call_id=held.call.id, digest=""))
        self.write([SetStatus(slot, Status.APPROVED)])
        written = self.conflict is None and self.trouble is None
        if written and self.runtime.pending.withdraw(held.call.id, held.digest):
            self.conversation.forget([held.call.id])

    def forget_all(self) -> None:
        """A new reply has been written: nothing before it can be asked for again."""
        if past := [opened.call_id for opened in self.conversation.remembered()]:
            self.conversation.forget(past)
        self._over.clear()

    def standings(self, only: str | None = None) -> list[SlotState]:
        """The slots, one of each id, as the ledger knows them."""
        first: dict[str, Slot] = {}
        for slot in self.slots():
            if only in (None, slot.use.id):
                first.setdefault(slot.use.id, slot)
        return [read_slot_state(self.runtime, slot) for slot in first.values()]

    def open_all(self, slots: Sequence[Slot]) -> list[Slot]:
        """The slots, each with the id its call will have: after a crash the ledger is asked what became of it."""
        opened = [slot if slot.call else replace(slot, call=self._new()) for slot in slots]
        fresh = [(slot, now.call) for slot, now in zip(slots, opened, strict=True) if now.call and not slot.call]
        if fresh:
            self.conversation.remember_all(fresh)
        return opened

    async def judge(self, slot: Slot) -> Decision:
        return await self.runtime.judge(slot.use.name, _arguments(slot), caller=self.caller, given_id=slot.use.id)

    async def prepare(self, slot: Slot) -> DecidedCall:
        """Take a slot's call through every stage up to the decision, under the id it was opened with."""
        assert slot.call is not None
        runtime, since = self.runtime, self.runs
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
            return DecidedCall(await self.call(slot), None, since)  # it is refused in the usual words
        prepared = await runtime.pipeline.prepare(request)
        decision = None if isinstance(prepared, Result) else await runtime.pipeline.decide(prepared)
        return DecidedCall(prepared, decision, since)

    async def go_on(self, slot: Slot, ready: DecidedCall) -> Result:
        """What becomes of a prepared call. Where another call has run since, it is prepared again: it may do something
        else by now."""
        prepared, decision = ready.prepared, ready.decision
        if isinstance(prepared, Result) or decision is None:
            assert isinstance(prepared, Result)
            return prepared
        if ready.since != self.runs:
            return await self.call(slot)
        work = self.runtime.lifecycle.run_prepared(prepared, decision)
        telemetry = self.runtime.telemetry
        return await (work if telemetry is None else telemetry.span(slot.use.name, slot.use.id, work))

    async def call(self, slot: Slot) -> Result:
        """Ask for a slot's call on the one path there is, under the id it was opened with."""
        assert slot.call is not None
        return await self.runtime.call(
            slot.use.name,
            _arguments(slot),
            caller=self.caller,
            request=f"{self.conversation.id}:{slot.turn}",
            given_id=slot.use.id,
            call_id=slot.call.call_id,
        )

    def _new(self) -> LedgerCall:
        return LedgerCall(call_id=self.runtime.pipeline.new_call_id(), digest="")

    def write(self, changes: Sequence[SetStatus | SetResult]) -> None:
        """Write what goes together with what others wrote meanwhile; the rest is in the ledger, and taken up again."""
        if self.trouble is not None or not changes:
            return
        try:
            self.conversation.change(changes)
            self.sight.remember_shown(changes)
        except Conflict as conflict:
            if len(changes) == 1:
                self.conflict = str(conflict)
                return
            for change in changes:
                self.write([change])
        except (OSError, HoldfastError) as error:
            self.trouble = error
        else:
            self._announce(changes)

    def _announce(self, changes: Sequence[SetStatus | SetResult]) -> None:
        for change in changes:
            slot = change.slot
            if isinstance(change, SetResult):
                self.settled[slot.use.id] = change.result
                self.searches.note(slot.turn, slot.use, change.result)
                if self.notebook is not None:
                    self.notebook.note(slot.turn, slot.use, change.result)
                self.tell(ResultWritten(slot.use, change.result))
            else:
                waits = change.status is Status.PENDING and slot.call is not None
                self.tell(StatusWritten(slot.use, change.status, slot.call.call_id if waits and slot.call else None))


def _arguments(slot: Slot) -> str:
    """A model that has nothing to say about a call sometimes says nothing."""
    return slot.use.arguments.strip() or "{}"
