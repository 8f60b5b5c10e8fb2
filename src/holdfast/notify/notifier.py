"""`Notifier`: collects pending calls and notifies once per burst, on every channel at the same time.

    add ─▶ waiting ─ burst over, hours not quiet ─▶ still pending? ─▶ message ─▶ channels (10 s each) ─▶ recorded

A call is recorded after it was sent. If the process dies before that, the daemon adds the call again when it starts,
and it is notified then.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from datetime import time as clock
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from holdfast.config.config import NotifyConfig
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Risk, State
from holdfast.notify.channel import SEND_SECONDS, Channel, ChannelFailed
from holdfast.notify.message import Message, Question, pending_message, question_of
from holdfast.notify.notified_calls import NotifiedCalls
from holdfast.store.redact import Redactor

T = TypeVar("T")

MAX_WAITING: Final = 10_000
"""Calls that wait for the end of a burst or of quiet hours; the oldest are dropped, since nobody reads so many."""
_QUIET_STEP: Final = 30.0
"""How often the time is looked at in quiet hours: the clock may be set, and the machine may sleep."""
_LOG: Final = logging.getLogger("holdfast")


class Inbox(Protocol):
    """What the notifier asks about a pending call. `project` is what was given to `add`."""

    def is_pending(self, project: str, pending: PendingCall) -> bool:
        """Whether the call, with this digest, still waits for an answer."""
        ...

    def link(self, project: str, pending: PendingCall | None) -> str:
        """Return the address of the call's card, or with None of the whole inbox; empty for none."""
        ...

    def expires_at(self, project: str, pending: PendingCall) -> float | None:
        """Return when the call expires, in seconds since 1970; None if it does not."""
        ...


class QuietHours(Struct, frozen=True):
    """A daily span of local time without notifications."""

    start: clock
    end: clock
    """Before `start` if the span goes over midnight."""

    @classmethod
    def parse(cls, text: str) -> QuietHours:
        """Parse `22:00-07:00`, as `notify.quiet` has been checked to be."""
        start, _, end = text.partition("-")
        return cls(clock.fromisoformat(start), clock.fromisoformat(end))

    def covers(self, now: float) -> bool:
        """Whether a Unix time is in the span; its start is, its end is not."""
        at = datetime.fromtimestamp(now).time()  # noqa: DTZ006 - local time is what the option means
        if self.start < self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end


class Delivery(Struct, frozen=True):
    """What happened with a message on one channel."""

    channel: str
    target: str
    outcome: Literal["sent", "failed"]
    reason: str = ""
    """A sentence, if it failed."""


class _Waiting(NamedTuple):
    project: str
    entry: int
    pending: PendingCall


def _try(ask: Callable[[], T], otherwise: T) -> T:
    """Return what the inbox says, or `otherwise` if it fails, such as for a ledger that is damaged."""
    try:
        return ask()
    except Exception:
        _LOG.debug("inbox", exc_info=True)
        return otherwise


async def send_to(channel: Channel, message: Message, *, seconds: float = SEND_SECONDS) -> Delivery:
    """Send a message on one channel. Whatever fails there becomes the outcome."""
    try:
        async with asyncio.timeout(seconds):
            await channel.send(message)
    except TimeoutError:
        reason = f"{channel.target} did not take the message within {seconds:g} seconds."
    except ChannelFailed as error:
        reason = str(error)
    except Exception as error:
        _LOG.debug("channel %s", channel.name, exc_info=True)
        reason = f"An internal error occurred ({type(error).__name__})."
    else:
        return Delivery(channel.name, channel.target, "sent")
    return Delivery(channel.name, channel.target, "failed", reason)


class Notifier:
    """Used in one event loop: `add` from anywhere in it, and `run` as one task.

    `state` is the folder of the file that survives a restart. `clock` is the time of the day, `sleep` waits for it.
    """

    def __init__(
        self,
        config: NotifyConfig,
        channels: Sequence[Channel],
        inbox: Inbox,
        *,
        redactor: Redactor,
        state: Path | None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        seconds: float = SEND_SECONDS,
    ) -> None:
        self._burst = config.burst
        self._min_risk: Risk = config.min_risk
        self._quiet = None if config.quiet is None else QuietHours.parse(config.quiet)
        self._channels = tuple(channels)
        self._inbox = inbox
        self._redactor = redactor
        self._notified = NotifiedCalls(state)
        self._clock = clock
        self._sleep = sleep
        self._seconds = seconds
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._added = asyncio.Event()
        self._failing: set[str] = set()

    def last_entry(self, project: str) -> int:
        """Return the highest ledger entry of a project that was dealt with; only later ones need to be added."""
        return self._notified.last_entry(project)

    def check_head(self, project: str, head: int) -> None:
        """Forget a project whose last ledger entry is older than what was notified: its ledger was replaced."""
        if head < self._notified.last_entry(project):
            self._notified.forget(project)

    def add(self, entry: int, pending: PendingCall, project: str) -> None:
        """Add a pending call, by the number of the ledger entry that made it pending; `project` is the root's path.

        Add the calls of a project in the order of their entries. A call that was notified before is ignored, so every
        pending call can be added again at any time; a newer version of a call that waits replaces it.
        """
        if self._notified.covers(project, entry, pending):
            return
        self._waiting[project, pending.call.id] = _Waiting(project, entry, pending)
        while len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._added.set()

    async def run(self) -> None:
        """Notify until cancelled. What waits then is notified after the next start."""
        while True:
            await self._added.wait()
            await self._sleep(self._burst)
            while self._quiet is not None and self._quiet.covers(self._clock()):
                await self._sleep(_QUIET_STEP)
            await self.flush()

    async def flush(self) -> list[Delivery]:
        """Notify now of what waits, also in quiet hours. Returns an outcome per channel; none if there was nothing."""
        # A call that was added again while the last burst was sent has been notified since.
        burst = [each for each in self._waiting.values() if not self._notified.covers(*each)]
        self._waiting.clear()
        self._added.clear()
        calls = [each for each in burst if self._concerns(each)]
        deliveries: list[Delivery] = []
        try:
            if calls and self._channels:
                deliveries = await self._send(self._message(calls))
        except asyncio.CancelledError:
            # Not recorded, so the next start adds them again; this one can too.
            for each in burst:
                self._waiting.setdefault((each.project, each.pending.call.id), each)
            raise
        for project in dict.fromkeys(each.project for each in burst):
            self._notified.record(project, [(each.entry, each.pending) for each in burst if each.project == project])
        return deliveries

    def _concerns(self, each: _Waiting) -> bool:
        """Whether a call is risky enough and still waits for an answer."""
        pending = each.pending
        risk = None if pending.proposal is None else pending.proposal.risk
        if pending.state is not State.PENDING or (risk is not None and risk.level < self._min_risk.level):
            return False
        # If it is not known, an unneeded notification is better than a missing one.
        return _try(lambda: self._inbox.is_pending(each.project, pending), True)

    def _message(self, calls: Sequence[_Waiting]) -> Message:
        inbox = _try(lambda: self._inbox.link(calls[0].project, None), "") if len(calls) > 1 else ""
        return pending_message([self._question(each) for each in calls], inbox=inbox)

    def _question(self, each: _Waiting) -> Question:
        return question_of(
            each.pending,
            each.project,
            self._redactor,
            link=_try(lambda: self._inbox.link(each.project, each.pending), ""),
            expires_at=_try(lambda: self._inbox.expires_at(each.project, each.pending), None),
        )

    async def _send(self, message: Message) -> list[Delivery]:
        deliveries = await asyncio.gather(
            *(send_to(channel, message, seconds=self._seconds) for channel in self._channels)
        )
        for delivery in deliveries:
            self._report(delivery)
        return list(deliveries)

    def _report(self, delivery: Delivery) -> None:
        """Warn when a channel starts to fail, not again until it has worked in between."""
        if delivery.outcome == "sent":
            self._failing.discard(delivery.channel)
        elif delivery.channel not in self._failing:
            self._failing.add(delivery.channel)
            _LOG.warning("Notifications by %s do not arrive: %s", delivery.channel, self._redactor(delivery.reason))
