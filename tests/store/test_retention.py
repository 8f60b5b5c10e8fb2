"""Pruning of old calls and blobs; the hash chain stays verifiable."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.config.config import LedgerConfig
from holdfast.contract.errors import UnknownCall
from holdfast.contract.result import Result
from holdfast.store import database, entries
from holdfast.store.ledger import Ledger
from holdfast.store.retention import DAY, prune, prune_by_config
from tests.store.calls import APPROVED, DONE, YES, before_images, begin, make_call, make_pending

NOW = time.time()
OLD = NOW - 200 * DAY


@pytest.fixture
def ledger(tmp_path: Path) -> Generator[Ledger]:
    with Ledger.open(tmp_path / "state" / "ledger.db") as ledger:
        yield ledger


class Clock:
    """Sets the time at which entries are written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = NOW
        monkeypatch.setattr(database.time, "time", lambda: self.at)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def age(ledger: Ledger, days: float = 200) -> None:
    """Make all blobs look old."""
    for file in ledger.blobs.folder.rglob("*"):
        os.utime(file, (NOW - days * DAY, NOW - days * DAY))


def changing(ledger: Ledger, call_id: str, content: bytes, output: str = "") -> None:
    call = make_call(call_id)
    asyncio.run(begin(ledger, call))
    ledger.before_image(call_id, Path("/p/a"), content)
    spill = ledger.blobs.spill(output, 10**6).reference if output else None
    ledger.end_now(call_id, replace(DONE, metadata={"spill": spill} if spill else {}))


def blobs(ledger: Ledger) -> set[str]:
    return {file.name for file in ledger.blobs.folder.rglob("*") if file.is_file()}


def older_than(days: float) -> float:
    return NOW - days * DAY


@pytest.mark.spec("X15")
def test_old_finished_calls_are_pruned_with_their_blobs_and_the_rest_stays(ledger: Ledger, clock: Clock) -> None:
    clock.at = OLD
    changing(ledger, "old", b"before", "a long output")
    ledger.record_call_now(make_call("old-whole"), APPROVED, DONE)
    age(ledger)
    clock.at = NOW
    changing(ledger, "new", b"newer", "another output")
    kept = {image.blob for image in before_images(ledger, "new")}
    done = prune(ledger, older_than=older_than(90), max_bytes=None, by="ada")
    assert (done.calls, done.entries, done.blobs) == (2, 4, 2)
    assert kept < blobs(ledger)
    assert len(blobs(ledger)) == 2
    assert [record.call.id for record in ledger.calls()] == ["new"]
    with pytest.raises(UnknownCall, match="were pruned"):
        ledger.find("old")
    found = ledger.verify()
    assert (found.ok, found.pruned, found.entries) == (True, 4, len(list(ledger.entries())))
    assert ledger.verify(found.head).ok


@pytest.mark.spec("X15")
def test_open_calls_grants_and_trust_are_never_pruned(ledger: Ledger, clock: Clock) -> None:
    clock.at = OLD
    ledger.record_call_now(make_call("gone-1"), APPROVED, DONE)
    asyncio.run(ledger.add_pending(make_pending("pending", args={"content": "x" * 2_000_000})))
    approved = make_pending("approved")
    asyncio.run(ledger.add_pending(approved))
    ledger.answer("approved", YES, digest=approved.digest)
    asyncio.run(begin(ledger, make_call("running")))
    ledger.before_image("running", Path("/p/r"), b"what was there")
    ledger.record_call_now(make_call("gone-2"), APPROVED, DONE)
    ledger.grants.add(tool="file.read", pattern={}, scope="project", by="ada")
    ledger.record_call_now(make_call("gone-3"), APPROVED, DONE)
    age(ledger)
    clock.at = NOW
    before = [ledger.rows(f"SELECT * FROM {table}") for table in ("open_calls", "grants", "trust")]
    kept = blobs(ledger)
    done = prune(ledger, older_than=older_than(90), max_bytes=1, by="ada")
    assert done.calls == 3
    assert blobs(ledger) == kept
    assert [ledger.rows(f"SELECT * FROM {table}") for table in ("open_calls", "grants", "trust")] == before
    assert {pending_call.call.id for pending_call in ledger.pending()} == {"pending", "approved"}
    assert ledger.verify().ok
    ledger.end_now("running", Result(True))
    clock.at = NOW + 300 * DAY
    assert prune(ledger, older_than=clock.at - 90 * DAY, max_bytes=None, by="ada").calls == 1
    assert ledger.verify().ok


@pytest.mark.spec("X15", "X10")
@pytest.mark.parametrize(
    "script",
    [
        "DELETE FROM entries WHERE id = 4",
        "DELETE FROM pruned",
        "UPDATE pruned SET hash = zeroblob(32)",
        "INSERT INTO pruned SELECT 4, 4, hash FROM entries WHERE id = 4; DELETE FROM entries WHERE id = 4",
        "UPDATE pruned SET last = 4, hash = (SELECT hash FROM entries WHERE id = 4); DELETE FROM entries WHERE id = 4",
        "INSERT INTO entries SELECT 2, call, kind, at, body, hash, 2 FROM entries WHERE id = 4",
    ],
    ids=str.split("deleted gap-deleted gap-changed gap-forged gap-widened inserted"),
)
def test_a_deletion_disguised_as_pruning_is_detected(ledger: Ledger, clock: Clock, script: str) -> None:
    clock.at = OLD
    for number in range(3):
        ledger.record_call_now(make_call(f"old-{number}"), APPROVED, DONE)
    clock.at = NOW
    for number in range(3):
        ledger.record_call_now(make_call(f"new-{number}"), APPROVED, DONE)
    prune(ledger, older_than=older_than(90), max_bytes=None, by="ada")
    assert ledger.verify().ok
    ledger.close()
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    connection.execute("DROP TRIGGER entries_are_never_deleted")
    connection.executescript(script)
    connection.close()
    with Ledger.open(ledger.path) as reopened:
        assert not reopened.verify().ok


@pytest.mark.spec("X15", "X10")
def test_an_anchor_in_a_pruned_range_is_not_accepted(ledger: Ledger, clock: Clock) -> None:
    clock.at = OLD
    ledger.record_call_now(make_call("old-1"), APPROVED, DONE)
    inside = ledger.verify().head
    ledger.record_call_now(make_call("old-2"), APPROVED, DONE)
    last = ledger.verify().head
    clock.at = NOW
    prune(ledger, older_than=older_than(90), max_bytes=None, by="ada")
    assert ledger.head() == ledger.verify().head
    assert ledger.verify(last).ok
    found = ledger.verify(inside)
    assert not found.ok
    assert "may have been pruned" in (found.problem or "")


@pytest.mark.spec("X15")
def test_repeated_pruning_keeps_the_hash_chain_valid(ledger: Ledger, clock: Clock) -> None:
    for turn in range(6):
        clock.at = OLD + turn * 10 * DAY
        ledger.record_call_now(make_call(f"c{turn}"), APPROVED, DONE)
        ledger.grants.add(tool="t", pattern={}, scope="project", by="ada")
        clock.at = NOW
        prune(ledger, older_than=OLD + (turn * 10 - 15) * DAY, max_bytes=None, by="ada")
        assert ledger.verify().ok
    assert [record.call.id for record in ledger.calls()] == ["c5", "c4"]
    assert len(ledger.grants.list()) == 6


@pytest.mark.spec("X15")
def test_over_the_size_limit_the_oldest_blobs_are_removed_and_their_calls_stay(ledger: Ledger) -> None:
    for number in range(4):
        changing(ledger, f"c{number}", bytes([number]) * 1000)
    changing(ledger, "again", bytes([0]) * 1000)
    first, second = (before_images(ledger, name)[0].blob or "" for name in ("c0", "c1"))
    looked = prune(ledger, older_than=None, max_bytes=3500, by="ada", dry_run=True)
    assert len(blobs(ledger)) == 4
    done = prune(ledger, older_than=None, max_bytes=3500, by="ada")
    assert looked == done
    assert (done.calls, done.blobs, done.freed, done.kept_bytes) == (0, 1, 1000, 3000)
    assert ledger.blobs.has(first)
    assert not ledger.blobs.has(second)
    assert ledger.call("c1").state == "done"
    assert ledger.verify().ok


@pytest.mark.spec("X15")
def test_an_unreferenced_blob_is_removed_unless_it_is_new(ledger: Ledger) -> None:
    orphan, half = ledger.blobs.put(b"left by a crash"), ledger.blobs.folder / ".holdfast-1234.tmp"
    half.write_bytes(b"half")
    age(ledger)
    fresh = ledger.blobs.put(b"about to be referred to")
    prune(ledger, older_than=None, max_bytes=None, by="ada")
    assert blobs(ledger) == {fresh}
    assert not ledger.blobs.has(orphan)


@pytest.mark.spec("X15")
def test_a_blob_that_is_stored_again_counts_as_new(ledger: Ledger) -> None:
    reference = ledger.blobs.put(b"kept before")
    age(ledger)
    ledger.blobs.put(b"kept before")
    prune(ledger, older_than=None, max_bytes=None, by="ada")
    assert ledger.blobs.has(reference)


@pytest.mark.spec("X15")
def test_a_dry_run_changes_nothing(ledger: Ledger, clock: Clock) -> None:
    clock.at = OLD
    changing(ledger, "old", b"before")
    age(ledger)
    clock.at = NOW
    before = ([entry.hash for entry in ledger.entries()], blobs(ledger))
    looked = prune_by_config(ledger, LedgerConfig(), by="ada", dry_run=True)
    assert (looked.calls, looked.entries, looked.blobs) == (1, 3, 1)
    assert ([entry.hash for entry in ledger.entries()], blobs(ledger)) == before
    done = prune_by_config(ledger, LedgerConfig(), by="ada")
    assert (done.calls, done.entries, done.blobs, done.freed) == (1, 3, 1, looked.freed)
    assert prune_by_config(ledger, LedgerConfig(keep_days=None, max_blob_bytes=None), by="ada").calls == 0


@pytest.mark.spec("X15")
def test_a_ledger_of_format_1_is_read_and_migrated(tmp_path: Path) -> None:
    from holdfast.store import database

    path = tmp_path / "l.db"
    connection = sqlite3.connect(path, isolation_level=None)
    database.migrate(connection, str(path), database.MIGRATIONS[:1])
    body = '{"id":"g","by":"ada"}'
    digest = entries.chain_hash(database.GENESIS, "", "revoked", 1.0, body)
    connection.execute("INSERT INTO entries VALUES (1, '', 'revoked', 1.0, ?, ?, 1)", (body, digest))
    connection.close()
    with Ledger.open(path, read_only=True) as old:
        assert old.verify().ok
    with Ledger.open(path) as migrated:
        assert migrated.verify().ok
        assert prune_by_config(migrated, LedgerConfig(), by="ada").entries == 0
