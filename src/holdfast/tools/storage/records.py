"""`Records`: which objects were ingested, in which state, and which items of the memory came from each.

A record is begun before the first item of an object is written, with the id of the call. After a crash, the items that
an unfinished call left in the namespace are found by that id, so that `replace` takes them back too.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from holdfast.contract.errors import HoldfastError
from holdfast.fs.replace import make_private

State = Literal["unfinished", "ingested", "skipped"]
T = TypeVar("T")
_LOCK_SECONDS: Final = 5.0
_SCHEMA: Final = """CREATE TABLE IF NOT EXISTS objects (
    server TEXT NOT NULL, bucket TEXT NOT NULL, key TEXT NOT NULL, namespace TEXT NOT NULL, etag TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, forced INTEGER NOT NULL,
    chars INTEGER NOT NULL, items TEXT NOT NULL, calls TEXT NOT NULL,
    at REAL NOT NULL, PRIMARY KEY (server, bucket, key, namespace)) WITHOUT ROWID"""
_COLUMNS: Final = "key, namespace, etag, state, reason, forced, chars, items, calls"


class RecordsUnavailable(HoldfastError):
    """The file of the records is locked, full or damaged."""


class Source(Struct, frozen=True):
    """An object and the namespace that its text goes to."""

    server: str
    bucket: str
    key: str
    namespace: str


class Record(Struct, frozen=True, kw_only=True):
    key: str
    namespace: str
    etag: str
    """Of the state that was ingested or skipped last."""
    state: State
    reason: str = ""
    """Why it was skipped."""
    forced: bool = False
    """Whether it was skipped although the checks were overridden."""
    chars: int = 0
    """The limit under which it was ingested."""
    items: tuple[str, ...] = ()
    """Ids of the items of the memory that came from it."""
    calls: tuple[str, ...] = ()
    """Calls that may have written further items of the namespace, because they did not finish."""


class Records:
    """A private SQLite file. Thread-safe; other processes may use it at the same time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def find(self, source: Source) -> Record | None:
        """Return the record of one object and namespace."""
        where = "server = ? AND bucket = ? AND key = ? AND namespace = ?"
        return next(iter(self._select(where, (source.server, source.bucket, source.key, source.namespace))), None)

    def below(self, server: str, bucket: str, prefix: str) -> list[Record]:
        """Return the records of all objects below a prefix, whatever their namespace."""
        where = "server = ? AND bucket = ? AND substr(key, 1, ?) = ?"
        return self._select(where, (server, bucket, len(prefix), prefix))

    def begin(self, source: Source, call: str) -> None:
        """Note, before the first item is written, that a call writes the text of an object."""

        def run(execute: Callable[..., sqlite3.Cursor]) -> None:
            place = (source.server, source.bucket, source.key, source.namespace)
            execute(
                "INSERT INTO objects VALUES (?, ?, ?, ?, '', 'unfinished', '', 0, 0, '[]', ?, ?)"
                " ON CONFLICT DO UPDATE SET state = 'unfinished', at = excluded.at,"
                " calls = (SELECT json_group_array(value) FROM (SELECT value FROM json_each(objects.calls)"
                " UNION SELECT value FROM json_each(excluded.calls)))",
                (*place, json.dumps([call]), time.time()),
            )

        self._using(run)

    def finish(self, source: Source, *, etag: str, chars: int, items: Iterable[str]) -> None:
        """Note that the text of an object is in the memory, in these items."""
        self._put(source, (etag, "ingested", "", False, chars), items)

    def skip(self, source: Source, *, etag: str, reason: str, forced: bool) -> None:
        """Note that an object has no text to ingest in this state. Items of an earlier state stay known."""
        earlier = self.find(source)
        self._put(source, (etag, "skipped", reason, forced, 0), () if earlier is None else earlier.items)

    def _put(self, source: Source, facts: tuple[str, State, str, bool, int], items: Iterable[str]) -> None:
        place = (source.server, source.bucket, source.key, source.namespace)
        values = (*place, *facts, json.dumps(tuple(items)), "[]", time.time())
        query = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._using(lambda execute: execute(query, values))

    def _select(self, where: str, values: tuple[Any, ...]) -> list[Record]:
        if self._connection is None and not self._path.exists():
            return []
        query = f"SELECT {_COLUMNS} FROM objects WHERE {where} ORDER BY key, namespace"  # noqa: S608 - constants only
        rows = self._using(lambda execute: execute(query, values).fetchall())
        return [
            Record(
                key=key,
                namespace=namespace,
                etag=etag,
                state=state,
                reason=reason,
                forced=bool(forced),
                chars=chars,
                items=tuple(json.loads(items)),
                calls=tuple(json.loads(calls)),
            )
            for key, namespace, etag, state, reason, forced, chars, items, calls in rows
        ]

    def _using(self, run: Callable[[Callable[..., sqlite3.Cursor]], T]) -> T:
        """Run one transaction. Raises `RecordsUnavailable`."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._open()
                with self._connection:
                    return run(self._connection.execute)
            except (sqlite3.Error, OSError) as error:
                if self._connection is not None:
                    with suppress(sqlite3.Error):
                        self._connection.close()
                    self._connection = None
                raise RecordsUnavailable(
                    f"The records of ingested objects, {self._path}, cannot be used ({error}). If the file is damaged, "
                    "move it away: objects are then ingested again, without duplicates."
                ) from error

    def _open(self) -> sqlite3.Connection:
        make_private(self._path)
        connection = sqlite3.connect(self._path, timeout=_LOCK_SECONDS, check_same_thread=False)
        try:
            # A killed process loses nothing. A power failure can lose the last records, whose objects are read again.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection
