"""The tables derived from the entries: a replay of the entries gives the same rows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.store.ledger import Ledger
from holdfast.store.projections import TABLES, ExpectedTables, first_mismatch
from holdfast.store.schedules import ScheduleStore
from holdfast.store.trust import TrustStore
from tests.store.calls import APPROVED, DONE, YES, begin, make_call, make_pending, make_schedule


def replay(ledger: Ledger) -> ExpectedTables:
    expected = ExpectedTables(ledger.read_body)
    for entry, call, kind, body in ledger.rows("SELECT id, call, kind, body FROM entries ORDER BY id"):
        expected.feed(entry, call, kind, body)
    return expected


async def fill(ledger: Ledger) -> None:
    """Add calls in every state, and grants that are new, used and revoked."""
    ledger.record_call_now(make_call(), APPROVED, DONE)
    await begin(ledger, make_call())
    pending, approved, rejected = make_pending(), make_pending(), make_pending()
    for call in (pending, approved, rejected):
        await ledger.add_pending(call)
    ledger.answer(approved.call.id, YES, digest=approved.digest)
    ended = make_call()
    await begin(ledger, ended)
    await ledger.end(ended.id, DONE)
    once = ledger.grants.add(tool="a", pattern={}, scope="once", by="ada")
    ledger.grants.consume(once.id, ended.id)
    revoked = ledger.grants.add(tool="b", pattern={}, scope="project", by="ada")
    ledger.grants.revoke(revoked.id, by="ada")
    ledger.grants.add(tool="c", pattern={"path": "x"}, scope="project", by="ada")
    store, kept, removed = ScheduleStore(ledger), make_schedule(), make_schedule()
    for schedule in (kept, removed):
        store.add(schedule, schedule.created)
    store.remove(removed.id, by="ada", call=ended.id)


@pytest.mark.spec("X10")
def test_a_replay_of_the_entries_gives_the_rows_of_every_table(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    trust = TrustStore(path)
    trust.trust(Path("/a.toml"), "a" * 64, by="ada")
    trust.trust(Path("/b.toml"), "b" * 64, by="ada")
    trust.revoke(Path("/b.toml"), by="ada")
    trust.close()
    with Ledger.open(path) as ledger:
        asyncio.run(fill(ledger))
        expected = replay(ledger)
        for table, columns in TABLES.items():
            found = ledger.rows(f"SELECT {columns} FROM {table} ORDER BY 1")
            assert found and found == expected.rows(table), table
        assert expected.stray_end is None


@pytest.mark.spec("X10")
@pytest.mark.parametrize("table", sorted(TABLES))
def test_a_missing_row_is_a_mismatch_of_its_table(tmp_path: Path, table: str) -> None:
    path = tmp_path / "l.db"
    trust = TrustStore(path)
    trust.trust(Path("/a.toml"), "a" * 64, by="ada")
    trust.close()
    with Ledger.open(path) as ledger:
        asyncio.run(fill(ledger))
        expected = replay(ledger)
        ledger.run(lambda tx: tx.execute(f"DELETE FROM {table}"))
        assert ledger.run(lambda tx: first_mismatch(expected, tx.execute)) == table


@pytest.mark.spec("X10")
def test_an_end_of_a_call_that_is_not_open_is_reported_by_its_entry(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db") as ledger:
        call = make_call()
        asyncio.run(begin(ledger, call))
        ledger.end_now(call.id, DONE)
        body = ledger.rows("SELECT body FROM entries WHERE kind = 'ended'")[0][0]
        forged = ledger.run(lambda tx: tx.append(call.id, "ended", body))
        assert replay(ledger).stray_end == forged
