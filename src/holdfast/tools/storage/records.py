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

State = Literal["unfinished", "ingested", "skipped", "failed"]
T = TypeVar("T")
_LOCK_SECONDS: Final = 5.0
_SCHEMA: Final = """CREATE TABLE IF NOT EXISTS objects (
    server TEXT NOT NULL, bucket TEXT NOT NULL, key TEXT NOT NULL, namespace TEXT NOT NULL, etag TEXT NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL, forced INTEGER NOT NULL,
    chars INTEGER NOT NULL, items TEXT NOT NULL, calls TEXT NOT NULL,
    at REAL NOT NULL, PRIMARY KEY (server, bucket, key, namespace)) WITHOUT ROWID"""
_COLUMNS: Final = "key, namespace, etag, state, reason, forced, chars, items, calls, at"
_PLACE: Final = "server = ? AND bucket = ? AND key = ? AND namespace = ?"


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
    at: float = 0.0
    """When it was written, in seconds since the epoch."""

    @property
    def has_items(self) -> bool:
        """Whether the memory has, or may have, items of the object."""
        return self.state == "ingested" or bool(self.items or self.calls)


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
        return next(iter(self._select(_PLACE, _place(source))), None)

    def below(self, server: str, bucket: str, prefix: str) -> list[Record]:
        """Return the records of all objects below a prefix, whatever their namespace."""
        where = "server = ? AND bucket = ? AND substr(key, 1, ?) = ?"
        return self._select(where, (server, bucket, len(prefix), prefix))

    def begin(self, source: Source, call: str) -> None:
        """Note, before the first item is written, that a call writes the text of an object."""

        def run(execute: Callable[..., sqlite3.Cursor]) -> None:
            execute(
                "INSERT INTO objects VALUES (?, ?, ?, ?, '', 'unfinished', '', 0, 0, '[]', ?, ?)"
                " ON CONFLICT DO UPDATE SET state = 'unfinished', at = excluded.at,"
                " calls = (SELECT json_group_array(value) FROM (SELECT value FROM json_each(objects.calls)"
                " UNION SELECT value FROM json_each(excluded.calls)))",
                (*_place(source), json.dumps([call]), time.time()),
            )

        self._using(run)

    def finish(
        self, source: Source, *, call: str, etag: str, chars: int, items: Iterable[str], earlier: Record | None = None
    ) -> None:
        """Note that the text of an object is in the memory, in these items, in place of what `earlier` knew.

        What another call has noted since `earlier` was read stays known, so that `replace` takes it back later.
        """
        old_items, old_calls = ((), ()) if earlier is None else (earlier.items, earlier.calls)

        def merged(now: Record | None) -> tuple[Iterable[str], Iterable[str]]:
            if now is None:
                return items, ()
            others = (each for each in now.items if each not in old_items)
            return dict.fromkeys((*others, *items)), (each for each in now.calls if each not in (*old_calls, call))

        self._put(source, (etag, "ingested", "", False, chars), merged)

    def skip(self, source: Source, *, etag: str, reason: str, forced: bool) -> None:
        """Note that an object has no text to ingest in this state. Items of an earlier state stay known."""
        self._put(source, (etag, "skipped", reason, forced, 0), _known)

    def fail(self, source: Source, *, etag: str, reason: str) -> None:
        """Note that an object could not be read, so that others are tried before it the next time."""
        self._put(source, (etag, "failed", reason, False, 0), _known)

    def _put(
        self,
        source: Source,
        facts: tuple[str, State, str, bool, int],
        owned: Callable[[Record | None], tuple[Iterable[str], Iterable[str]]],
    ) -> None:
        """Write a record; `owned` returns its items and calls from the record that is there now."""

        def run(execute: Callable[..., sqlite3.Cursor]) -> None:
            execute("BEGIN IMMEDIATE")
            rows = execute(f"SELECT {_COLUMNS} FROM objects WHERE {_PLACE}", _place(source)).fetchall()  # noqa: S608 - constants only
            items, calls = owned(_record(rows[0]) if rows else None)
            values = (*_place(source), *facts, json.dumps(tuple(items)), json.dumps(tuple(calls)), time.time())
            execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)

        self._using(run)

    def _select(self, where: str, values: tuple[Any, ...]) -> list[Record]:
        if self._connection is None and not self._path.exists():
            return []
        query = f"SELECT {_COLUMNS} FROM objects WHERE {where} ORDER BY key, namespace"  # noqa: S608 - constants only
        rows = self._using(lambda execute: execute(query, values).fetchall())
        return [_record(row) for row in rows]

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


def _place(source: Source) -> tuple[str, str, str, str]:
    return source.server, source.bucket, source.key, source.namespace


def _record(row: tuple[Any, ...]) -> Record:
    key, namespace, etag, state, reason, forced, chars, items, calls, at = row
    return Record(
        key=key,
        namespace=namespace,
        etag=etag,
        state=state,
        reason=reason,
        forced=bool(forced),
        chars=chars,
        items=tuple(json.loads(items)),
        calls=tuple(json.loads(calls)),
        at=at,
    )


def _known(now: Record | None) -> tuple[Iterable[str], Iterable[str]]:
    return ((), ()) if now is None else (now.items, now.calls)
