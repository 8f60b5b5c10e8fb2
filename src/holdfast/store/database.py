"""The SQLite file of a ledger: its tables as numbered migrations, and one transaction at a time."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from holdfast.contract.errors import HoldfastError, LedgerCorrupt, LedgerUnavailable, NotPending
from holdfast.fs.replace import make_private_folder
from holdfast.store.entries import chain_hash

APPLICATION_ID: Final = 0x486F6C64
"""Marks the file as ours: "Hold"."""
GENESIS: Final = bytes(32)
"""The hash before the first entry."""
PRUNING_VERSION: Final = 2
"""From this format on entries can be pruned."""

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
)


def version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, where: str, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Apply what is missing, in one transaction; another process that opens the file meanwhile waits for it."""
    check(connection, where, migrations)
    if version(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
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
    """Refuse a database of something else, or of a holdfast that is newer than this one."""
    done = version(connection)
    if done > len(migrations):
        raise LedgerUnavailable(
            f"The ledger {where} was written by a newer holdfast (format {done}, this one knows {len(migrations)}); "
            "upgrade holdfast to use it."
        )
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and (done or tables):
        raise LedgerCorrupt(f"The file {where} is not a ledger of holdfast; move it away or give another path.")


T = TypeVar("T")
Durability = Literal["process", "power"]

LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for another process that writes."""
_BUSY_SECONDS: Final = 0.003
"""How long SQLite itself waits in one go; an event loop stands still meanwhile."""
_CHECKPOINT_PAGES: Final = 16_000
"""The log is moved into the file every so often; whoever writes then waits for the disk, some 20 ms."""
_PAGE_BYTES: Final = 2048
"""A commit writes whole pages; most entries are well below one of this size."""
_DAMAGE: Final = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
}
IN_MEMORY: Final = Path(":memory:")


class DatabaseLocked(LedgerUnavailable):
    """Another process is writing; worth another try."""


class Transaction:
    """The write in progress. Entries are chained in the order they are appended."""

    __slots__ = ("count", "execute", "head")

    def __init__(self, execute: Callable[..., sqlite3.Cursor]) -> None:
        self.execute = execute
        """There is one cursor: a result is read before the next statement."""
        self.count = 0
        self.head = b""

    def append(self, call: str, kind: str, body: str, *, first: bool = False) -> int:
        """Add an entry. The first of a call takes the place only one entry of it can have: an id is used once."""
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
    """Usable from several threads; one at a time is inside."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.commits = 0
        """Transactions of this connection; `version` uses it because SQLite reports only those of others."""
        self._connection = connection
        self._execute = connection.cursor().execute
        self._transaction = Transaction(self._execute)
        self._lock = threading.RLock()

    @classmethod
    def open(cls, path: Path, *, durability: Durability = "process", read_only: bool = False) -> Database:
        try:
            if read_only:
                return cls(path, _connect_to_read(path))
            _make_private(path)
            return cls(path, _retry(lambda: _connect(path, durability)))
        except sqlite3.Error as error:
            raise translate(error, path) from error
        except OSError as error:
            raise LedgerUnavailable(
                f"The ledger {path} cannot be opened ({error.strerror}); check that its folder can be written."
            ) from error

    @classmethod
    def in_memory(cls) -> Database:
        return cls(IN_MEMORY, _connect(IN_MEMORY, "process"))

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def run(self, op: Op[T]) -> T:
        """One operation in one transaction; blocks while another process writes, at most `LOCK_TIMEOUT`."""
        return _retry(lambda: self.write([op])[0])

    def write(self, ops: Sequence[Op[Any]]) -> list[Any]:
        """All operations in one transaction, or none of them; raises `Locked` without much waiting."""
        with self._lock:
            execute = self._execute
            transaction = self._transaction
            try:
                execute("BEGIN IMMEDIATE")
                last = execute("SELECT id, hash FROM entries ORDER BY id DESC LIMIT 1").fetchone()
                transaction.count, head = last or (0, GENESIS)
                transaction.head = head if type(head) is bytes else GENESIS  # damaged, and `verify` says so
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
        """A query on one snapshot."""

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
        """One statement that reads."""

        def attempt() -> list[tuple[Any, ...]]:
            with self._lock:
                try:
                    return self._execute(sql, values).fetchall()
                except sqlite3.Error as error:
                    raise translate(error, self.path) from error
                except UnicodeEncodeError as error:
                    raise LedgerCorrupt(f"{sql.split()[0]} cannot be asked with text that is no text.") from error

        return _retry(attempt)

    def shrink(self) -> bool:
        """Give the disk back what was deleted; False if another process uses the file."""
        with self._lock, suppress(sqlite3.OperationalError):
            self._execute("VACUUM")
            return True
        return False

    def version(self) -> tuple[int, int]:
        """Changes whenever anyone, here or in another process, has written."""
        return (self.rows("PRAGMA data_version")[0][0], self.commits)

    def _roll_back(self) -> None:
        with suppress(sqlite3.ProgrammingError):
            if self._connection.in_transaction:
                self._execute("ROLLBACK")


def translate(error: sqlite3.Error, path: Path) -> HoldfastError:
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
        return NotPending("A call with this id is in the ledger already; every call needs an id of its own.")
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseLocked(f"The ledger {path} is locked by another program; nothing was written, try again.")
    if primary in _DAMAGE:
        return LedgerCorrupt(
            f"The ledger {path} is damaged or not a ledger ({error}); move it away to start a new one, and keep it."
        )
    if primary == sqlite3.SQLITE_FULL:
        return LedgerUnavailable(f"The disk of the ledger {path} is full; nothing was written, free some space.")
    if primary == sqlite3.SQLITE_READONLY:
        return LedgerUnavailable(f"The ledger {path} is read-only; nothing was written, check its permissions.")
    return LedgerUnavailable(f"The ledger {path} cannot be used ({error}); check its disk and permissions.")


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
    """Without a log beside it the file is complete, and can be read even where SQLite may not create its index."""
    if not path.exists():
        raise LedgerUnavailable(f"There is no ledger at {path}; it is created by the first call.")
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
    """One column that is not UTF-8 must not fail the whole query: who reads it finds that it is no text."""
    return raw.decode("utf-8", "surrogateescape")


def _make_private(path: Path) -> None:
    """The file exists with mode 0600 before SQLite opens it, so that its log files get the same mode.

    An existing file is not opened here: closing it would drop the locks of every connection this process has to it.
    """
    make_private_folder(path.parent)
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except FileNotFoundError:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
