"""The tables, as numbered migrations; `PRAGMA user_version` says which have been applied."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from holdfast.contract.errors import LedgerCorrupt, LedgerUnavailable

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
