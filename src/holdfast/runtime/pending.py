"""Pending calls: stored in the ledger, shown to interfaces, answered and expired.

Nothing runs here. `CallLifecycle` takes an approved call through the pipeline again, and runs it only if its digest is
still the one that was approved. The ledger is shared between processes, so any of them can answer; a process that waits
polls it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.config.config import PENDING_TTL, Config
from holdfast.contract.call import Answer, PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import CallError, HoldfastError, NotPending, UnknownCall
from holdfast.contract.event import Approved, Pending
from holdfast.contract.result import Result
from holdfast.rules.decider import CANCELLED as CANCELLED_BY_USER
from holdfast.rules.decider import CONFIRMATION
from holdfast.runtime import input_checks
from holdfast.runtime.events import Events
from holdfast.runtime.interfaces import AttachedInterface, Interfaces
from holdfast.runtime.results import cancelled, expired, how_to_answer, message_of
from holdfast.store import process_identity

if TYPE_CHECKING:
    from holdfast.store.ledger import Ledger
    from holdfast.store.redact import Redactor

POLL_SECONDS: Final = 0.05
REJECTED_BY_USER: Final = "This tool has been rejected by the user."

TakeAnswer = Callable[[str, Answer, str], Awaitable[object]]
"""Accepts an answer (call id, answer, digest that was shown)."""


class PendingCalls:
    """The pending calls of a ledger. A runtime without a ledger keeps them in memory."""

    def __init__(
        self,
        ledger: Ledger | None,
        redactor: Redactor,
        events: Events,
        interfaces: Interfaces,
        expiry: PendingExpiry,
    ) -> None:
        self._ledger = ledger
        self._redactor = redactor
        self._events = events
        self._interfaces = interfaces
        self._expiry = expiry
        self._wakeups: dict[str, asyncio.Event] = {}
        interfaces.on_change(self._wake_all)

    @property
    def ledger(self) -> Ledger:
        """The runtime's ledger, or one in memory, created for the first pending call."""
        if self._ledger is None:
            from holdfast.store.ledger import Ledger

            self._ledger = Ledger.in_memory(redact=self._redactor)
        return self._ledger

    @property
    def shared(self) -> bool:
        """Whether other processes, such as the `holdfast` command, see these calls."""
        return self._ledger is not None and not self._ledger.volatile

    def unknown_call(self, call_id: str) -> UnknownCall:
        listed = "`holdfast pending`" if self.shared else "`runtime.pending.list()`"
        return UnknownCall(f"No call '{call_id}' is pending; {listed} lists the pending calls.")

    def list(self) -> list[PendingCall]:
        """Calls that are pending, or approved and not yet run; oldest first."""
        if self._ledger is None:
            return []
        self.expire()
        return self._ledger.pending()

    def get(self, call_id: str) -> PendingCall | None:
        """A call that is pending, approved, or running after an approval; None for any other."""
        if self._ledger is None:
            return None
        return self._expiry.current(self._ledger, self._ledger.find_pending(call_id))

    def unstarted(self, call_id: str) -> PendingCall | None:
        """A call that is pending, or approved and not yet run."""
        found = self.get(call_id)
        return found if found is not None and found.state in (State.PENDING, State.APPROVED) else None

    def result(self, call_id: str) -> Result | None:
        """The result of a call that has ended, from the ledger; None if it has not."""
        return None if self._ledger is None else self._ledger.result(input_checks.check_call_id(call_id))

    def expires_at(self, pending: PendingCall) -> float | None:
        """The Unix time at which the call expires in its present state; None if it does not."""
        return self._expiry.expires_at(self.ledger, pending)

    def expire(self) -> list[str]:
        """Expire calls that were pending or approved for too long; returns their ids."""
        return [] if self._ledger is None else self._expiry.expire(self._ledger)

    async def store(self, pending: PendingCall) -> None:
        """Store a new pending call, which survives a restart, and announce it."""
        await self.ledger.add_pending(pending)
        self.announce(pending)

    async def store_changed(self, pending: PendingCall, why: str) -> None:
        """Store a changed call, which needs a new answer."""
        await self.ledger.replace_pending(pending, why)

    async def release(self, pending: PendingCall) -> bool:
        """Stop waiting for the call in this process; False if it was answered meanwhile."""
        if pending.waiter is None:
            now = self.get(pending.call.id)
            return now is not None and now.state is State.PENDING
        try:
            await self.ledger.replace_pending(replace(pending, waiter=None), "nobody answered here", only_pending=True)
        except (NotPending, UnknownCall):
            return False
        return True

    def announce(self, pending: PendingCall) -> None:
        if not self._events.idle:
            self._events.emit(Pending(pending.call.id, pending.call, pending.preview, pending.digest))

    def answer(
        self,
        call_id: str,
        answer: Answer,
        digest: str | None = None,
        *,
        result: Result | None = None,
        becomes: PendingCall | None = None,
    ) -> PendingCall:
        """Accept an answer; returns the call after it.

        `digest` is what the person was shown; by default, what is pending now. `result` is the whole result of a
        "respond" answer, whose message is only text. `becomes` is the call with the widening of the approval.
        """
        ledger = self.ledger
        found = self.get(call_id)
        if found is None:
            raise self.unknown_call(call_id)
        if answer.kind == "approve" and found.definition_only:
            how = how_to_answer(found, shared=self.shared)
            raise CallError(f"Call {call_id} waits for its result, not for an approval: {how}")
        if answer.kind == "reject" and not answer.message:
            refused = found.decision.source == CONFIRMATION
            answer = replace(answer, message=CANCELLED_BY_USER if refused else REJECTED_BY_USER)
        shown = found.digest if digest is None else digest
        answered = ledger.answer(call_id, answer, digest=shown, result=result, becomes=becomes)
        if answered.state is State.APPROVED and not self._events.idle:
            self._events.emit(Approved(call_id, answer.by))
        self._wake(call_id)
        return answered

    def cancel(self, call_id: str) -> bool:
        """Cancel a pending or approved call, even if its record cannot be read."""
        return self.end(call_id, cancelled(call_id))

    def withdraw(self, call_id: str, digest: str) -> bool:
        """Cancel a call if it is still pending with this digest; False if it is not."""
        found = self.unstarted(call_id)
        return found is not None and found.state is State.PENDING and found.digest == digest and self.cancel(call_id)

    def end(self, call_id: str, result: Result) -> bool:
        """End a pending or approved call with this result; False if it runs or has ended."""
        if self._ledger is None:
            return False
        ended = self._ledger.end_now(call_id, result, unless_running=True)
        self._wake(call_id)
        return ended

    async def wait(self, pending: PendingCall, take: TakeAnswer) -> PendingCall | Result | None:
        """Ask all attached interfaces, and watch the ledger for answers of other processes.

        Returns the approved call, the result it ended with, or None if no interface had an answer.
        """
        call_id = pending.call.id
        woken = self._wakeups.setdefault(call_id, asyncio.Event())
        asking: dict[AttachedInterface, asyncio.Task[None]] = {}
        outcome: PendingCall | Result | None = None
        try:
            while outcome is None:
                woken.clear()
                self._ask_new_interfaces(asking, pending, take, woken)
                now = self.get(call_id)
                if now is None:
                    outcome = self.ledger.result(call_id) or cancelled(call_id)
                elif now.state is State.APPROVED:
                    outcome = now
                elif asking and all(task.done() for task in asking.values()) and self._interfaces.nobody != "wait":
                    return None
                else:
                    with contextlib.suppress(TimeoutError):  # not `wait_for`, which may swallow a cancellation
                        async with asyncio.timeout(POLL_SECONDS):
                            await woken.wait()
        finally:
            late = [interface for interface, task in asking.items() if not task.done()]
            for interface in late:
                asking[interface].cancel()
            if outcome is not None:
                self._notify(late, pending, outcome)
            self._wakeups.pop(call_id, None)
        return outcome

    async def wait_for_result(
        self, call_id: str, *, seconds: float | None = None, stopped: Callable[[], bool] | None = None
    ) -> Result | None:
        """Wait for the result of a call that another process runs or will run.

        Returns None if no process does, after `seconds`, or when `stopped` returns True. If the process dies,
        `Ledger.recover` gives the call a result.
        """
        ledger = self.ledger
        end = None if seconds is None else time.monotonic() + seconds
        while (result := ledger.result(call_id)) is None:
            over = (stopped is not None and stopped()) or (end is not None and time.monotonic() >= end)
            if over or not self.is_active(call_id):
                return ledger.result(call_id)  # read again: it may have ended since the loop condition
            ledger.recover()
            await asyncio.sleep(POLL_SECONDS)
        return result

    def is_active(self, call_id: str) -> bool:
        """Whether a process runs the call, or waits to run it."""
        found = self.get(call_id)
        if found is None:
            return self._runs(call_id)
        if found.state is State.APPROVED:
            return found.waiter is not None and process_identity.is_alive(found.waiter)
        return found.state is State.RUNNING

    def _runs(self, call_id: str) -> bool:
        """Whether a call that was never pending runs."""
        try:
            return self.ledger.call(call_id).state is State.RUNNING
        except HoldfastError:
            return False

    def _ask_new_interfaces(
        self,
        asking: dict[AttachedInterface, asyncio.Task[None]],
        pending: PendingCall,
        take: TakeAnswer,
        woken: asyncio.Event,
    ) -> None:
        """Ask interfaces that were attached since the last time, and stop asking those that were detached."""
        attached = self._interfaces.askers
        for interface in attached:
            if interface not in asking:
                task = asking[interface] = asyncio.create_task(self._ask(interface, pending, take))
                task.add_done_callback(lambda _: woken.set())
        for interface, task in asking.items():
            if interface not in attached:
                task.cancel()

    async def _ask(self, interface: AttachedInterface, pending: PendingCall, take: TakeAnswer) -> None:
        try:
            answer = await interface.ask(pending)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self._events.warn(f"The asker of an interface failed: {message_of(error, type(error).__name__)}")
            return
        if answer is None:
            return
        try:
            await take(pending.call.id, answer, pending.digest)
        except (NotPending, UnknownCall):
            return  # another answer was faster
        except HoldfastError as error:
            self._events.warn(f"The answer to call {pending.call.id} was not accepted: {error}")

    def _notify(self, late: list[AttachedInterface], pending: PendingCall, outcome: PendingCall | Result) -> None:
        for interface in late:
            if interface.on_answered is None:
                continue
            try:
                interface.on_answered(pending, outcome)
            except Exception as error:
                self._events.internal_error(error)

    def _wake(self, call_id: str) -> None:
        if call_id in self._wakeups:
            self._wakeups[call_id].set()

    def _wake_all(self) -> None:
        for woken in self._wakeups.values():
            woken.set()


class PendingExpiry:
    """When pending calls and unused approvals expire. Tests pass their own clock."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self._answer = config.pending.ttl
        self._approval = config.approval.expires
        self._clock = clock

    def lifetime_of(self, pending: PendingCall) -> float | None:
        """Seconds until the call expires in its present state; None if it does not."""
        if pending.state is State.APPROVED:
            return self._approval
        if self._answer is None:
            return None if pending.call.caller.document is not None else PENDING_TTL
        return self._answer

    def expires_at(self, ledger: Ledger, pending: PendingCall) -> float | None:
        """The Unix time at which the call expires in its present state; None if it does not."""
        if pending.state not in (State.PENDING, State.APPROVED):
            return None
        seconds = self.lifetime_of(pending)
        if seconds is None:
            return None
        since = ledger.approved_at(pending.call.id) if pending.state is State.APPROVED else pending.held_at
        return None if since is None else since + seconds

    def current(self, ledger: Ledger, pending: PendingCall | None) -> PendingCall | None:
        """Return the call, or expire it if its time is over."""
        if pending is None or not self._is_over(ledger, pending):
            return pending
        return None if self._end(ledger, pending) else ledger.find_pending(pending.call.id)

    def expire(self, ledger: Ledger) -> list[str]:
        """Expire every call whose time is over; returns their ids."""
        over = [pending for pending in ledger.pending() if self._is_over(ledger, pending)]
        return [pending.call.id for pending in over if self._end(ledger, pending)]

    def _is_over(self, ledger: Ledger, pending: PendingCall) -> bool:
        seconds, now = self.lifetime_of(pending), self._clock()
        if seconds is None or now < pending.held_at + seconds:
            return False  # an approval is never older than its call, so its time need not be looked up
        ends = self.expires_at(ledger, pending)
        return ends is not None and now >= ends

    def _end(self, ledger: Ledger, pending: PendingCall) -> bool:
        return ledger.expire(pending, expired(pending, self.lifetime_of(pending) or 0.0))
