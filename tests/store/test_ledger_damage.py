"""An unreadable row affects no other: `verify` reports it, and everything else works."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.call import Answer
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, LedgerCorrupt
from holdfast.store.changes import changing_calls, net_changes
from holdfast.store.entries import TrustedContent
from holdfast.store.ledger import Ledger
from holdfast.store.retention import prune
from holdfast.store.trust import TrustStore
from tests.soak import some
from tests.store.calls import APPROVED, DONE, YES, begin, make_call, make_pending

VALUES: tuple[Any, ...] = (
    5,
    2**62,
    b"\xff\xfe",
    "",
    "{",
    "[1, 2]",
    "{}",
    '{"pending":{"call":5}}',
    '{"blob":"' + "0" * 64 + '","size":3}',
    '{"blob":"../../x","size":3}',
    "[" * 50_000,
    float("inf"),
    1e300,
)
TAKEN_OUT = "NULL"
TEXT_THAT_IS_NO_TEXT = "CAST(x'25ffff' AS TEXT)"
COLUMNS = {
    "entries": ("call", "kind", "at", "body", "hash", "place"),
    "open_calls": ("state", "digest", "approver", "pid", "pid_start", "mutates", "entry"),
    "grants": ("uses", "body"),
    "trust": ("digest", "body"),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two of everything; the victim comes first, so that a reader reaches it before the others."""
    path = tmp_path_factory.mktemp("whole") / "l.db"
    with Ledger.open(path) as ledger:

        async def scenario() -> None:
            for name in ("victim", "other"):
                await ledger.record_call(make_call(f"{name}-whole"), APPROVED, DONE)
                await begin(ledger, make_call(f"{name}-running"))
                ledger.before_image(f"{name}-running", path, b"before")
                await ledger.end(f"{name}-running", DONE)
                await ledger.add_pending(make_pending(f"{name}-pending"))
                pending_call = make_pending(f"{name}-approved")
                await ledger.add_pending(pending_call)
                ledger.answer(pending_call.call.id, YES, digest=pending_call.digest)
                await ledger.add_pending(make_pending(f"{name}-rejected"))
                ledger.answer(
                    f"{name}-rejected", Answer(kind="reject", by="ada"), digest=make_pending(f"{name}-rejected").digest
                )
                ledger.grants.add(tool=name, pattern={"path": "a"}, scope="project", by="ada")

        asyncio.run(scenario())
    trust = TrustStore(path)
    trust.trust(Path("/a/victim"), "d", by="ada")
    trust.trust(Path("/b/other"), "d", by="ada")
    trust.close()
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return _copied(whole, tmp_path / "copy")


def _copied(whole: Path, folder: Path) -> Path:
    shutil.copytree(whole.parent, folder)
    return folder / whole.name


def _damage(path: Path, table: str, column: str, rows: str, value: Any) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    told = {None: TEXT_THAT_IS_NO_TEXT, TAKEN_OUT: "NULL"}.get(value, "?")
    given = (value,) if told == "?" else ()
    done = connection.execute(f"UPDATE {table} SET {column} = {told} WHERE {rows}", given)
    assert done.rowcount > 0
    connection.close()


def _row(path: Path, sql: str) -> Any:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchone()


def _rest_works(path: Path) -> None:
    """Check queries about the other calls and about all calls."""
    with Ledger.open(path) as ledger:
        ledger.recover()
        waiting = {pending_call.call.id: pending_call for pending_call in ledger.pending()}
        assert {"other-pending", "other-approved"} <= set(waiting)
        assert waiting["other-approved"].state is State.APPROVED
        records = ledger.calls(100)
        for record in records:
            for at in (record.received_at, record.began_at, record.ended_at, *(given.at for given in record.answers)):
                assert at is None or datetime.fromtimestamp(at, UTC)
        listed = {record.call.id for record in records}
        assert {"other-whole", "other-running", "other-pending", "other-approved", "other-rejected"} <= listed
        assert ledger.call("other-rejected").state is State.REJECTED
        assert ledger.result("other-running") == DONE
        assert ledger.find("other-whole") == "other-whole"
        assert [grant.tool for grant in ledger.grants.list() if grant.tool == "other"] == ["other"]
        assert "other-running" in changing_calls(ledger, 10)
        assert net_changes(ledger, "other-running")
        assert len(list(ledger.export())) == ledger.rows("SELECT count(*) FROM entries")[0][0]
        list(ledger.calls_for("x", 10))
        list(ledger.active_since(0))
        prune(ledger, older_than=1.0, max_bytes=None, by="test")
        pending_call = waiting["other-pending"]
        assert ledger.answer(pending_call.call.id, YES, digest=pending_call.digest).state is State.APPROVED
        ledger.record_call_now(make_call(), APPROVED, DONE)
    trust = TrustStore(path)
    assert "/b/other" in [item.path for item in trust.list()]
    trust.close()


@pytest.mark.spec("X10")
@pytest.mark.parametrize("column", COLUMNS["entries"])
@pytest.mark.parametrize("kind", some(["call", "pending", "answered", "intent", "ended", "before", "granted"], 3))
def test_a_damaged_entry_is_reported_and_the_others_still_work(
    whole: Path, tmp_path: Path, kind: str, column: str
) -> None:
    rows = f"kind = '{kind}' AND (call LIKE 'victim%' OR call = '' AND body LIKE '%victim%')"
    bad, before = _row(whole, f"SELECT min(id), {column} FROM entries WHERE {rows}")
    for number, value in enumerate((*VALUES, None)):
        if value == before:
            continue
        path = _copied(whole, tmp_path / str(number))
        _damage(path, "entries", column, f"id = {bad}", value)
        with Ledger.open(path) as ledger:
            found = ledger.verify()
            assert (found.ok, found.first_bad) == (False, bad), (value, found.problem)
            assert f"Entry {bad} " in (found.problem or "")
        _rest_works(path)


@pytest.mark.spec("X10")
@pytest.mark.parametrize(("table", "column"), [(table, one) for table in list(COLUMNS)[1:] for one in COLUMNS[table]])
def test_a_damaged_table_row_is_detected_and_the_others_still_work(
    whole: Path, tmp_path: Path, table: str, column: str
) -> None:
    row = {"open_calls": "call = 'victim-pending'", "grants": "body LIKE '%victim%'", "trust": "path = '/a/victim'"}
    (before,) = _row(whole, f"SELECT {column} FROM {table} WHERE {row[table]}")
    for number, value in enumerate((*VALUES, None)):
        if value == before:
            continue
        path = _copied(whole, tmp_path / str(number))
        _damage(path, table, column, row[table], value)
        with Ledger.open(path) as ledger:
            found = ledger.verify()
            assert not found.ok, value
            assert f"table {table}" in (found.problem or ""), value
        _rest_works(path)


@pytest.mark.spec("X10")
def test_entries_can_be_appended_after_a_damaged_last_entry(path: Path) -> None:
    """Every new entry is chained to the last one."""
    _damage(path, "entries", "hash", "id = (SELECT max(id) FROM entries)", "not a hash")
    _rest_works(path)


@pytest.mark.spec("X10")
def test_an_invalid_entry_with_a_correct_hash_is_reported(path: Path) -> None:
    with Ledger.open(path) as ledger:
        body = ledger.encode_body(TrustedContent(path="/x", digest="d", by="ada", at=1.0)).replace('"/x"', "5")
        entry = ledger.run(lambda tx: tx.append("", "trusted", body))
        pending_call = ledger.run(lambda tx: tx.append("wrong", "pending", '{"pending":{"call":{"id":5}}}', first=True))
        ledger.record_call_now(make_call(), APPROVED, DONE)
        found = ledger.verify()
    assert not found.ok
    assert [(item.entry, item.call, item.kind) for item in found.unreadable] == [
        (entry, "", "trusted"),
        (pending_call, "wrong", "pending"),
    ]
    assert found.first_bad == entry
    assert f"Entry {entry} (trusted) cannot be read" in (found.problem or "")
    _rest_works(path)


@pytest.mark.spec("X10")
def test_a_pending_call_that_cannot_be_read_is_reported_by_its_id_and_can_be_ended(path: Path) -> None:
    _damage(path, "entries", "body", "call = 'victim-pending'", "{")
    with Ledger.open(path) as ledger:
        assert ledger.unreadable_pending() == ["victim-pending"]
        for ask in (ledger.find_pending, ledger.call):
            with pytest.raises(LedgerCorrupt, match="call victim-pending cannot be read"):
                ask("victim-pending")
        with pytest.raises(HoldfastError):
            ledger.answer("victim-pending", YES, digest=make_pending("victim-pending").digest)
        assert ledger.end_now("victim-pending", DONE)
        assert ledger.unreadable_pending() == []


@pytest.mark.spec("X10")
@pytest.mark.parametrize("state", ["bogus", "", "done", 5, b"pending", None])
@pytest.mark.parametrize("with_digest", [True, False])
def test_an_open_call_in_an_unknown_state_is_reported_and_can_be_ended(
    path: Path, state: object, with_digest: bool
) -> None:
    _damage(path, "open_calls", "state", "call = 'victim-pending'", state)
    if not with_digest:
        _damage(path, "open_calls", "digest", "call = 'victim-pending'", TAKEN_OUT)
    with Ledger.open(path) as ledger:
        assert ledger.unreadable_pending() == ["victim-pending"]
        assert "victim-pending" not in [item.call.id for item in ledger.pending()]
        assert ledger.end_now("victim-pending", DONE, unless_running=True)
        assert ledger.unreadable_pending() == []


@pytest.mark.spec("X10")
def test_an_entry_too_deeply_nested_to_encode_again_is_exported_as_damaged(path: Path) -> None:
    (count,) = _row(path, "SELECT count(*) FROM entries")
    for depth in range(300, 1100, 20):
        _damage(path, "entries", "body", "call = 'victim-whole'", "[" * depth + "]" * depth)
        with Ledger.open(path) as ledger:
            assert len(list(ledger.export())) == count
