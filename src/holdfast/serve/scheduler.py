"""Runs the schedules of a project while the daemon does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, LedgerError
from holdfast.factory.scheduled_runs import ScheduledRuns
from holdfast.serve.projects import Projects, ServedProject
from holdfast.serve.watch import LedgerWatch
from holdfast.store.ledger import Ledger
from holdfast.store.schedules import LATEST, Claim, DueRun, MissedRuns, RunOutcome, ScheduleStore

POLL_SECONDS: Final = 1.0
"""How often the ledger is checked for schedules that another process added. The check reads one number."""
NEW_PROJECT_SECONDS: Final = 60.0
MAX_RUNNING: Final = 8
"""Runs of one project at the same time. Further ones are not claimed until one ends, and are missed if that is late."""
_LOG: Final = logging.getLogger("holdfast")
Run = Callable[[DueRun], Awaitable[RunOutcome]]
Wait = Callable[[float], Awaitable[object]]
OnMissed = Callable[[MissedRuns], None]
_STOPPED: Final = RunOutcome(state=State.CANCELLED.value, message="The daemon stopped.")


class Scheduler:
    """Claims what is due and runs it. Several daemons on one ledger share the work: each run has one of them."""

    def __init__(
        self,
        ledger: Ledger,
        run: Run,
        *,
        on_missed: OnMissed | None = None,
        clock: Callable[[], float] = time.time,
        wait: Wait = asyncio.sleep,
    ) -> None:
        """`run` makes the call or advances the document. `clock` and `wait` are replaced in tests."""
        self._ledger = ledger
        self._store = ScheduleStore(ledger)
        self._run = run
        self._on_missed = on_missed
        self._clock = clock
        self._wait = wait
        self._running: set[asyncio.Task[None]] = set()
        self._waiting: frozenset[str] = frozenset()
        """The schedules that are due while as many runs as allowed are in progress."""
        self._unrecorded: list[tuple[DueRun, RunOutcome]] = []
        """Outcomes that could not be written yet. Until then, their schedules do not run again."""
        self._seen: tuple[int, int] | None = None
        """The version of the ledger when `_next_at` was read."""
        self._next_at: float | None = None
        self._problem = ""
        """The last problem with the ledger, which is logged once."""

    async def run(self) -> None:
        """Run schedules until cancelled; then stop the runs in progress, and return when they have ended."""
        try:
            await self._step(first=True)
            while True:
                await self._wait(self._seconds())
                await self._step()
        finally:
            await self._stop()

    async def run_due(self) -> Claim:
        """Run what is due now, and return when it has ended."""
        latest = self._clock() + LATEST
        try:
            claim = await self._claim()
            self._start(claim)
            while self._running:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                if self._waiting and self._clock() < latest:
                    more = await self._claim()
                    self._start(more)
                    claim = Claim(runs=claim.runs + more.runs, missed=claim.missed + more.missed, waiting=more.waiting)
        finally:
            await self._stop()
        return claim

    async def _stop(self) -> None:
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)

    def _seconds(self) -> float:
        """How long to wait: to the next run, but not longer than until the next look at the ledger.

        What is still due cannot run now, as a step claims all that can.
        """
        left = 0.0 if self._next_at is None else self._next_at - self._clock()
        return min(POLL_SECONDS, left) if left > 0 else POLL_SECONDS

    async def _step(self, *, first: bool = False) -> None:
        """Claim and start what is due. A ledger that cannot be used now is tried again with the next step."""
        try:
            self._record_late()
            if first or self._is_due():
                self._start(await self._claim())
                self._read_next()
            self._problem = ""
        except LedgerError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _LOG.warning("Schedules are not run: %s", error)

    def _is_due(self) -> bool:
        if self._seen != self._ledger.version():
            self._read_next()
        return self._next_at is not None and self._next_at <= self._clock()

    def _read_next(self) -> None:
        self._seen = self._ledger.version()
        self._next_at = self._store.next_at()

    async def _claim(self) -> Claim:
        # In a thread: it may wait for another process that writes, and it computes times.
        free = MAX_RUNNING - len(self._running)
        work = asyncio.create_task(asyncio.to_thread(self._store.claim_due, self._clock(), free, self._waiting))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            for due in (await work).runs:  # claimed, so nobody else will end them
                self._record(due, _STOPPED)
            raise

    def _start(self, claim: Claim) -> None:
        """Start the claimed runs, and report the missed ones."""
        self._waiting = claim.waiting
        for due in claim.runs:
            task = asyncio.create_task(self._run_one(due), name=f"holdfast-{due.call_id}")
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        for missed in claim.missed:
            self._report(missed)

    def _report(self, missed: MissedRuns) -> None:
        _LOG.warning("Schedule %s: %s", missed.schedule.id, missed)
        try:
            if self._on_missed is not None:
                self._on_missed(missed)
        except Exception:
            _LOG.exception("Missed runs of schedule %s could not be reported.", missed.schedule.id)

    async def _run_one(self, due: DueRun) -> None:
        """Run one, and record what came of it whatever happens: an open run keeps its schedule from running again."""
        outcome = _STOPPED
        try:
            outcome = await self._run(due)
        except HoldfastError as error:
            outcome = RunOutcome(state=State.FAILED.value, message=str(error))
        except Exception as error:
            _LOG.exception("A run of schedule %s failed.", due.schedule.id)
            outcome = RunOutcome(state=State.FAILED.value, message=f"{type(error).__name__}: {error}")
        finally:
            self._record(due, outcome)

    def _record(self, due: DueRun, outcome: RunOutcome) -> None:
        try:
            self._store.end(due, outcome)
        except LedgerError as error:
            self._unrecorded.append((due, outcome))
            _LOG.warning("The outcome of a run of schedule %s is not recorded yet: %s", due.schedule.id, error)

    def _record_late(self) -> None:
        late, self._unrecorded = self._unrecorded, []
        for due, outcome in late:
            self._record(due, outcome)


async def run_schedules(projects: Projects, watch: LedgerWatch) -> None:
    """Run the schedules of every project, also of those that are found later, until cancelled."""
    begun: set[str] = set()
    while True:
        seen = watch.count
        for project in projects:
            if project.key not in begun:
                begun.add(project.key)
                project.start(_scheduler_of(project).run(), lasting=True)
        await watch.wait(seen, NEW_PROJECT_SECONDS)


def _scheduler_of(project: ServedProject) -> Scheduler:
    async def run(due: DueRun) -> RunOutcome:
        return await ScheduledRuns(await project.runtime(), project.flags).run(due)

    return Scheduler(project.ledger, run)
