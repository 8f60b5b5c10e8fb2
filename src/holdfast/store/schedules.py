"""Schedules in the ledger: what is due, which process runs it, and what came of it.

A run takes place at most once. A process claims it in one transaction before it begins, and never claims it again; a
run whose process died before its call began is recorded as missed. Runs that are late are missed as well: they are
counted in one entry and never made up for.
"""

from __future__ import annotations

import os
from base64 import b32encode
from contextlib import suppress
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from holdfast.contract.call import ProcessIdentity
from holdfast.contract.enums import State
from holdfast.contract.errors import LedgerError, ScheduleRefused
from holdfast.contract.schedules import MAX_SCHEDULES, Schedule, ScheduleStatus
from holdfast.store.database import SCHEDULES_VERSION, Transaction
from holdfast.store.entries import RunClaimed, RunEnded, RunsMissed, ScheduleAdded, ScheduleRemoved
from holdfast.store.operations import EncodeBody
from holdfast.store.process_identity import is_alive, this_process
from holdfast.store.projections import encode_schedule
from holdfast.text.cron_expression import CronExpression

if TYPE_CHECKING:
    from holdfast.store.ledger import Ledger

LATEST: Final = 60.0
"""Seconds after its time within which a run still begins. Later, it is missed."""
MAX_COUNTED: Final = 1000
"""How many missed runs are counted one by one; beyond that, there are "more"."""
NOT_RUNNING: Final = "no daemon was running"
STILL_RUNNING: Final = "the run before it had not ended"
STILL_PENDING: Final = "the call of the run before it is still pending"
ALL_BUSY: Final = "too many other runs were in progress"
NEVER_BEGAN: Final = "the daemon stopped before the call began"
_INTERRUPTED: Final = "The daemon stopped while it advanced the document; open it to see how far it got."
_COLUMNS: Final = (
    "id, body, next_at, due, pid, pid_start, last_at, last_call, last_state, last_message, missed, missed_note"
)
_RELEASED: Final = "due = NULL, pid = NULL, pid_start = NULL"
_decoder: Final = msgspec.json.Decoder(Schedule)


class DueRun(Struct, frozen=True, kw_only=True):
    """A run that this process has claimed."""

    schedule: Schedule
    due: float
    call_id: str
    """The id for the call that it makes. With this id, it is known after a crash whether the call began."""


class RunOutcome(Struct, frozen=True, kw_only=True):
    """What came of a run."""

    state: str
    """The state of its call, or the kind of outcome of its document."""
    call: str | None = None
    message: str = ""


class MissedRuns(Struct, frozen=True):
    """Runs of a schedule that did not take place. As text, a sentence that says which and why."""

    schedule: Schedule
    record: RunsMissed

    def __str__(self) -> str:
        missed, show = self.record, _expression_of(self.schedule).format_time
        if missed.count == 1 and not missed.more:
            return f"Missed the run of {show(missed.first)}: {missed.why}."
        count = f"more than {missed.count:,}" if missed.more else f"{missed.count:,}"
        return f"Missed {count} runs from {show(missed.first)} to {show(missed.last)}: {missed.why}."


class Claim(Struct, frozen=True, kw_only=True):
    """What `claim_due` found."""

    runs: tuple[DueRun, ...] = ()
    missed: tuple[MissedRuns, ...] = ()
    waiting: frozenset[str] = frozenset()
    """The schedules that are due, but beyond the number of runs that was asked for. They are not claimed."""


class _Row(Struct, frozen=True):
    id: str
    body: str
    next_at: float | None
    due: float | None
    """The time of the run in progress."""
    pid: int | None
    pid_start: str | None
    last_at: float | None
    last_call: str | None
    last_state: str
    last_message: str
    missed: int
    missed_note: str

    @property
    def owner_lives(self) -> bool:
        return is_alive(ProcessIdentity(self.pid or 0, self.pid_start or ""))


class _Step(Struct, frozen=True):
    """What happens to one schedule that is due."""

    row: _Row
    next_at: float | None
    run: DueRun | None
    missed: MissedRuns | None


class ScheduleStore:
    """The schedules of a project. Several processes can use it at once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def add(self, schedule: Schedule, now: float) -> ScheduleStatus:
        """Add a schedule. Raises `ScheduleRefused` if there are too many, or if it contains a secret."""
        body = self._ledger.encode_body(ScheduleAdded(schedule))
        stored = self._ledger.read_body(body, ScheduleAdded).schedule
        if stored != schedule:
            raise ScheduleRefused(
                "The arguments contain a secret. Secrets are not stored, so the call could not be made later; "
                "use a tool that fetches the secret itself."
            )
        row, next_at = encode_schedule(stored), _expression_of(schedule).next_after(now)

        def op(tx: Transaction) -> None:
            if tx.execute("SELECT count(*) FROM schedules").fetchone()[0] >= MAX_SCHEDULES:
                raise ScheduleRefused(f"There are {MAX_SCHEDULES} schedules, which is the most. Remove one first.")
            tx.append("", "scheduled", body)
            tx.execute("INSERT INTO schedules (id, body, next_at) VALUES (?, ?, ?)", (schedule.id, row, next_at))

        self._ledger.run(op)
        return ScheduleStatus(schedule=schedule, next_at=next_at)

    def remove(self, schedule_id: str, *, by: str, call: str) -> bool:
        """Remove a schedule; False if it does not exist. A run that has begun goes on."""
        body = self._ledger.encode_body(ScheduleRemoved(schedule_id, by, call))

        def op(tx: Transaction) -> bool:
            if tx.execute("DELETE FROM schedules WHERE id = ?", (schedule_id,)).rowcount == 0:
                return False
            tx.append("", "unscheduled", body)
            return True

        return self._ledger.run(op)

    def list(self) -> list[ScheduleStatus]:
        """Return all schedules that can be read, oldest first."""
        found = [status for row in self._rows("1 = 1") if (status := self._status(row)) is not None]
        return sorted(found, key=lambda status: status.schedule.created)

    def next_at(self) -> float | None:
        """Return when the next run is due; None if there is no schedule that can be read."""
        rows = sorted(self._rows("next_at IS NOT NULL"), key=_due_first)
        return next((row.next_at for row in rows if _read_valid(row) is not None), None)

    def claim_due(self, now: float, most: int = MAX_SCHEDULES, waited: frozenset[str] = frozenset()) -> Claim:
        """Claim the runs that are due, for this process, and record the missed ones. Never claims a run twice.

        Claims at most so many, the longest overdue first. `waited` are the schedules that waited before; if they are
        late now, that is why.
        """
        lost = self.recover()
        # Times are computed before the transaction, so that it is short; it skips what changed meanwhile.
        rows = sorted(self._rows("next_at <= ?", now), key=_due_first)
        late = {row.id: ALL_BUSY if row.id in waited else NOT_RUNNING for row in rows}
        steps = [step for row in rows if (step := self._step(row, now, late[row.id])) is not None]
        if not steps:
            return Claim(missed=tuple(lost))
        if most <= 0 and all(step.run is not None and step.missed is None for step in steps):
            return Claim(missed=tuple(lost), waiting=frozenset(step.row.id for step in steps))  # nothing to write
        owner = this_process()
        encode = self._ledger.encode_body

        def op(tx: Transaction) -> Claim:
            runs: list[DueRun] = []
            missed = [*lost]
            waiting: set[str] = set()
            for step in steps:
                row, run = step.row, step.run
                waits = run is not None and len(runs) >= most
                unchanged = tx.execute(
                    "UPDATE schedules SET next_at = ? WHERE id = ? AND next_at = ? AND due IS ?",
                    (run.due if run is not None and waits else step.next_at, row.id, row.next_at, row.due),
                )
                if unchanged.rowcount == 0:
                    continue  # claimed by another process, or removed
                if step.missed is not None:
                    _record_missed(tx, encode, step.missed)
                    missed.append(step.missed)
                if waits:
                    waiting.add(row.id)
                elif run is not None:
                    body = encode(RunClaimed(row.id, run.due, owner.pid, owner.started))
                    _append(tx, row.id, run.due, "fired", body)
                    tx.execute(
                        "UPDATE schedules SET due = ?, pid = ?, pid_start = ? WHERE id = ?",
                        (run.due, owner.pid, owner.started, row.id),
                    )
                    runs.append(run)
            return Claim(runs=tuple(runs), missed=tuple(missed), waiting=frozenset(waiting))

        return self._ledger.run(op)

    def end(self, run: DueRun, outcome: RunOutcome) -> None:
        """Record what came of a run that this process claimed."""
        call = outcome.call or (run.call_id if self._ledger.has_call(run.call_id) else None)
        ended = RunEnded(run.schedule.id, run.due, outcome.state, call, outcome.message)
        body = self._ledger.encode_body(ended)
        stored = self._ledger.read_body(body, RunEnded)
        self._ledger.run(lambda tx: _end(tx, stored, body))

    def recover(self) -> list[MissedRuns]:
        """End the runs of processes that died. Returns those whose call never began, which are missed."""
        found = [row for row in self._rows("due IS NOT NULL") if not row.owner_lives]
        missed = [self._recover(row) for row in found]
        return [one for one in missed if one is not None]

    def _recover(self, row: _Row) -> MissedRuns | None:
        schedule, due = _read(row), row.due
        if schedule is None or due is None:
            return None
        call_id = _call_id(row.id, due)
        encode = self._ledger.encode_body
        if schedule.work.document is not None:
            ended = RunEnded(row.id, due, State.UNKNOWN.value, None, _INTERRUPTED)
        elif self._ledger.has_call(call_id):
            ended = RunEnded(row.id, due, self._state_of(call_id) or State.UNKNOWN.value, call_id)
        else:
            ended = None
        missed = MissedRuns(schedule, RunsMissed(row.id, 1, due, due, NEVER_BEGAN)) if ended is None else None

        def op(tx: Transaction) -> bool:
            sql = "SELECT 1 FROM schedules WHERE id = ? AND due = ? AND pid = ? AND pid_start = ?"
            if tx.execute(sql, (row.id, due, row.pid, row.pid_start)).fetchone() is None:
                return False  # another process was faster
            if ended is not None:
                _end(tx, ended, encode(ended))
            elif missed is not None:
                _record_missed(tx, encode, missed)
                tx.execute(f"UPDATE schedules SET {_RELEASED} WHERE id = ?", (row.id,))  # noqa: S608 - a constant
            return True

        return missed if self._ledger.run(op) else None

    def _rows(self, condition: str, *values: float) -> list[_Row]:
        if self._ledger.rows("PRAGMA user_version")[0][0] < SCHEDULES_VERSION:
            return []  # a read-only ledger is not migrated
        sql = f"SELECT {_COLUMNS} FROM schedules WHERE {condition} ORDER BY id"  # noqa: S608 - constants of this module
        return [_Row(*row) for row in self._ledger.rows(sql, values)]

    def _step(self, row: _Row, now: float, late_because: str) -> _Step | None:
        """Decide what happens to a schedule that is due: one run at most, and all earlier ones are missed."""
        schedule = _read_valid(row)
        if schedule is None or row.next_at is None:
            return None
        expression, first = _expression_of(schedule), row.next_at
        blocked = self._blocked(row)
        newest = first if first > now - LATEST else expression.next_after(now - LATEST)
        due = newest if newest is not None and newest <= now and not blocked else None
        late = takewhile(lambda at: at <= now and at != due, chain((first,), expression.times_after(first)))
        counted = list(islice(late, MAX_COUNTED + 1))
        missed = None
        if counted:
            more = len(counted) > MAX_COUNTED
            last = now if more else counted[-1]
            count = min(len(counted), MAX_COUNTED)
            missed = MissedRuns(schedule, RunsMissed(row.id, count, first, last, blocked or late_because, more))
        run = None if due is None else DueRun(schedule=schedule, due=due, call_id=_call_id(row.id, due))
        return _Step(row, expression.next_after(now), run, missed)

    def _blocked(self, row: _Row) -> str:
        """Say why no run may begin now; empty if one may."""
        if row.due is not None:
            return STILL_RUNNING
        if row.last_call is not None and self._state_of(row.last_call) in (State.PENDING, State.APPROVED):
            return STILL_PENDING
        return ""

    def _status(self, row: _Row) -> ScheduleStatus | None:
        schedule = _read(row)
        if schedule is None:
            return None
        now = "" if row.last_call is None else self._state_of(row.last_call)
        return ScheduleStatus(
            schedule=schedule,
            next_at=row.next_at,
            last_at=row.last_at,
            last_call=row.last_call,
            last_state=now or row.last_state,
            last_message=row.last_message if now in ("", row.last_state) else "",
            missed=row.missed,
            missed_note=row.missed_note,
            running=row.due is not None and row.owner_lives,
        )

    def _state_of(self, call_id: str) -> str:
        """Return the state of a call now; empty if the ledger no longer has it."""
        rows = self._ledger.rows("SELECT state FROM open_calls WHERE call = ?", (call_id,))
        if rows:
            return str(rows[0][0])
        with suppress(LedgerError):
            result = self._ledger.result(call_id)
            return "" if result is None else result.state.value
        return ""


def new_schedule_id() -> str:
    return b32encode(os.urandom(5)).decode().lower()


def _read(row: _Row) -> Schedule | None:
    """Decode a schedule. One that cannot be read never runs; `verify` reports it."""
    try:
        return _decoder.decode(row.body)
    except (ValueError, TypeError):
        return None


def _due_first(row: _Row) -> float:
    return row.next_at or 0.0


def _read_valid(row: _Row) -> Schedule | None:
    """Decode a schedule whose times can be computed."""
    from cronsim import CronSimError

    schedule = _read(row)
    try:
        return None if schedule is None or _expression_of(schedule).next_after(0.0) is None else schedule
    except CronSimError:
        return None


def _expression_of(schedule: Schedule) -> CronExpression:
    return CronExpression(schedule.work.expression, schedule.work.zone)


def _call_id(schedule_id: str, due: float) -> str:
    return f"{schedule_id}-{int(due // 60)}"


def _append(tx: Transaction, schedule_id: str, due: float, kind: str, body: str) -> None:
    """Append an entry of a run. Its id cannot be that of a call, which has no slash."""
    run = f"cron/{schedule_id}/{int(due)}"
    known = tx.execute("SELECT 1 FROM entries WHERE call = ? LIMIT 1", (run,)).fetchone()
    tx.append(run, kind, body, first=known is None)


def _record_missed(tx: Transaction, encode: EncodeBody, missed: MissedRuns) -> None:
    record = missed.record
    _append(tx, record.id, record.first, "missed", encode(record))
    tx.execute(
        "UPDATE schedules SET missed = missed + ?, missed_note = ? WHERE id = ?",
        (record.count, str(missed), record.id),
    )


def _end(tx: Transaction, ended: RunEnded, body: str) -> None:
    _append(tx, ended.id, ended.due, "ran", body)
    tx.execute(
        f"UPDATE schedules SET {_RELEASED}, last_at = due, last_call = ?, last_state = ?, last_message = ? "  # noqa: S608
        "WHERE id = ? AND due = ?",
        (ended.call, ended.state, ended.message, ended.id, ended.due),
    )
