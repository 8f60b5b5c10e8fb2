"""Group commit: shared transactions, isolation of failures, cancelled callers, locks."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.contract.call import PendingCall
from holdfast.contract.enums import State
from holdfast.contract.errors import LedgerUnavailable, NotPending
from holdfast.store import database as database_module
from holdfast.store.database import Transaction
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, begin, make_call, make_pending


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "l.db") as opened:
        yield opened


def transactions(ledger: Ledger) -> int:
    return ledger.version()[1]


@pytest.mark.spec("X10")
def test_a_hundred_concurrent_writes_take_two_transactions(ledger: Ledger) -> None:
    calls = [make_call() for _ in range(100)]

    async def scenario() -> None:
        await asyncio.gather(*(ledger.record_call(call, APPROVED, DONE) for call in calls))

    asyncio.run(scenario())
    assert transactions(ledger) == 2
    assert [entry.call for entry in ledger.entries()] == [call.id for call in calls]
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_a_failing_operation_does_not_fail_the_others_in_its_group(ledger: Ledger) -> None:
    known = make_call()
    calls = [make_call() for _ in range(5)]

    async def scenario() -> list[BaseException | None]:
        await ledger.record_call(known, APPROVED, DONE)
        written = [ledger.record_call(call, APPROVED, DONE) for call in (*calls[:3], known, *calls[3:])]
        return await asyncio.gather(*written, return_exceptions=True)

    outcomes = asyncio.run(scenario())
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 3 + [NotPending] + [type(None)] * 2
    assert [entry.call for entry in ledger.entries()] == [known.id, *(call.id for call in calls)]
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_an_operation_that_raises_is_rolled_back(ledger: Ledger) -> None:
    def broken(tx: Transaction) -> None:
        tx.append("broken", "call", "{}")
        raise ZeroDivisionError

    async def scenario() -> list[BaseException | None]:
        work = [ledger.record_call(make_call(), APPROVED, DONE), ledger.commit(broken)]
        return await asyncio.gather(*work, ledger.record_call(make_call(), APPROVED, DONE), return_exceptions=True)

    outcomes = asyncio.run(scenario())
    assert isinstance(outcomes[1], ZeroDivisionError)
    assert len(list(ledger.entries())) == 2
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_a_task_that_writes_continuously_does_not_starve_others(ledger: Ledger) -> None:
    async def scenario() -> int:
        turns = 0

        async def counts() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(counts())
        for _ in range(500):
            await ledger.record_call(make_call(), APPROVED, DONE)
        counting.cancel()
        return turns

    assert asyncio.run(scenario()) > 5


@pytest.mark.spec("X10")
@pytest.mark.parametrize("way", ["begin", "hold"])
def test_a_call_whose_caller_was_cancelled_is_not_left_open(ledger: Ledger, way: str) -> None:
    early, late = make_pending(), make_pending()
    tasks: dict[str, asyncio.Task[None]] = {}

    async def opens(pending_call: PendingCall) -> None:
        await (begin(ledger, pending_call.call) if way == "begin" else ledger.add_pending(pending_call))

    async def writes_then_cancels_late() -> None:
        await ledger.record_call(make_call(), APPROVED, DONE)
        tasks["late"].cancel()

    async def scenario() -> None:
        # All run in one iteration of the event loop: the first writes immediately, the others wait for the end of the
        # iteration and are resumed in this order.
        steps = {"first": ledger.record_call(make_call(), APPROVED, DONE), "writer": writes_then_cancels_late()}
        steps |= {"early": opens(early), "late": opens(late)}
        tasks.update({name: asyncio.create_task(step) for name, step in steps.items()})
        await asyncio.sleep(0)
        tasks["early"].cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert tasks["early"].cancelled() and tasks["late"].cancelled()

    asyncio.run(scenario())
    assert list(ledger.entries(call=early.call.id)) == []
    assert ledger.call(late.call.id).state is State.CANCELLED
    assert ledger.rows("SELECT count(*) FROM open_calls") == [(0,)]


@pytest.mark.spec("X10")
def test_a_result_is_written_even_if_its_caller_is_cancelled(ledger: Ledger) -> None:
    calls = [make_call(), make_call()]

    async def scenario() -> None:
        for call in calls:
            await begin(ledger, call)
        await asyncio.sleep(0)
        ends = [asyncio.create_task(ledger.end(call.id, DONE)) for call in calls]
        await asyncio.sleep(0)
        ends[1].cancel()
        await asyncio.gather(*ends, return_exceptions=True)

    asyncio.run(scenario())
    assert [ledger.call(call.id).state for call in calls] == [State.DONE, State.DONE]


@pytest.mark.spec("X10")
def test_the_event_loop_stays_responsive_while_another_process_writes(ledger: Ledger) -> None:
    other = sqlite3.connect(ledger.path, isolation_level=None)

    async def scenario() -> int:
        other.execute("BEGIN IMMEDIATE")
        turns = 0
        writing = asyncio.gather(*(ledger.record_call(make_call(), APPROVED, DONE) for _ in range(3)))
        for _ in range(20):
            turns += 1
            await asyncio.sleep(0.01)
        assert not writing.done()
        other.execute("ROLLBACK")
        await asyncio.wait_for(writing, 60)
        return turns

    assert asyncio.run(scenario()) == 20
    other.close()
    assert len(list(ledger.entries())) == 3


@pytest.mark.spec("X10")
def test_a_permanent_lock_is_an_error_and_nothing_is_written(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "LOCK_TIMEOUT", 0.1)
    monkeypatch.setattr("holdfast.store.group_commit.LOCK_TIMEOUT", 0.1)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="locked by another program"):
        asyncio.run(begin(ledger, make_call()))
    with pytest.raises(LedgerUnavailable, match="locked by another program"):
        ledger.end_now("c", DONE)
    other.execute("ROLLBACK")
    other.close()
    assert list(ledger.entries()) == []
    asyncio.run(begin(ledger, make_call()))


@pytest.mark.spec("X10")
def test_a_ledger_works_with_successive_event_loops_and_other_threads(ledger: Ledger) -> None:
    def record() -> None:
        for _ in range(20):
            ledger.record_call_now(make_call(), APPROVED, DONE)

    async def scenario() -> None:
        for _ in range(20):
            await ledger.record_call(make_call(), APPROVED, DONE)

    threads = [threading.Thread(target=record) for _ in range(2)]
    threads.append(threading.Thread(target=lambda: asyncio.run(scenario())))
    for thread in threads:
        thread.start()
    asyncio.run(scenario())
    for thread in threads:
        thread.join(30)
    asyncio.run(scenario())
    assert len(list(ledger.entries())) == 100
    assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_closing_the_ledger_commits_queued_writes(tmp_path: Path) -> None:
    call, pending_call = make_call(), make_pending()
    ledger = Ledger.open(tmp_path / "l.db")

    async def scenario() -> None:
        tasks = [asyncio.create_task(ledger.add_pending(pending_call)), asyncio.create_task(begin(ledger, call))]
        await asyncio.sleep(0)
        ledger.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())
    with Ledger.open(tmp_path / "l.db") as again:
        assert [entry.call for entry in again.entries()] == [pending_call.call.id, call.id]
