"""The scheduler with a clock of its own: what runs when, and what cannot stop it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from msgspec.structs import replace

from holdfast.contract.errors import LedgerUnavailable, ScheduleRefused
from holdfast.factory.runtime import load_project
from holdfast.serve.projects import ServedProject
from holdfast.serve.scheduler import MAX_RUNNING, POLL_SECONDS, Scheduler, _scheduler_of  # pyright: ignore[reportPrivateUsage]
from holdfast.store.ledger import Ledger
from holdfast.store.schedules import DueRun, MissedRuns, RunOutcome, ScheduleStore
from tests.runtime.support import run
from tests.serve.projects_on_disk import Disk
from tests.store.calls import SCHEDULED as START
from tests.store.calls import make_schedule

pytestmark = pytest.mark.spec("B14n")
DONE = RunOutcome(state="done")
_LATER = "UPDATE schedules SET next_at = ? WHERE id = ?"


class Clock:
    """A clock that the waits of the scheduler move; it stops the test at `end`."""

    def __init__(self, end: float) -> None:
        self.now = START
        self.waits: list[float] = []
        self._end = end
        self.ended = asyncio.Event()
        self.on_wait: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += max(seconds, 0.001)
        self.on_wait()
        await asyncio.sleep(0)
        if self.now > START + self._end:
            self.ended.set()
            await asyncio.Event().wait()


class Project:
    """A ledger, a scheduler on it, and the runs that it started."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.ledger = Ledger.open(folder / "ledger.db")
        self.store = ScheduleStore(self.ledger)
        self.clock = Clock(seconds)
        self.began: list[tuple[str, float]] = []
        self.missed: list[MissedRuns] = []
        self.work: Callable[[DueRun], Awaitable[RunOutcome]] = self.succeed

    async def succeed(self, due: DueRun) -> RunOutcome:
        return DONE

    async def _run(self, due: DueRun) -> RunOutcome:
        self.began.append((due.schedule.id, due.due))
        return await self.work(due)

    def add(self, expression: str = "* * * * *") -> str:
        schedule = make_schedule(expression)
        self.store.add(schedule, self.clock.now)
        return schedule.id

    def scheduler(self) -> Scheduler:
        return Scheduler(self.ledger, self._run, on_missed=self.missed.append, clock=self.clock, wait=self.clock.wait)

    async def play(self) -> None:
        """Run the scheduler to the end of the clock, then stop it."""
        task = asyncio.create_task(self.scheduler().run())
        await self.clock.ended.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_each_schedule_runs_at_its_times_and_not_in_between(tmp_path: Path) -> None:
    async def session() -> None:
        project = Project(tmp_path, 200)
        every, hourly = project.add(), project.add("0 * * * *")
        await project.play()
        assert [name for name, _ in project.began] == [every] * 3
        assert [int(at - START) for _, at in project.began] == [60, 120, 180]
        states = {status.schedule.id: status for status in project.store.list()}
        assert (states[every].last_state, states[every].missed) == ("done", 0)
        assert states[hourly].last_state == ""
        assert max(project.clock.waits) <= POLL_SECONDS

    run(session())


def test_a_schedule_that_another_process_adds_or_removes_is_noticed(tmp_path: Path) -> None:
    async def session() -> None:
        project = Project(tmp_path, 200)
        with Ledger.open(tmp_path / "ledger.db") as other:
            store, schedule = ScheduleStore(other), make_schedule()

            def act() -> None:
                if int(project.clock.now - START) == 30 and not store.list():
                    store.add(schedule, project.clock.now)
                if int(project.clock.now - START) == 130:
                    store.remove(schedule.id, by="ada", call="c")

            project.clock.on_wait = act
            await project.play()
        assert [int(at - START) for _, at in project.began] == [60, 120]

    run(session())


def test_a_failing_run_is_recorded_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def session() -> None:
        project = Project(tmp_path, 130)
        errors = [ScheduleRefused("It is gone."), RuntimeError("a bug")]
        project.add()

        async def fail(due: DueRun) -> NoReturn:
            raise errors.pop(0)

        project.work = fail
        await project.play()
        (status,) = project.store.list()
        assert (len(project.began), status.last_state, status.last_message) == (2, "failed", "RuntimeError: a bug")

    run(session())
    assert "A run of schedule" in caplog.text


def test_missed_runs_are_reported_once_at_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def session() -> None:
        project = Project(tmp_path, 9_590)
        project.add("*/10 * * * *")
        project.clock.now = START + 9_500
        with caplog.at_level(logging.WARNING):
            await project.play()
        assert [one.record.count for one in project.missed] == [15] and not project.began

    run(session())
    assert "Missed 15 runs from" in caplog.text


def test_a_report_that_fails_stops_nothing(tmp_path: Path) -> None:
    async def session() -> None:
        project = Project(tmp_path, 700)

        def broken(missed: MissedRuns) -> NoReturn:
            raise RuntimeError("a bug")

        project.add()
        project.clock.now = START + 600.0
        scheduler = Scheduler(project.ledger, project._run, on_missed=broken, clock=project.clock)  # pyright: ignore[reportPrivateUsage]
        assert len((await scheduler.run_due()).runs) == 1

    run(session())


def test_a_long_run_delays_no_other_schedule_and_is_not_started_twice(tmp_path: Path) -> None:
    async def session() -> None:
        project = Project(tmp_path, 190)
        slow, quick = project.add(), project.add()

        async def work(due: DueRun) -> RunOutcome:
            if due.schedule.id == slow:
                await asyncio.Event().wait()
            return DONE

        project.work = work
        await project.play()
        names = [name for name, _ in project.began]
        assert (names.count(slow), names.count(quick)) == (1, 3)
        states = {status.schedule.id: status for status in project.store.list()}
        assert (states[slow].last_state, states[slow].missed, states[slow].running) == ("cancelled", 2, False)
        assert "had not ended" in states[slow].missed_note

    run(session())


def test_only_so_many_runs_are_in_progress_at_once(tmp_path: Path) -> None:
    async def session() -> None:
        project = Project(tmp_path, 61)
        now = most = 0

        async def work(due: DueRun) -> RunOutcome:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            return DONE

        project.work = work
        for _ in range(3 * MAX_RUNNING):
            project.add()
        project.clock.now = START + 60
        await project.scheduler().run_due()
        assert (most, len(project.began)) == (MAX_RUNNING, 3 * MAX_RUNNING)

    run(session())


def test_a_run_that_finds_no_place_in_time_is_missed_and_is_not_shown_as_running(tmp_path: Path) -> None:
    async def session() -> None:
        project = Project(tmp_path, 400)
        free, shown = asyncio.Event(), set[int]()

        async def work(due: DueRun) -> RunOutcome:
            await free.wait()
            return DONE

        def act() -> None:
            at = int(project.clock.now - START)
            if at in (90, 290):
                shown.add(sum(status.running for status in project.store.list()))
            if at >= 300:
                free.set()

        project.work = work
        project.clock.on_wait = act
        for _ in range(MAX_RUNNING):
            project.add("1 * * * *")
        late = [project.add("1,30 * * * *") for _ in range(3)]
        for name in late:  # after the others
            project.ledger.run(lambda tx, name=name: tx.execute(_LATER, (START + 60.5, name)))
        await project.play()
        assert shown == {MAX_RUNNING}
        assert not {name for name, _ in project.began} & set(late), "they would have begun four minutes late"
        states = {status.schedule.id: status for status in project.store.list()}
        for name in late:
            assert (states[name].missed, states[name].last_state) == (1, "")
            assert "too many other runs were in progress" in states[name].missed_note
        assert len(project.missed) == len(late) and project.ledger.verify().ok

    run(session())


def test_a_run_that_waits_for_its_turn_begins_within_its_minute(tmp_path: Path) -> None:
    async def session() -> None:
        project = Project(tmp_path, 130)
        free = asyncio.Event()

        async def work(due: DueRun) -> RunOutcome:
            await free.wait()
            return DONE

        def act() -> None:
            if project.clock.now >= START + 80:
                free.set()

        project.work = work
        project.clock.on_wait = act
        for _ in range(MAX_RUNNING + 3):
            project.add("1 * * * *")
        await project.play()
        assert len({name for name, _ in project.began}) == len(project.began) == MAX_RUNNING + 3
        assert not project.missed

    run(session())


@pytest.mark.parametrize("damage", ["'{'", "replace(body, '* * * * *', '99 * * * *')"])
def test_a_schedule_that_cannot_be_read_stops_nothing_and_is_not_tried_all_the_time(
    tmp_path: Path, damage: str
) -> None:
    async def session() -> None:
        project = Project(tmp_path, 130)
        broken, healthy = project.add(), project.add()
        sql = f"UPDATE schedules SET body = {damage} WHERE id = ?"
        project.ledger.run(lambda tx: tx.execute(sql, (broken,)))
        await project.play()
        assert [name for name, _ in project.began] == [healthy] * 2
        assert len(project.clock.waits) < 300

    run(session())


def test_a_ledger_that_is_locked_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def session() -> None:
        project = Project(tmp_path, 190)
        project.add()
        claim: Any = ScheduleStore.claim_due
        end: Any = ScheduleStore.end
        failures = {"claim": 3, "end": 2}

        def locked(name: str, work: Any) -> Any:
            def attempt(self: ScheduleStore, *args: Any) -> Any:
                if failures[name] and project.clock.now > START + 60:
                    failures[name] -= 1
                    raise LedgerUnavailable("locked")
                return work(self, *args)

            return attempt

        monkeypatch.setattr(ScheduleStore, "claim_due", locked("claim", claim))
        monkeypatch.setattr(ScheduleStore, "end", locked("end", end))
        await project.play()
        (status,) = project.store.list()
        assert [int((at - START) // 60) for _, at in project.began] == [1, 2, 3]
        assert (status.last_state, status.missed, failures) == ("done", 0, {"claim": 0, "end": 0})

    run(session())


def test_stopping_while_runs_are_claimed_leaves_none_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def session() -> None:
        project = Project(tmp_path, 1000)
        project.add()
        project.clock.now = START + 60
        claim: Any = ScheduleStore.claim_due
        loop, entered = asyncio.get_running_loop(), asyncio.Event()

        def slow(self: ScheduleStore, *args: Any) -> Any:
            loop.call_soon_threadsafe(entered.set)
            return claim(self, *args)

        monkeypatch.setattr(ScheduleStore, "claim_due", slow)
        task = asyncio.create_task(project.scheduler().run())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        (status,) = project.store.list()
        assert not status.running and status.last_state in ("cancelled", "done")

    run(session())


def test_the_options_of_the_daemon_apply_to_calls_scheduled_in_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path, monkeypatch)
    document = disk.project() / "talk.chat"
    document.write_text("@You:\nGo.\n")

    async def session() -> None:
        served = ServedProject(load_project(disk.project()), {"tools.deny": ["file.read"]})
        store, made = ScheduleStore(served.ledger), make_schedule()
        work = replace(made.work, tool="file.read", args={"path": "talk.chat"})
        now = time.time()
        store.add(
            replace(made, work=work, caller=replace(made.caller, document=str(document)), cwd=str(disk.project())),
            now,
        )
        served.ledger.run(lambda tx: tx.execute("UPDATE schedules SET next_at = ?", (now,)))
        await _scheduler_of(served).run_due()
        (status,) = store.list()
        assert (status.last_state, "not allowed by tool policy" in status.last_message) == ("denied", True), status
        await served.close()

    run(session())
