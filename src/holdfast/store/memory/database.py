"""The SQLite file of a memory: connection, schema, damage, and deletion that leaves nothing behind in the file."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from holdfast.contract.errors import HoldfastError, MemoryUnavailable
from holdfast.fs.replace import make_private
from holdfast.store.database import version
from holdfast.store.memory.terms import expand

APPLICATION_ID: Final = 0x486F6C6D
"""The SQLite application id of a memory file: "Holm" in ASCII."""
LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait for another process that is writing. Calls run in threads, so SQLite itself may wait."""
_CHECKED_WHOLE: Final = 10_000
"""Up to this many items, the whole index is compared with the items when it is first used; that takes 70 ms."""
_READER_MILLISECONDS: Final = 500
"""How long a deletion waits for other processes that read, before it leaves its log to the next one."""
_SECURE_FTS: Final = sqlite3.sqlite_version_info >= (3, 42)
"""Whether FTS5 can delete a row's words in place. Before, they stay in its segments until these are merged."""
_WORDS: Final = "CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'porter unicode61 remove_diacritics 2')"
_INDEX_VERSION: Final = "1"
"""Changes when `terms.expand` changes, so that older indexes are rebuilt."""

_MIGRATIONS: Final[tuple[tuple[str, ...], ...]] = (
    (
        "CREATE TABLE namespaces (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE)",
        """CREATE TABLE items (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            namespace INTEGER NOT NULL REFERENCES namespaces (id),
            content TEXT NOT NULL,
            digest BLOB NOT NULL,
            created REAL NOT NULL,
            updated REAL NOT NULL,
            expires REAL,
            supersedes TEXT,
            superseded_by TEXT,
            provenance TEXT NOT NULL
        )""",
        "CREATE INDEX items_of_namespace ON items (namespace, number)",
        "CREATE INDEX items_by_digest ON items (digest)",
        "CREATE INDEX items_that_expire ON items (expires) WHERE expires IS NOT NULL",
        """CREATE TABLE vectors (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            item INTEGER NOT NULL,
            data BLOB NOT NULL
        )""",
        "CREATE INDEX vectors_of_item ON vectors (item)",
        """CREATE TABLE tombstones (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            item INTEGER NOT NULL,
            id TEXT NOT NULL UNIQUE,
            at REAL NOT NULL,
            call TEXT NOT NULL
        )""",
        # `index`: version of the keyword index. `vectors`: embedder and dimension of all vectors.
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        _WORDS,
        f"INSERT INTO facts VALUES ('index', '{_INDEX_VERSION}')",
        f"PRAGMA application_id = {APPLICATION_ID}",
    ),
)
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
T = TypeVar("T")
_log: Final = logging.getLogger("holdfast")


class IndexDamaged(Exception):
    """The keyword index cannot be read; it can be rebuilt from the items."""


class MemoryReplaced(MemoryUnavailable):
    """Another process has moved the file away; open the path again."""


class MemoryDatabase:
    """A connection that several threads share; one lock serialises them."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raises `MemoryUnavailable`."""
        self.path = path
        self.lock = threading.RLock()
        self.set_aside = False
        """The file was damaged and has been moved away; open the path again."""
        self.log_has_deleted = False
        """The write-ahead log still has what was deleted, because another process was reading."""
        self.commits = 0
        """Commits of this connection, which SQLite's `data_version` does not count."""
        try:
            make_private(path)
            self._opened = _identity(path)
            self._connection = self._connect()
        except sqlite3.Error as error:
            raise self._translate(error) from error
        except OSError as error:
            raise MemoryUnavailable(
                f"The memory {path} cannot be opened ({error.strerror}). Check that its folder is writable."
            ) from error
        weakref.finalize(self, self._connection.close).atexit = False

    def close(self) -> None:
        with self.lock:
            if self.log_has_deleted:
                self.truncate_log()
            self._connection.close()

    @contextmanager
    def writing(self) -> Generator[Callable[..., sqlite3.Cursor]]:
        """One write transaction: all of it, or nothing."""
        with self.lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._check_in_place()
                yield self._connection.execute
                self._connection.execute("COMMIT")
                self._check_in_place()  # again: what a moved file got since is acknowledged only in the new one
                self.commits += 1
            except sqlite3.Error as error:
                self._roll_back()
                raise self._translate(error) from error
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self) -> Generator[Callable[..., sqlite3.Cursor]]:
        """One consistent snapshot."""
        with self.lock:
            try:
                self._connection.execute("BEGIN")
                self._check_in_place()
                yield self._connection.execute
            except sqlite3.Error as error:
                raise self._translate(error) from error
            finally:
                self._roll_back()

    def state(self) -> tuple[int, int]:
        """Return a value that changes with every commit of this or another process."""
        with self.lock:
            return (self._connection.execute("PRAGMA data_version").fetchone()[0], self.commits)

    def with_index(self, use: Callable[[], T]) -> T:
        """Run a function that uses the keyword index; if the index is damaged, rebuild it and run it again."""
        try:
            return use()
        except IndexDamaged as damage:
            _log.warning("The keyword index of the memory %s was damaged (%s). It is rebuilt.", self.path, damage)
            self.rebuild_index()
            try:
                return use()
            except IndexDamaged as error:
                raise MemoryUnavailable(f"The keyword index of {self.path} cannot be rebuilt: {error}.") from error

    def check_index(self) -> None:
        """Rebuild the index if it is of another version, damaged, or does not have one row for each item."""
        try:
            with self.reading() as execute:
                made = execute("SELECT value FROM facts WHERE name = 'index'").fetchone()
                rows = execute("SELECT (SELECT count(*) FROM items), (SELECT count(*) FROM words_docsize)").fetchone()
                if made == (_INDEX_VERSION,) and rows[0] == rows[1]:
                    if rows[0] <= _CHECKED_WHOLE:
                        self._check_whole_index(execute)
                    return
            reason = "another version" if made != (_INDEX_VERSION,) else f"{rows[1]} of {rows[0]} items"
        except IndexDamaged as error:
            reason = str(error)
        _log.warning("The keyword index of the memory %s is incomplete (%s). It is rebuilt.", self.path, reason)
        self.rebuild_index()

    def _check_whole_index(self, execute: Callable[..., sqlite3.Cursor]) -> None:
        """Compare the index with the items, unless another process is writing: the check needs its lock."""
        with self._waiting(0):
            try:
                execute("INSERT INTO words (words) VALUES ('integrity-check')")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise

    def rebuild_index(self) -> None:
        with self.writing() as execute:
            try:
                execute("DROP TABLE IF EXISTS words")
            except sqlite3.Error:
                # SQLite cannot open the table to drop it; the schema can forget it, and VACUUM frees its pages.
                execute("PRAGMA writable_schema = ON")
                execute("DELETE FROM sqlite_master WHERE name = 'words' OR name LIKE 'words\\_%' ESCAPE '\\'")
                execute("PRAGMA writable_schema = RESET")
            execute(_WORDS)
            for number, content in execute("SELECT number, content FROM items").fetchall():
                execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, expand(content)))
            execute("INSERT OR REPLACE INTO facts VALUES ('index', ?)", (_INDEX_VERSION,))
        self._secure_index()
        with self.lock, suppress(sqlite3.Error):
            self._connection.execute("VACUUM")

    def merge_index(self, execute: Callable[..., sqlite3.Cursor]) -> None:
        """Remove the words of deleted rows from the index, where SQLite has not done that at once."""
        if not _SECURE_FTS:
            execute("INSERT INTO words (words) VALUES ('optimize')")

    def truncate_log(self) -> bool:
        """Copy the write-ahead log into the file and empty it; False while another process still reads from it."""
        with self.lock:
            self.log_has_deleted = True
            with suppress(sqlite3.Error), self._waiting(_READER_MILLISECONDS):
                busy = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                self.log_has_deleted = bool(busy)
            return not self.log_has_deleted

    @contextmanager
    def _waiting(self, milliseconds: int) -> Generator[None]:
        """Wait only that long for other processes."""
        self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
        try:
            yield
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {int(1000 * LOCK_TIMEOUT)}")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            self._check(connection)  # before anything is written, even the journal mode
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA secure_delete = ON")
            self._migrate(connection)
            self._connection = connection
            self._secure_index()
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        self._check(connection)
        if version(connection) == len(_MIGRATIONS):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._check(connection)  # again under the write lock: another process may have been first
            for number, statements in enumerate(_MIGRATIONS[version(connection) :], version(connection) + 1):
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a database of another program, or of a newer holdfast."""
        done = version(connection)
        if done > len(_MIGRATIONS):
            raise MemoryUnavailable(
                f"The memory {self.path} was written by a newer holdfast (format {done}, supported "
                f"{len(_MIGRATIONS)}). Upgrade holdfast to use it."
            )
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if application != APPLICATION_ID and (done or tables):
            raise MemoryUnavailable(f"The file {self.path} is not a memory of holdfast. Move it away.")

    def _secure_index(self) -> None:
        if _SECURE_FTS:
            with suppress(sqlite3.Error):  # a damaged index is found and rebuilt where it is used
                self._connection.execute("INSERT INTO words (words, rank) VALUES ('secure-delete', 1)")

    def _check_in_place(self) -> None:
        if _identity(self.path) != self._opened:
            raise MemoryReplaced(f"The memory {self.path} was moved away by another process. Try again.")

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _translate(self, error: sqlite3.Error) -> Exception:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_CORRUPT_VTAB or "words" in str(error) or "fts5" in str(error):
            return IndexDamaged(str(error))
        primary = code & 0xFF if isinstance(code, int) else None
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return MemoryUnavailable(
                f"The memory {self.path} is locked by another program. Nothing was written; try again."
            )
        if primary == sqlite3.SQLITE_FULL:
            return MemoryUnavailable(
                f"The disk of the memory {self.path} is full. Nothing was written; free some space."
            )
        if primary == sqlite3.SQLITE_READONLY:
            return MemoryUnavailable(
                f"The memory {self.path} is read-only. Nothing was written; check its permissions."
            )
        if primary in _DAMAGE:
            return self._set_aside(error)
        return MemoryUnavailable(f"The memory {self.path} cannot be used ({error}). Check its disk and permissions.")

    def _set_aside(self, error: sqlite3.Error) -> HoldfastError:
        """Move a damaged file away with its log, so that the next call starts a new one and nothing is lost."""
        self.set_aside = True
        with suppress(AttributeError, sqlite3.Error):
            self._connection.close()
        kept = self.path.with_name(f"{self.path.name}.damaged-{datetime.now(UTC):%Y%m%d-%H%M%S-%f}")
        try:
            with _locked_folder(self.path.parent):
                self._check_in_place()  # another process may have been first; its new file is sound
                self.path.rename(kept)
                for suffix in ("-wal", "-shm"):
                    with suppress(OSError):
                        self.path.with_name(self.path.name + suffix).rename(kept.with_name(kept.name + suffix))
        except MemoryReplaced as replaced:
            return replaced
        except OSError as failure:
            return MemoryUnavailable(
                f"The memory {self.path} is damaged ({error}) and cannot be moved away ({failure.strerror})."
            )
        return MemoryUnavailable(
            f"The memory {self.path} is damaged ({error}). It was moved to {kept.name}, where `sqlite3 {kept.name} "
            ".recover` can save what is left. The next call starts an empty memory."
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Tell the file at the path from another one there later; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino)


@contextmanager
def _locked_folder(folder: Path) -> Generator[None]:
    """Hold a lock that all processes take before they move a file of this folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
