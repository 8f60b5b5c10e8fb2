"""An unusable ledger raises a typed error with a clear message and keeps what was written before."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from holdfast.contract.result import Result
from holdfast.store import database
from holdfast.store.ledger import Ledger
from tests.store.calls import APPROVED, DONE, make_call, make_pending


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike those of pytest."""
    path = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


def run_without_privileges(script: str, *arguments: str) -> str:
    """Run a script as an unprivileged user, because root can write everywhere."""
    prelude = """
import os, sys
from pathlib import Path
from holdfast.store.ledger import Ledger
from holdfast.contract.errors import LedgerError
from tests.store.calls import *
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
path = Path(sys.argv[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", prelude + script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.spec("X10")
def test_an_unwritable_folder_is_an_error_that_names_the_path(folder: Path) -> None:
    folder.chmod(0o555)
    script = """
try:
    Ledger.open(path)
except LedgerError as error:
    print(type(error).__name__, error)
"""
    told = run_without_privileges(script, str(folder / "state" / "ledger.db"))
    assert told.startswith("LedgerUnavailable The ledger ")
    assert "cannot be opened (Permission denied)" in told
    assert str(folder) in told


@pytest.mark.spec("X10")
def test_a_ledger_in_a_read_only_folder_can_be_read_and_refuses_to_write(folder: Path) -> None:
    with Ledger.open(folder / "ledger.db") as ledger:
        ledger.record_call_now(make_call("kept"), APPROVED, DONE)
    (folder / "ledger.db").chmod(0o444)
    folder.chmod(0o555)
    script = """
ledger = Ledger.open(path, read_only=True)
print(ledger.call("kept").state, ledger.verify().ok)
try:
    ledger.record_call_now(make_call(), APPROVED, DONE)
except LedgerError as error:
    print(type(error).__name__, error)
"""
    told = run_without_privileges(script, str(folder / "ledger.db")).splitlines()
    assert told[0] == "done True"
    assert told[1].startswith("LedgerUnavailable")
    assert "read-only" in told[1]


@pytest.mark.spec("X10")
def test_a_reader_sees_entries_that_are_still_in_the_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(path) as writer, Ledger.open(path, read_only=True) as reader:
        writer.record_call_now(make_call("fresh"), APPROVED, DONE)
        assert reader.call("fresh").result == DONE
        with pytest.raises(LedgerUnavailable, match="read-only"):
            reader.end_now("fresh", DONE)
    with pytest.raises(LedgerUnavailable, match="There is no ledger"):
        Ledger.open(tmp_path / "nowhere" / "l.db", read_only=True)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.spec("X10")
def test_a_full_disk_refuses_new_calls_and_keeps_acknowledged_ones(tmp_path: Path) -> None:
    script = """
import asyncio, resource, sys
from pathlib import Path
from holdfast.contract.errors import LedgerUnavailable
from holdfast.store.ledger import Ledger
from tests.store.calls import *
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
ledger = Ledger.open(Path(sys.argv[1]))
async def scenario():
    for number in range(10_000):
        try:
            await begin(ledger, make_call(f"n{number}"))
        except LedgerUnavailable as error:
            print(number, error)
            break
    try:
        ledger.blobs.put(b"x" * 500_000)
    except LedgerUnavailable as error:
        print(error)
    print(ledger.verify().ok)
asyncio.run(scenario())
"""
    path = tmp_path / "l.db"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    refused, blob, whole = done.stdout.splitlines()
    acknowledged = int(refused.split()[0])
    assert acknowledged > 10
    assert "The ledger" in refused
    assert "could not be stored (File too large)" in blob
    assert whole == "True"
    with Ledger.open(path) as ledger:
        assert [entry.call for entry in ledger.entries()] == [f"n{number}" for number in range(acknowledged)]
        assert ledger.verify().ok


@pytest.mark.spec("X10")
@pytest.mark.parametrize("content", [b"This is a letter. " * 500, b"SQLite format 3\0" + b"\xff" * 8192])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_not_a_ledger_is_refused_and_left_unchanged(
    tmp_path: Path, content: bytes, read_only: bool
) -> None:
    path = tmp_path / "l.db"
    path.write_bytes(content)
    with pytest.raises(LedgerCorrupt, match=r"l\.db"):
        Ledger.open(path, read_only=read_only)
    assert path.read_bytes() == content


@pytest.mark.spec("X10")
def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    with pytest.raises(LedgerCorrupt, match="not a holdfast ledger"):
        Ledger.open(path)


@pytest.mark.spec("X10")
def test_a_damaged_page_is_a_ledger_error_and_detected_by_verify(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:
        for number in range(200):
            ledger.record_call_now(make_call(f"n{number}"), APPROVED, Result(True, "x" * 500))
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(16_384))
    with Ledger.open(path) as ledger:
        found = ledger.verify()
        assert not found.ok
        assert found.problem
        with pytest.raises(LedgerCorrupt):
            list(ledger.entries())


def test_text_that_is_not_utf8_counts_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:
        ledger.record_call_now(make_call("n"), APPROVED, DONE)
    connection = sqlite3.connect(path, isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("UPDATE entries SET kind = CAST(x'25ffff' AS TEXT)")
    connection.close()
    with Ledger.open(path) as ledger:
        assert not ledger.verify().ok
        with pytest.raises(LedgerCorrupt):
            list(ledger.entries())


@pytest.mark.spec("X10")
def test_an_older_ledger_is_migrated_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:
        ledger.record_call_now(make_call("old"), APPROVED, DONE)
    steps = (*database.MIGRATIONS, ("ALTER TABLE trust ADD COLUMN note TEXT", "CREATE TABLE more (note TEXT)"))
    connection = sqlite3.connect(path, isolation_level=None)
    database.migrate(connection, str(path), steps)
    database.migrate(connection, str(path), steps)
    connection.execute("INSERT INTO trust (path, digest, body, note) VALUES ('a', 'b', '{}', 'migrated')")
    assert connection.execute("SELECT count(*) FROM more").fetchone() == (0,)
    assert database.version(connection) == len(database.MIGRATIONS) + 1
    connection.close()
    for read_only in (False, True):
        with pytest.raises(LedgerUnavailable, match="newer holdfast"):
            Ledger.open(path, read_only=read_only)


@pytest.mark.spec("X10")
def test_a_failed_migration_leaves_the_ledger_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:
        ledger.record_call_now(make_call("old"), APPROVED, DONE)
    connection = sqlite3.connect(path, isolation_level=None)
    steps = (*database.MIGRATIONS, ("ALTER TABLE meta ADD COLUMN note TEXT", "THIS IS NOT SQL"))
    with pytest.raises(sqlite3.OperationalError):
        database.migrate(connection, str(path), steps)
    connection.close()
    with Ledger.open(path) as ledger:
        assert ledger.call("old").result == DONE
        assert ledger.verify().ok


@pytest.mark.spec("X10")
def test_a_broken_ledger_raises_only_ledger_errors(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:
        ledger.record_call_now(make_call("old"), APPROVED, DONE)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TABLE open_calls")
    connection.close()
    with Ledger.open(path) as ledger:
        attempts = [
            lambda: ledger.end_now("old", DONE),
            ledger.pending,
            ledger.recover,
            lambda: ledger.run(lambda tx: tx.execute("SELECT * FROM nothing")),
        ]
        for attempt in attempts:
            with pytest.raises(LedgerError):
                attempt()
        assert not ledger.verify().ok


@pytest.mark.spec("X10")
def test_an_entry_with_an_unexpected_body_counts_as_damage(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "l.db") as ledger:
        pending_call = make_pending()
        ledger.run(lambda tx: tx.append(pending_call.call.id, "pending", '{"pending": 3}'))
        ledger.run(
            lambda tx: tx.execute(
                "INSERT INTO open_calls (call, state, digest, mutates, entry) VALUES (?, 'pending', '', 1, 1)",
                (pending_call.call.id,),
            )
        )
        assert (ledger.pending(), ledger.unreadable_pending()) == ([], [pending_call.call.id])
        found = ledger.verify()
        assert (found.ok, found.first_bad) == (False, 1)


@pytest.mark.spec("X10")
@pytest.mark.parametrize("read", ["SELECT count", "PRAGMA application_id", "PRAGMA user_version"])
def test_a_ledger_that_another_process_creates_meanwhile_is_recognised(tmp_path: Path, read: str) -> None:
    path = tmp_path / "l.db"
    raced = False

    class Interrupted(sqlite3.Connection):
        """Lets another process create the ledger between two reads."""

        def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
            nonlocal raced
            found = super().execute(sql, values)
            if not raced and sql.startswith(read):
                raced = True
                Ledger.open(path).close()
            return found

    connection = sqlite3.connect(path, factory=Interrupted, isolation_level=None)
    connection.execute("PRAGMA page_size = 2048")
    connection.execute("PRAGMA journal_mode = WAL")
    database.migrate(connection, str(path))
    connection.close()
    assert raced
    with Ledger.open(path) as ledger:
        assert ledger.verify().ok
