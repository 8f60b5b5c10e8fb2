"""Schedules in the ledger: each run is claimed once, missed runs are counted in one entry, and a crash is visible."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.contract.errors import ScheduleRefused
from holdfast.contract.schedules import MAX_SCHEDULES, Schedule, ScheduledWork
from holdfast.store.ledger import Ledger
from holdfast.store.redact import Redactor
from holdfast.store.retention import prune
from holdfast.store.schedules import (
    NEVER_BEGAN,
    NOT_RUNNING,
    STILL_PENDING,
    STILL_RUNNING,
    Claim,
    RunOutcome,
    ScheduleStore,
)
from holdfast.text.cron_expression import CronExpression
from tests.soak import rounds
from tests.store.calls import APPROVED, DONE, dead_process, make_call, make_pending, make_schedule
from tests.store.calls import SCHEDULED as START

pytestmark = pytest.mark.spec("B14l")
MINUTE = 60.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger.db")


def added(ledger: Ledger, expression: str = "* * * * *", **more: str) -> tuple[ScheduleStore, Schedule]:
    store, schedule = ScheduleStore(ledger), make_schedule(expression, **more)
    store.add(schedule, START)
    return store, schedule


def kinds(ledger: Ledger) -> list[str]:
    return [kind for (kind,) in ledger.rows("SELECT kind FROM entries ORDER BY id")]


def forget_owner(ledger: Ledger) -> None:
    """Make the run in progress look like that of a process that was killed."""
    owner = dead_process()
    ledger.run(lambda tx: tx.execute("UPDATE schedules SET pid = ?, pid_start = ?", (owner.pid, owner.started)))


def test_a_schedule_is_listed_runs_when_due_and_can_be_removed(ledger: Ledger) -> None:
    store, schedule = added(ledger)
    (listed,) = store.list()
    assert (listed.schedule, listed.next_at, listed.last_at) == (schedule, START + MINUTE, None)
    assert store.claim_due(START + 59) == Claim()
    (due,) = store.claim_due(START + MINUTE).runs
    assert (due.schedule, due.due) == (schedule, START + MINUTE)
    assert store.list()[0].running
    store.end(due, RunOutcome(state="done", call=due.call_id))
    (listed,) = store.list()
    assert (listed.last_at, listed.last_state, listed.last_call) == (due.due, "done", due.call_id)
    assert (listed.next_at, listed.running, listed.missed) == (START + 2 * MINUTE, False, 0)
    assert store.remove(schedule.id, by="cli:ada", call="c2") and not store.remove(schedule.id, by="x", call="c3")
    assert store.list() == [] and store.next_at() is None
    assert kinds(ledger) == ["scheduled", "fired", "ran", "unscheduled"]
    assert ledger.verify().ok


_ADD = """
from pathlib import Path
import sys
from msgspec.structs import replace
from holdfast.contract.call import Caller
from holdfast.store.ledger import Ledger
from holdfast.store.schedules import ScheduleStore
from tests.store.calls import SCHEDULED, make_schedule
names = frozenset(f"name.{number}" for number in range(20))
caller = Caller(interface="cron", scopes=names, only=names)
with Ledger.open(Path(sys.argv[1])) as ledger:
    ScheduleStore(ledger).add(replace(make_schedule(), caller=caller), SCHEDULED)
"""
_VERIFY = """
from pathlib import Path
import sys
from holdfast.store.ledger import Ledger
with Ledger.open(Path(sys.argv[1])) as ledger:
    report = ledger.verify()
    assert report.ok, report
"""


def test_a_schedule_with_many_rights_is_verified_by_another_process(tmp_path: Path) -> None:
    for seed, code in (("1", _ADD), ("2", _VERIFY), ("3", _VERIFY)):
        command = [sys.executable, "-c", code, str(tmp_path / "ledger.db")]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr


def test_the_same_minute_is_never_claimed_twice(ledger: Ledger) -> None:
    store, _ = added(ledger)
    at = START + MINUTE
    first = store.claim_due(at)
    assert len(first.runs) == 1
    store.end(first.runs[0], RunOutcome(state="done"))
    assert not store.claim_due(at).runs and not store.claim_due(at + 59).runs
    assert not store.claim_due(at - 3600).runs, "the clock was put back"


def test_runs_during_downtime_are_said_in_one_entry_and_not_made_up_for(ledger: Ledger) -> None:
    store, _ = added(ledger, "0 * * * *")
    claim = store.claim_due(START + 5.5 * 3600)
    (missed,) = claim.missed
    assert not claim.runs
    assert (missed.record.count, missed.record.first, missed.record.last) == (5, START + 3600, START + 5 * 3600)
    assert str(missed) == (f"Missed 5 runs from 2027-01-15 09:00 +0000 to 2027-01-15 13:00 +0000: {NOT_RUNNING}.")
    (listed,) = store.list()
    assert (listed.missed, listed.next_at) == (5, START + 6 * 3600)
    assert listed.missed_note == str(missed)
    assert not store.claim_due(START + 5.5 * 3600).missed, "they are said once"
    assert kinds(ledger) == ["scheduled", "missed"] and ledger.verify().ok


def test_the_newest_run_takes_place_if_it_is_less_than_a_minute_late(ledger: Ledger) -> None:
    store, _ = added(ledger)
    claim = store.claim_due(START + 10 * MINUTE + 30)
    (due,), (missed,) = claim.runs, claim.missed
    assert due.due == START + 10 * MINUTE
    assert (missed.record.count, missed.record.first, missed.record.last) == (9, START + MINUTE, START + 9 * MINUTE)
    store.end(due, RunOutcome(state="done"))
    (one,) = store.claim_due(START + 12 * MINUTE + 59.9).missed
    assert str(one) == f"Missed the run of 2027-01-15 08:11 +0000: {NOT_RUNNING}."


def test_a_long_downtime_is_counted_to_a_bound(ledger: Ledger) -> None:
    store, _ = added(ledger)
    now = START + 400 * 86_400
    (missed,) = store.claim_due(now).missed
    assert (missed.record.count, missed.record.more, missed.record.last) == (1000, True, now)
    assert "more than 1,000 runs" in str(missed)
    assert store.next_at() == now + MINUTE


def test_a_run_is_skipped_while_the_one_before_it_has_not_ended(ledger: Ledger) -> None:
    store, _ = added(ledger)
    (due,) = store.claim_due(START + MINUTE).runs
    claim = store.claim_due(START + 2 * MINUTE)
    assert not claim.runs and [one.record.why for one in claim.missed] == [STILL_RUNNING]
    store.end(due, RunOutcome(state="done"))
    assert len(store.claim_due(START + 3 * MINUTE).runs) == 1


async def _pending(ledger: Ledger, call_id: str) -> None:
    await ledger.add_pending(make_pending(call_id))


def test_a_run_is_skipped_while_the_last_call_is_pending(ledger: Ledger) -> None:
    store, _ = added(ledger)
    (due,) = store.claim_due(START + MINUTE).runs
    asyncio.run(_pending(ledger, due.call_id))
    store.end(due, RunOutcome(state="pending", call=due.call_id))
    assert [one.record.why for one in store.claim_due(START + 2 * MINUTE).missed] == [STILL_PENDING]
    assert store.list()[0].last_state == "pending"
    ledger.end_now(due.call_id, DONE)
    assert store.list()[0].last_state == "done", "the state of the call now"
    assert len(store.claim_due(START + 3 * MINUTE).runs) == 1


def test_a_claimed_run_whose_call_never_began_is_missed_and_not_repeated(ledger: Ledger) -> None:
    store, schedule = added(ledger)
    store.claim_due(START + MINUTE)
    assert store.recover() == [], "its process is alive"
    forget_owner(ledger)
    assert not store.list()[0].running
    (missed,) = store.recover()
    assert (missed.schedule, missed.record.first, missed.record.why) == (schedule, START + MINUTE, NEVER_BEGAN)
    assert store.recover() == [] and store.list()[0].missed == 1
    assert kinds(ledger) == ["scheduled", "fired", "missed"] and ledger.verify().ok
    assert len(store.claim_due(START + 2 * MINUTE).runs) == 1


def test_a_run_whose_call_is_in_the_ledger_is_not_missed(ledger: Ledger) -> None:
    store, _ = added(ledger)
    (due,) = store.claim_due(START + MINUTE).runs
    ledger.record_call_now(make_call(due.call_id), APPROVED, DONE)
    forget_owner(ledger)
    assert store.recover() == []
    (listed,) = store.list()
    assert (listed.last_call, listed.last_state, listed.missed) == (due.call_id, "done", 0)


def test_an_interrupted_advance_of_a_document_has_an_unknown_outcome(ledger: Ledger) -> None:
    store, _ = added(ledger, document="/project/a.chat")
    store.claim_due(START + MINUTE)
    forget_owner(ledger)
    claim = store.claim_due(START + MINUTE + 1)
    assert claim.missed == ()
    (listed,) = store.list()
    assert listed.last_state == "unknown" and "open it to see how far it got" in listed.last_message


def test_pruning_removes_old_runs_and_the_chain_stays_valid(ledger: Ledger) -> None:
    store, _ = added(ledger)
    (due,) = store.claim_due(START + MINUTE).runs
    report = prune(ledger, older_than=4e9, max_bytes=None, by="ada")
    assert report.entries == 1 and kinds(ledger) == ["scheduled", "pruned"]
    store.end(due, RunOutcome(state="done"))
    forget_owner(ledger)
    store.claim_due(START + 5 * MINUTE)
    assert ledger.verify().ok, ledger.verify()


def test_a_changed_schedule_is_found_by_verify_and_a_damaged_one_never_runs(ledger: Ledger) -> None:
    store, _ = added(ledger)
    assert ledger.verify().ok
    ledger.run(lambda tx: tx.execute("UPDATE schedules SET body = replace(body, 'note', 'shell')"))
    assert ledger.verify().problem == "The table schedules does not match the entries."
    ledger.run(lambda tx: tx.execute("UPDATE schedules SET body = '{}'"))
    assert not store.claim_due(START + MINUTE).runs and store.list() == []


def test_a_secret_in_the_arguments_is_refused_rather_than_stored(tmp_path: Path) -> None:
    redactor = Redactor()
    redactor.add("key", "sup3r-s3cret-value")
    with Ledger.open(tmp_path / "l.db", redact=redactor) as ledger:
        store = ScheduleStore(ledger)
        work = ScheduledWork(expression="@daily", zone="UTC", tool="note", args={"text": "sup3r-s3cret-value"})
        secret = replace(make_schedule(), work=work)
        with pytest.raises(ScheduleRefused, match="contain a secret"):
            store.add(secret, START)
        assert store.list() == []


def test_there_is_a_bound_to_the_number_of_schedules(ledger: Ledger) -> None:
    store = ScheduleStore(ledger)
    for _ in range(MAX_SCHEDULES):
        store.add(make_schedule("@daily"), START)
    with pytest.raises(ScheduleRefused, match="Remove one first"):
        store.add(make_schedule("@daily"), START)


def test_a_read_only_ledger_of_an_older_version_has_no_schedules(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with Ledger.open(path) as ledger:
        ledger.run(lambda tx: tx.execute("DROP TABLE schedules"))
        ledger.run(lambda tx: tx.execute("PRAGMA user_version = 3"))
    with Ledger.open(path, read_only=True) as ledger:
        assert ScheduleStore(ledger).list() == [] and ledger.verify().ok
    with Ledger.open(path) as ledger:
        added(ledger)
        assert len(ScheduleStore(ledger).list()) == 1


def test_downtime_across_a_change_of_the_clock_counts_each_local_time_once(ledger: Ledger) -> None:
    zone = ZoneInfo("Europe/Berlin")
    store, schedule = ScheduleStore(ledger), make_schedule("30 2 * * *", zone="Europe/Berlin")
    store.add(schedule, datetime(2026, 10, 24, 12, tzinfo=zone).timestamp())
    (missed,) = store.claim_due(datetime(2026, 10, 26, 12, tzinfo=zone).timestamp()).missed
    assert missed.record.count == 2
    assert store.next_at() == datetime(2026, 10, 27, 2, 30, tzinfo=zone).timestamp()


@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "0 * * * *", "30 2 * * *"]),
    st.sampled_from(["UTC", "Europe/Berlin"]),
    st.lists(st.floats(0.5, 20_000), min_size=1, max_size=12),
)
@settings(max_examples=40, deadline=None)
def test_every_time_is_run_or_missed_exactly_once(expression: str, zone: str, steps: list[float]) -> None:
    with Ledger.in_memory() as ledger:
        store, schedule = ScheduleStore(ledger), make_schedule(expression, zone=zone)
        store.add(schedule, START)
        now, seen = START, 0
        for step in steps:
            now += step
            claim = store.claim_due(now)
            assert len(claim.runs) <= 1, "never in a bunch"
            seen += len(claim.runs) + sum(one.record.count for one in claim.missed)
            for due in claim.runs:
                assert now - 60 < due.due <= now
                store.end(due, RunOutcome(state="done"))
        wanted = 0
        for at in CronExpression(expression, zone).times_after(START):
            if at > now:
                break
            wanted += 1
        assert seen == wanted and ledger.verify().ok


CLAIM = """
import sys
from pathlib import Path
from holdfast.store.ledger import Ledger
from holdfast.store.schedules import RunOutcome, ScheduleStore
store = ScheduleStore(Ledger.open(Path(sys.argv[1])))
start = float(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for minute in range(1, 41):
    for due in store.claim_due(start + 60 * minute).runs:
        print(due.call_id, flush=True)
        store.end(due, RunOutcome(state="done", call=None))
"""


def test_two_processes_never_run_the_same_minute(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        for _ in range(3):
            added(ledger)
    words = [sys.executable, "-c", CLAIM, str(path), str(START)]
    children = [
        subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    claimed = Counter(line for child in children for line in child.communicate(timeout=120)[0].split())
    assert claimed and max(claimed.values()) == 1
    with Ledger.open(path) as ledger:
        statuses = ScheduleStore(ledger).list()
        assert len(claimed) + sum(status.missed for status in statuses) == 3 * 40
        assert ledger.verify().ok


KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.store.ledger import Ledger
from holdfast.store.schedules import ScheduleStore
from tests.store.calls import SCHEDULED as START
from tests.store.calls import APPROVED, DONE, make_call
ledger = Ledger.open(Path(sys.argv[1]))
(due,) = ScheduleStore(ledger).claim_due(float(sys.argv[2])).runs
if sys.argv[3] == "called":
    ledger.record_call_now(make_call(due.call_id), APPROVED, DONE)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_between_claim_and_call_is_reported_and_the_run_does_not_take_place_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with Ledger.open(path) as ledger:
        added(ledger)
    called = 0
    for number in range(1, rounds(4, 20) + 1):
        how = "called" if number % 2 else "killed before"
        at = START + number * MINUTE
        child = subprocess.run(
            [sys.executable, "-c", KILLED, str(path), str(at), how], cwd=ROOT, timeout=60, check=False
        )
        assert child.returncode == -signal.SIGKILL
        called += number % 2
        with Ledger.open(path) as ledger:
            store = ScheduleStore(ledger)
            claim = store.claim_due(at + 1)
            assert not claim.runs, "at most once"
            assert [one.record.why for one in claim.missed] == ([] if number % 2 else [NEVER_BEGAN])
            assert store.list()[0].missed == number - called and ledger.verify().ok
