"""The SQLite database of a ledger: numbered migrations, serialised write transactions, lock retries."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from holdfast.contract.errors import HoldfastError, LedgerCorrupt, LedgerUnavailable, NotPending
from holdfast.fs.replace import make_private
from holdfast.store.entries import chain_hash

APPLICATION_ID: Final = 0x486F6C64
"""The SQLite application id of a ledger file: "Hold" in ASCII."""
GENESIS: Final = bytes(32)
"""The hash before the first entry."""
PRUNING_VERSION: Final = 2
"""The first schema version with the table `pruned`."""
SCHEDULES_VERSION: Final = 4
"""The first schema version with the table `schedules`."""

Migration = Sequence[str]

MIGRATIONS: Final[tuple[Migration, ...]] = (
    (
        """CREATE TABLE entries (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            call TEXT NOT NULL,
            kind TEXT NOT NULL,
            at REAL NOT NULL,
            body TEXT NOT NULL,
            hash BLOB NOT NULL,
            place INTEGER NOT NULL
        )""",
        "CREATE UNIQUE INDEX entries_of_call ON entries (call, place)",
        """CREATE TRIGGER entries_are_never_changed BEFORE UPDATE ON entries
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
        """CREATE TRIGGER entries_are_never_deleted BEFORE DELETE ON entries
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
        """CREATE TABLE open_calls (
            call TEXT PRIMARY KEY,
            state TEXT NOT NULL,
            digest TEXT,
            approver TEXT,
            pid INTEGER,
            pid_start TEXT,
            mutates INTEGER NOT NULL,
            entry INTEGER NOT NULL
        ) WITHOUT ROWID""",
        "CREATE TABLE grants (id TEXT PRIMARY KEY, uses INTEGER, body TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE trust (path TEXT PRIMARY KEY, digest TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
    (
        """CREATE TABLE pruned (
            first INTEGER PRIMARY KEY,
            last INTEGER NOT NULL,
            hash BLOB NOT NULL
        )""",
        "DROP TRIGGER entries_are_never_deleted",
        """CREATE TRIGGER entries_are_never_deleted BEFORE DELETE ON entries
            WHEN NOT EXISTS (SELECT 1 FROM pruned WHERE OLD.id BETWEEN first AND last)
            BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
        "CREATE INDEX entries_that_change_files ON entries (call) WHERE kind = 'before' OR kind = 'recorded'",
    ),
    (
        """CREATE TABLE pins (
            server TEXT NOT NULL,
            tool TEXT NOT NULL,
            digest TEXT NOT NULL,
            size INTEGER NOT NULL,
            definition TEXT NOT NULL,
            PRIMARY KEY (server, tool)
        )""",
    ),
    (
        """CREATE TABLE schedules (
            id TEXT PRIMARY KEY,
            body TEXT NOT NULL,
            next_at REAL,
            due REAL,
            pid INTEGER,
            pid_start TEXT,
            last_at REAL,
            last_call TEXT,
            last_state TEXT NOT NULL DEFAULT '',
            last_message TEXT NOT NULL DEFAULT '',
            missed INTEGER NOT NULL DEFAULT 0,
            missed_note TEXT NOT NULL DEFAULT ''
        ) WITHOUT ROWID""",
    ),
)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, where: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply the missing migrations in one transaction, so that a process that opens the file meanwhile waits."""
    check(connection, where, migrations)
    if version(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the write lock: another process may have migrated the file first.
        done = version(connection)
        check(connection, where, migrations)
        for number, statements in enumerate(migrations[done:], start=done + 1):
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def check(connection: sqlite3.Connection, where: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Refuse a database of another program, or of a newer holdfast."""
    # In one transaction: between two reads another process may create the ledger.
    outside = not connection.in_transaction
    if outside:
        connection.execute("BEGIN")
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        done = version(connection)
    finally:
        if outside:
            connection.execute("ROLLBACK")
    if done > len(migrations):
        raise LedgerUnavailable(
            f"The ledger {where} was written by a newer holdfast (format {done}, supported {len(migrations)}). "
            "Upgrade holdfast to use it."
        )
    if application != APPLICATION_ID and (done or tables):
        raise LedgerCorrupt(f"The file {where} is not a holdfast ledger. Move it away or use another path.")


T = TypeVar("T")
Durability = Literal["process", "power"]

LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for another process that is writing."""
_BUSY_SECONDS: Final = 0.003
"""SQLite's own busy timeout. It blocks the event loop, so it is short and the callers retry."""
_CHECKPOINT_PAGES: Final = 16_000
"""Pages in the write-ahead log before a checkpoint, which blocks the writer for about 20 ms."""
_PAGE_BYTES: Final = 2048
"""A commit writes whole pages, and most entries are smaller than this."""
_DAMAGE: Final = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
}
IN_MEMORY: Final = Path(":memory:")


class DatabaseLocked(LedgerUnavailable):
    """Another process is writing; a retry may succeed."""


class Transaction:
    """The write transaction in progress. Appends entries to the hash chain."""

    __slots__ = ("count", "execute", "head")

    def __init__(self, execute: Callable[..., sqlite3.Cursor]) -> None:
        self.execute = execute
        """Uses one shared cursor: read a result before the next statement."""
        self.count = 0
        self.head = b""

    def append(self, call: str, kind: str, body: str, *, first: bool = False) -> int:
        """Append an entry and return its id. `first` claims the call id, which a unique index allows only once."""
        at = time.time()
        self.head = head = chain_hash(self.head, call, kind, at, body)
        self.count = count = self.count + 1
        self.execute(
            "INSERT INTO entries (id, call, kind, at, body, hash, place) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (count, call, kind, at, body, head, 0 if first else count),
        )
        return count


Op = Callable[[Transaction], T]


class Database:
    """A connection that several threads can share; one lock serialises them."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.commits = 0
        """Commits of this connection. `version` needs it, because `data_version` counts only those of others."""
        self._connection = connection
        self._execute = connection.cursor().execute
        self._transaction = Transaction(self._execute)
        self._lock = threading.RLock()
        # A program may forget a ledger without closing it; from Python 3.13 on, SQLite warns where that is left to it.
        # Not at exit: nothing is lost there, and closing would wait for the disk.
        weakref.finalize(self, connection.close).atexit = False

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "process", read_only: bool = False) -> Database:
        try:
            if read_only:
                return cls(path, _connect_to_read(path))
            make_private(path)
            return cls(path, _retry(lambda: _connect(path, durability)))
        except sqlite3.Error as error:
            raise translate(error, path) from error
        except OSError as error:
            raise LedgerUnavailable(
                f"The ledger {path} cannot be opened ({error.strerror}). Check that its folder is writable."
            ) from error

    @classmethod
    def in_memory(cls) -> Database:
        return cls(IN_MEMORY, _connect(IN_MEMORY, "process"))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def run(self, op: Op[T]) -> T:
        """Run one operation in one transaction. Blocks for up to `LOCK_TIMEOUT` while another process writes."""
        return _retry(lambda: self.write([op])[0])

    def write(self, ops: Sequence[Op[Any]]) -> list[Any]:
        """Run all operations in one transaction, or none. Raises `DatabaseLocked` almost at once."""
        with self._lock:
            execute = self._execute
            transaction = self._transaction
            try:
                # IMMEDIATE takes the write lock before the head is read, so that no other process can append between.
                execute("BEGIN IMMEDIATE")
                last = execute("SELECT id, hash FROM entries ORDER BY id DESC LIMIT 1").fetchone()
                transaction.count, head = last or (0, GENESIS)
                transaction.head = head if type(head) is bytes else GENESIS  # a damaged row; `verify` reports it
                outcomes = [op(transaction) for op in ops]
                execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                raise translate(error, self.path) from error
            except BaseException:
                self._roll_back()
                raise
            self.commits += 1
            return outcomes

    def read(self, query: Callable[[Callable[..., sqlite3.Cursor]], T]) -> T:
        """Run a query on one consistent snapshot."""

        def attempt() -> T:
            with self._lock:
                try:
                    self._execute("BEGIN")
                    return query(self._execute)
                except sqlite3.Error as error:
                    raise translate(error, self.path) from error
                finally:
                    self._roll_back()

        return _retry(attempt)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one SELECT and return all rows."""

        def attempt() -> list[tuple[Any, ...]]:
            with self._lock:
                try:
                    return self._execute(sql, values).fetchall()
                except sqlite3.Error as error:
                    raise translate(error, self.path) from error
                except UnicodeEncodeError as error:
                    raise LedgerCorrupt(f"{sql.split()[0]} failed: a value contains lone surrogates.") from error

        return _retry(attempt)

    def shrink(self) -> bool:
        """Return the space of deleted rows to the file system; False if another process uses the file.

        Afterwards neither the file nor its write-ahead log contains anything that was deleted.
        """
        with self._lock, suppress(sqlite3.OperationalError):
            self._execute("VACUUM")
            # The rewritten pages are in the log so far; the file still has the old ones.
            busy, *_ = self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return not busy
        return False

    def version(self) -> tuple[int, int]:
        """Return a value that changes with every commit of this or another process."""
        return (self.rows("PRAGMA data_version")[0][0], self.commits)

    def _roll_back(self) -> None:
        with suppress(sqlite3.ProgrammingError):
            if self._connection.in_transaction:
                self._execute("ROLLBACK")


def translate(error: sqlite3.Error, path: Path) -> HoldfastError:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
        return NotPending("A call with this id is already in the ledger. Every call needs its own id.")
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseLocked(f"The ledger {path} is locked by another program. Nothing was written; try again.")
    if primary in _DAMAGE:
        return LedgerCorrupt(
            f"The ledger {path} is damaged or not a ledger ({error}). Move it aside (and keep it) to start a new one."
        )
    if primary == sqlite3.SQLITE_FULL:
        return LedgerUnavailable(f"The disk of the ledger {path} is full. Nothing was written; free some space.")
    if primary == sqlite3.SQLITE_READONLY:
        return LedgerUnavailable(f"The ledger {path} is read-only. Nothing was written; check its permissions.")
    return LedgerUnavailable(f"The ledger {path} cannot be used ({error}). Check its disk and permissions.")


def _retry(attempt: Callable[[], T]) -> T:
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            return attempt()
        except DatabaseLocked:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def _connect(path: Path, durability: Durability) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    connection.text_factory = _text
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        migrate(connection, str(path))
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_to_read(path: Path) -> sqlite3.Connection:
    if not path.exists():
        raise LedgerUnavailable(f"There is no ledger at {path}. The first call creates it.")
    # Without a write-ahead log the file is complete, so `immutable` is safe; it is needed in a read-only folder, where
    # SQLite cannot create its shared-memory file.
    complete = not path.with_name(f"{path.name}-wal").exists()
    options = "mode=ro&immutable=1" if complete and not os.access(path.parent, os.W_OK) else "mode=ro"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=LOCK_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = _text
    try:
        check(connection, str(path))
    except BaseException:
        connection.close()
        raise
    return connection


def _text(raw: bytes) -> str:
    """Decode a column. A column that is not UTF-8 must not fail the whole query; the reader detects the surrogates."""
    return raw.decode("utf-8", "surrogateescape")
