"""`MemoryStore`: the items of one memory file: write, supersede, forget, expire, list and find.

An item, its keywords and its place in a namespace are one transaction. Vectors follow when a search needs them
(`vector_index`), so that a write costs no embedding.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from base64 import b32encode
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import sha256
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

from holdfast.contract.errors import MemoryRefused, MemoryUnavailable
from holdfast.contract.memory import MemoryItem, MemoryPage, NamespaceSummary, NewItem, Provenance
from holdfast.store.memory.database import MemoryDatabase, MemoryReplaced
from holdfast.store.memory.fusion import Similarities
from holdfast.store.memory.terms import expand

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holdfast.store.memory.embedders import Embedder
    from holdfast.store.memory.vector_index import Progress, VectorIndex

T = TypeVar("T")
Execute = Callable[..., sqlite3.Cursor]
Allows = Callable[[str], bool]
"""Whether a caller may use a namespace."""

CANDIDATES: Final = 500
"""Items that each ranking contributes to the fusion."""
MAX_RANKED: Final = 2_000
"""Matching items whose keyword score is computed; the newest if a single word matches more."""
MAX_STEPS: Final = 10_000
"""Matching items that are looked at, inside and outside of the namespaces of a search."""
_JOINED: Final = (
    "SELECT items.id, namespaces.name, content, created, updated, provenance, supersedes, superseded_by, expires,"
    " items.number FROM items CROSS JOIN namespaces ON namespaces.id = items.namespace"
)
"""A cross join makes SQLite start with the items, whose indexes are more selective."""
_ALIVE: Final = "(expires IS NULL OR expires > ?)"
_EXPIRED: Final = "expired"
"""Stands for the call in the tombstone of an item that expired."""


class Candidates(Struct, frozen=True):
    """What one memory file contributes to a search, by item number."""

    keywords: dict[int, float]
    meanings: Similarities[int] | None
    missing: int = 0
    """Items that have no vector yet."""


class MemoryStore:
    """One memory file. Thread-safe; other processes may use the file at the same time.

    The file is created by the first write.
    """

    def __init__(self, path: Path, *, shared: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.shared = shared
        self._clock = clock
        self._opening = threading.Lock()
        self._database: MemoryDatabase | None = None
        self._vectors: VectorIndex | None = None
        self._index_checked = False

    def close(self) -> None:
        with self._opening:
            if self._vectors is not None:
                self._vectors.close()
            if self._database is not None:
                self._database.close()
            self._database = self._vectors = None

    def _abandon(self, database: MemoryDatabase) -> None:
        """Close the database unless another thread has done so and opened the next one."""
        if self._database is database:
            self.close()

    # ------------------------------------------------------------------ changes

    def write(self, new: NewItem, provenance: Provenance) -> MemoryItem:
        """Add an item; return it, or the current item of the namespace with the same content, which expires as the new
        one would."""
        words = expand(new.content)  # not while other processes wait for the transaction

        def run(database: MemoryDatabase) -> MemoryItem:
            with database.writing() as execute:
                item = self._same(execute, new.namespace, new.content)
                if item is None or new.supersedes not in (None, item.id):
                    item = self._insert(execute, new, words, provenance)
                elif item.expires != new.expires:
                    changed = (new.expires, self._clock(), item.id)
                    execute("UPDATE items SET expires = ?, updated = ? WHERE id = ?", changed)
                    item = self._one(execute, item.id)
            if database.log_has_deleted:
                database.truncate_log()
            return item

        return self._using_index(run)

    def forget(self, item_id: str, seen: str, call: str) -> bool:
        """Delete an item's text, keywords and vectors; a tombstone with its id remains.

        Returns False if another process still reads an old state, which then keeps the text in the log until the next
        change, or until this process closes the file.
        """

        def run(database: MemoryDatabase) -> bool:
            with database.writing() as execute:
                item = self._one(execute, item_id)
                if item.digest != seen:
                    raise MemoryRefused(f"Item {item_id} has changed since this was proposed. Propose it again.")
                number = execute("SELECT number FROM items WHERE id = ?", (item_id,)).fetchone()[0]
                self._remove(database, execute, [(number, item_id, item.superseded_by)], call)
            return database.truncate_log()

        return self._using_index(run)

    # ------------------------------------------------------------------ reading

    def get(self, item_id: str) -> MemoryItem | None:
        found = self._items(f"items.id = ? AND {_ALIVE}", (item_id, self._clock())) if self._exists() else []
        return found[0] if found else None

    def find_same(self, namespace: str, content: str) -> MemoryItem | None:
        """Return the current item of the namespace with this content."""
        if not self._exists():
            return None

        def run(database: MemoryDatabase) -> MemoryItem | None:
            with database.reading() as execute:
                return self._same(execute, namespace, content)

        return self._using(run)

    def namespaces(self, allows: Allows, within: str | None = None) -> list[NamespaceSummary]:
        if not self._exists():
            return []
        query = (
            f"SELECT name, sum(superseded_by IS NULL), max(updated) FROM items JOIN namespaces"
            f" ON namespaces.id = items.namespace WHERE {_ALIVE} GROUP BY namespaces.id ORDER BY name"
        )
        rows = self._rows(query, (self._clock(),))
        return [
            NamespaceSummary(namespace=name, items=count, updated=updated, shared=self.shared)
            for name, count, updated in rows
            if is_within(name, within) and allows(name)
        ]

    def page(
        self, namespace: str, allows: Allows, *, offset: int, limit: int, history: bool, below: bool
    ) -> MemoryPage:
        """Return items of the namespace, newest first."""
        numbers = self.scope(allows, namespace, below=below) if self._exists() else []
        if not numbers:
            return MemoryPage(items=(), total=0)
        where = (
            f"namespace IN (SELECT value FROM json_each(?)) AND {_ALIVE}"
            f"{'' if history else ' AND superseded_by IS NULL'}"
        )
        values = (json.dumps(numbers), self._clock())
        total = self._rows(f"SELECT count(*) FROM items WHERE {where}", values)[0][0]
        ordered = f"{where} ORDER BY items.number DESC LIMIT ? OFFSET ?"
        return MemoryPage(items=tuple(self._items(ordered, (*values, limit, offset))), total=total)

    def scope(self, allows: Allows, within: str | None = None, *, below: bool = True) -> list[int]:
        """Return the numbers of the namespaces that may be read: all, one, or one with those below it."""
        if not self._exists():
            return []
        rows = self._rows("SELECT id, name FROM namespaces")
        return [
            number for number, name in rows if (is_within(name, within) if below else name == within) and allows(name)
        ]

    def by_number(self, numbers: Collection[int]) -> dict[int, MemoryItem]:
        """Return the items that still exist, by number."""
        if not numbers:
            return {}
        where = f"items.number IN (SELECT value FROM json_each(?)) AND {_ALIVE}"
        rows = self._rows(f"{_JOINED} WHERE {where}", (json.dumps(list(numbers)), self._clock()))
        return {row[-1]: self._item(row) for row in rows}

    # ------------------------------------------------------------------ search

    def candidates(
        self,
        terms: Sequence[str],
        scope: Sequence[int],
        embedder: Embedder | None = None,
        query: NDArray[np.float32] | None = None,
        progress: Progress | None = None,
    ) -> Candidates:
        """Return the best items by keywords, and by meaning if there is an embedder, within these namespaces."""
        if not scope or not self._exists():
            return Candidates({}, None)
        whole = len(scope) == self._rows("SELECT count(*) FROM namespaces")[0][0]
        keywords = self._using_index(lambda database: self._matching(database, terms, scope, whole)) if terms else {}
        if embedder is None or query is None:
            return Candidates(keywords, None)

        def run(database: MemoryDatabase) -> Candidates:
            vectors = self._vector_index()
            missing = vectors.catch_up(embedder, progress)
            found = vectors.similarities(embedder, query, None if whole else scope, keywords, CANDIDATES)
            return Candidates(keywords, found, missing)

        return self._using(run)

    def _matching(
        self, database: MemoryDatabase, terms: Sequence[str], scope: Sequence[int], whole: bool
    ) -> dict[int, float]:
        if not self._index_checked:
            database.check_index()
            self._index_checked = True
        query = (
            "SELECT words.rowid, -words.rank FROM words JOIN items ON items.number = words.rowid WHERE words MATCH ?"
            f" AND items.namespace IN (SELECT value FROM json_each(?)) AND {_ALIVE} ORDER BY words.rowid DESC LIMIT ?"
        )
        with database.reading() as execute:
            chosen = " OR ".join(_telling_terms(execute, terms, None if whole else scope))
            rows = execute(query, (chosen, json.dumps(scope), self._clock(), MAX_RANKED)).fetchall()
        rows.sort(key=itemgetter(1), reverse=True)
        return dict(rows[:CANDIDATES])

    # ------------------------------------------------------------------ inside

    def _exists(self) -> bool:
        return self._database is not None or self.path.exists()

    def _open(self) -> MemoryDatabase:
        with self._opening:
            if self._database is None:
                self._database = MemoryDatabase(self.path)
                self._vectors, self._index_checked = None, False
            return self._database

    def _vector_index(self) -> VectorIndex:
        from holdfast.store.memory.vector_index import VectorIndex

        database = self._open()
        with self._opening:
            if self._vectors is None:
                self._vectors = VectorIndex(database)
            return self._vectors

    def _using(self, run: Callable[[MemoryDatabase], T]) -> T:
        """Run on the open database. A file that turns out to be damaged is opened anew by the next call, and one that
        another process has moved away is at once."""
        try:
            return self._try(run)
        except MemoryReplaced:
            return self._try(run)

    def _try(self, run: Callable[[MemoryDatabase], T]) -> T:
        database = self._open()
        try:
            self._remove_expired(database)
            return run(database)
        except MemoryUnavailable as error:
            if database.set_aside or isinstance(error, MemoryReplaced):
                self._abandon(database)
            raise

    def _using_index(self, run: Callable[[MemoryDatabase], T]) -> T:
        return self._using(lambda database: database.with_index(lambda: run(database)))

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        def run(database: MemoryDatabase) -> list[tuple[Any, ...]]:
            with database.reading() as execute:
                return execute(query, values).fetchall()

        return self._using(run)

    def _items(self, where: str, values: Sequence[Any]) -> list[MemoryItem]:
        return [self._item(row) for row in self._rows(f"{_JOINED} WHERE {where}", values)]

    def _item(self, row: Sequence[Any]) -> MemoryItem:
        item_id, namespace, content, created, updated, provenance, supersedes, superseded_by, expires, _ = row
        try:
            made_by = msgspec.json.decode(provenance, type=Provenance)
        except msgspec.DecodeError:
            made_by = Provenance(interface="unknown")
        return MemoryItem(
            id=item_id,
            namespace=namespace,
            content=content,
            created=created,
            updated=updated,
            provenance=made_by,
            supersedes=supersedes,
            superseded_by=superseded_by,
            expires=expires,
            shared=self.shared,
        )

    def _one(self, execute: Execute, item_id: str) -> MemoryItem:
        row = execute(f"{_JOINED} WHERE items.id = ? AND {_ALIVE}", (item_id, self._clock())).fetchone()
        if row is None:
            raise no_such_item(item_id)
        return self._item(row)

    def _same(self, execute: Execute, namespace: str, content: str) -> MemoryItem | None:
        where = f"digest = ? AND namespaces.name = ? AND superseded_by IS NULL AND {_ALIVE}"
        row = execute(f"{_JOINED} WHERE {where}", (_digest(content), namespace, self._clock())).fetchone()
        return None if row is None else self._item(row)

    def _insert(self, execute: Execute, new: NewItem, words: str, provenance: Provenance) -> MemoryItem:
        made, now = _new_id(), self._clock()
        number = execute(
            "INSERT INTO items (id, namespace, content, digest, created, updated, expires, supersedes, provenance)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                made,
                _namespace_number(execute, new.namespace),
                new.content,
                _digest(new.content),
                now,
                now,
                new.expires,
                new.supersedes,
                msgspec.json.encode(provenance).decode(),
            ),
        ).lastrowid
        execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, words))
        if new.supersedes is not None:
            self._supersede(execute, new, made, now)
        return self._one(execute, made)

    def _supersede(self, execute: Execute, new: NewItem, made: str, now: float) -> None:
        assert new.supersedes is not None
        old = self._one(execute, new.supersedes)
        if old.superseded_by is not None and self._is_kept(execute, old.superseded_by):
            raise MemoryRefused(f"Item {old.id} was superseded by {old.superseded_by} already. Supersede that one.")
        if new.seen is not None and old.digest != new.seen:
            raise MemoryRefused(f"Item {old.id} has changed since this was proposed. Propose it again.")
        execute("UPDATE items SET superseded_by = ?, updated = ? WHERE id = ?", (made, now, old.id))

    def _is_kept(self, execute: Execute, item_id: str) -> bool:
        return execute("SELECT 1 FROM items WHERE id = ?", (item_id,)).fetchone() is not None

    def _remove_expired(self, database: MemoryDatabase) -> None:
        """Remove what has expired. Where that is not possible now, the item is hidden and removed later."""
        query, values = "SELECT number, id, superseded_by FROM items WHERE expires <= ?", (self._clock(),)
        with database.reading() as execute:
            if execute(query, values).fetchone() is None:
                return

        def remove() -> None:
            with database.writing() as execute:
                expired = execute(query, values).fetchall()
                self._remove(database, execute, expired, _EXPIRED)
            database.truncate_log()

        try:
            database.with_index(remove)
        except MemoryReplaced:
            raise
        except MemoryUnavailable:
            if database.set_aside:
                raise

    def _remove(
        self, database: MemoryDatabase, execute: Execute, items: Iterable[tuple[int, str, str | None]], call: str
    ) -> None:
        """Remove all that is known of items but their ids. `secure_delete` overwrites the freed space with zeros.

        What an item superseded is superseded by the item's own successor. Without one it becomes current again if the
        item expired, but not if it was forgotten: that must not bring an error back.
        """
        for number, item_id, successor in items:
            if successor is not None or call == _EXPIRED:
                changed = (successor, self._clock(), item_id)
                execute("UPDATE items SET superseded_by = ?, updated = ? WHERE superseded_by = ?", changed)
            for table, column in (("words", "rowid"), ("vectors", "item"), ("items", "number")):
                execute(f"DELETE FROM {table} WHERE {column} = ?", (number,))
            execute(
                "INSERT INTO tombstones (item, id, at, call) VALUES (?, ?, ?, ?)",
                (number, item_id, self._clock(), call),
            )
        execute("DELETE FROM namespaces WHERE id NOT IN (SELECT namespace FROM items)")
        database.merge_index(execute)


def no_such_item(item_id: str) -> MemoryRefused:
    return MemoryRefused(f"There is no item {item_id[:80]!a}. Search or list the memory for the ids.")


def _telling_terms(execute: Execute, terms: Sequence[str], scope: Sequence[int] | None) -> list[str]:
    """Return the rarest terms, as many as together match few enough items; at least one.

    A word that thousands of items contain tells little about any of them, and ranking them all would take long.
    """
    total = execute("SELECT max(number) FROM items").fetchone()[0] or 0  # at least as many as there are
    if total <= MAX_RANKED:
        return list(terms)
    left = MAX_RANKED
    if scope is not None:
        inside = "SELECT count(*) FROM items WHERE namespace IN (SELECT value FROM json_each(?))"
        share = execute(inside, (json.dumps(scope),)).fetchone()[0] / total
        left = int(min(MAX_RANKED / max(share, 1e-6), MAX_STEPS))
    bounded = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    counts = sorted((execute(bounded, (term, left + 1)).fetchone()[0], term) for term in terms)
    chosen: list[str] = []
    for count, term in counts:
        left -= count
        if chosen and left < 0:
            break
        chosen.append(term)
    return chosen


def _namespace_number(execute: Execute, name: str) -> int:
    execute("INSERT OR IGNORE INTO namespaces (name) VALUES (?)", (name,))
    return execute("SELECT id FROM namespaces WHERE name = ?", (name,)).fetchone()[0]


def is_within(name: str, within: str | None) -> bool:
    return within is None or name == within or name.startswith(f"{within}/")


def _new_id() -> str:
    """Return a random id: short enough to type, and unique without asking other files."""
    return b32encode(os.urandom(10)).decode().lower()[:12]


def _digest(content: str) -> bytes:
    return sha256(content.encode()).digest()
