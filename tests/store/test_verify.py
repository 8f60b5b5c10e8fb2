"""Verification detects every kind of tampering with the ledger."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.contract.call import Answer
from holdfast.store.entries import chain_hash
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, YES, begin, make_call, make_pending

Tamper = Callable[[sqlite3.Connection], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with ended, running, pending and approved calls and a grant."""
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:

        async def scenario() -> None:
            for _ in range(3):
                await ledger.record_call(make_call(), APPROVED, DONE)
            running, ended = make_call("running"), make_call()
            await begin(ledger, running)
            await begin(ledger, ended)
            await ledger.end(ended.id, DONE)
            pending, approved, edited = make_pending(), make_pending("approved"), make_pending("edited")
            for pending_call in (pending, approved, edited):
                await ledger.add_pending(pending_call)
            ledger.answer("approved", YES, digest=approved.digest)
            ledger.answer("edited", Answer(kind="edit", by="ada", args={}), digest=edited.digest)
            await ledger.replace_pending(make_pending("edited", args={}), "edited")
            ledger.grants.add(tool="file.read", pattern={"path": "a"}, scope="project", by="ada")
            ledger.before_image("running", path, b"before")

        asyncio.run(scenario())
    return path


def verify(path: Path, anchor: str | None = None) -> tuple[bool, int | None, str]:
    with Ledger.open(path) as ledger:
        found = ledger.verify(anchor)
    return found.ok, found.first_bad, found.problem or ""


def tamper(path: Path, how: Tamper) -> None:
    """Change the database with another SQLite client."""
    connection = sqlite3.connect(path, isolation_level=None)
    for trigger in ("entries_are_never_changed", "entries_are_never_deleted"):
        connection.execute(f"DROP TRIGGER {trigger}")
    how(connection)
    connection.close()


@pytest.mark.spec("X10")
def test_an_untouched_ledger_verifies(path: Path) -> None:
    with Ledger.open(path) as ledger:
        found = ledger.verify()
        assert (found.ok, found.problem, found.first_bad) == (True, None, None)
        assert found.entries == len(list(ledger.entries()))
        assert found.head == list(ledger.entries())[-1].hash


@pytest.mark.spec("X10")
@pytest.mark.parametrize("statement", ["UPDATE entries SET body = '{}' WHERE id = 2", "DELETE FROM entries"])
def test_triggers_refuse_to_change_or_delete_entries(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()


@pytest.mark.spec("X10")
@pytest.mark.parametrize(
    ("script", "first_bad"),
    [
        ("UPDATE entries SET call = 'x' WHERE id = 2", 2),
        ("UPDATE entries SET kind = 'ended' WHERE id = 2", 2),
        ("UPDATE entries SET at = at + 1 WHERE id = 2", 2),
        ("UPDATE entries SET body = replace(body, 'done', 'gone') WHERE id = 2", 2),
        ("UPDATE entries SET hash = zeroblob(32) WHERE id = 2", 2),
        ("DELETE FROM entries WHERE id = 1", 1),
        ("DELETE FROM entries WHERE id = 3", 3),
        ("UPDATE entries SET id = -id; UPDATE entries SET id = 1 - id", 1),
        ("INSERT INTO entries SELECT 0, call, kind, at, body, hash, 99 FROM entries WHERE id = 1", 1),
        ("UPDATE entries SET place = 99 WHERE id = 2", 2),
        ("UPDATE entries SET id = 0 WHERE id = 2; UPDATE entries SET id = 2 WHERE id = 3", 1),
        ("UPDATE entries SET id = -id WHERE id IN (2, 3); UPDATE entries SET id = 5 + id WHERE id < 0", 2),
    ],
    ids=str.split("call kind time body hash first-deleted deleted renumbered inserted placed moved swapped"),
)
def test_a_changed_deleted_reordered_or_inserted_entry_is_detected(path: Path, script: str, first_bad: int) -> None:
    tamper(path, lambda db: db.executescript(script))
    ok, found, problem = verify(path)
    assert not ok
    assert found == first_bad
    assert problem.startswith((f"Entry {first_bad} is missing", f"Entry {first_bad} was changed"))


@pytest.mark.spec("X10")
def test_truncation_at_the_end_is_detected(path: Path) -> None:
    with Ledger.open(path) as ledger:
        last = ledger.verify().entries
    tamper(path, lambda db: db.execute("DELETE FROM entries WHERE id = (SELECT max(id) FROM entries)"))
    assert verify(path) == (False, last, f"The ledger ends with entry {last - 1}, but {last} were written.")


@pytest.mark.spec("X10")
def test_a_forged_entry_is_detected_even_if_its_hash_is_right(path: Path) -> None:
    def forge(db: sqlite3.Connection) -> None:
        number, head = db.execute("SELECT id, hash FROM entries ORDER BY id DESC LIMIT 1").fetchone()
        forged = (number + 1, "x", "ended", 1.0, "{}", chain_hash(head, "x", "ended", 1.0, "{}"))
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, 7)", forged)

    tamper(path, forge)
    assert verify(path)[0] is False


@pytest.mark.spec("X10")
def test_a_rewritten_end_is_detected_with_a_saved_head(path: Path) -> None:
    with Ledger.open(path) as ledger:
        noted = ledger.verify().head
        ledger.record_call_now(make_call(), APPROVED, DONE)
        assert ledger.verify(noted).ok

    def rewrite(db: sqlite3.Connection) -> None:
        keep = db.execute("SELECT seq FROM sqlite_sequence").fetchone()[0] - 2
        db.execute("DELETE FROM entries WHERE id > ?", (keep,))
        db.execute("UPDATE sqlite_sequence SET seq = ?", (keep,))

    tamper(path, rewrite)
    assert verify(path)[0] is True
    ok, _, problem = verify(path, noted)
    assert not ok
    assert "does not contain the given head" in problem


@pytest.mark.spec("X10", "A12")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE open_calls SET state = 'approved' WHERE state = 'pending'",
        "UPDATE open_calls SET digest = 'x' WHERE call = 'approved'",
        "UPDATE open_calls SET approver = 'eve' WHERE call = 'approved'",
        "DELETE FROM open_calls WHERE call = 'running'",
        "INSERT INTO open_calls (call, state, digest, mutates, entry) VALUES ('new', 'approved', 'x', 1, 1)",
        "UPDATE grants SET uses = 5",
        "INSERT INTO grants SELECT 'g2', uses, body FROM grants",
        "INSERT INTO trust VALUES ('/p/holdfast.toml', 'x', '{}')",
    ],
)
def test_a_table_that_does_not_match_the_entries_is_detected(path: Path, statement: str) -> None:
    tamper(path, lambda db: db.execute(statement))
    ok, _, problem = verify(path)
    assert not ok
    assert "does not match the entries" in problem


@pytest.mark.spec("X10", "X15")
@pytest.mark.parametrize("changed", [None, b"{}"], ids=["lost", "changed"])
def test_a_lost_or_changed_large_body_is_detected(tmp_path: Path, changed: bytes | None) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:
        ledger.record_call_now(make_call(), APPROVED, DONE)
        asyncio.run(ledger.add_pending(make_pending(args={"content": "x" * 2_000_000})))
    blob = next(file for file in (tmp_path / "blobs").rglob("*") if file.is_file())
    blob.unlink() if changed is None else blob.write_bytes(changed)
    ok, first_bad, _ = verify(path)
    assert (ok, first_bad) == (False, 2)
