"""The vectors of one memory file: embeds items that have none, and keeps a matrix in memory up to date with the file.

All vectors of a file are of one embedder, which the file names. Another embedder removes them and starts again. What is
missing is found by comparing the tables, so a killed process, or an item written without an embedder, needs no repair.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from holdfast.contract.errors import HoldfastError
from holdfast.store.memory.database import MemoryDatabase
from holdfast.store.memory.fusion import Similarities
from holdfast.store.memory.vectors import VectorMatrix, batches, passages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holdfast.store.memory.embedders import Embedder

Execute = Callable[..., sqlite3.Cursor]
Progress = Callable[[str, float, float], None]
EMBEDDED_AT_ONCE: Final = 256
SECONDS_AT_ONCE: Final = 5.0
"""How many items a search embeds before it answers, and for how long; a thread does the rest."""
_BATCH: Final = 32
_LOADED_AT_ONCE: Final = 4096
_MISSING: Final = "items.number > ? AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.item = items.number)"
_log: Final = logging.getLogger("holdfast")


class VectorIndex:
    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._lock = threading.RLock()
        self._matrix: VectorMatrix | None = None
        self._of = ""
        """The embedder of the matrix."""
        self._seen: tuple[int, int] | None = None
        self._last_vector = self._last_tombstone = 0
        self._complete_to = 0
        """Every item up to this number has a vector."""
        self._dropped = 0
        """How often damaged vectors were removed."""
        self._worker: threading.Thread | None = None
        self._closed = False

    def close(self) -> None:
        """Stop the thread that embeds."""
        self._closed = True
        worker = self._worker
        if worker is not None and worker is not threading.current_thread():
            worker.join(timeout=60)

    def catch_up(
        self,
        embedder: Embedder,
        progress: Progress | None = None,
        limit: int = EMBEDDED_AT_ONCE,
        seconds: float = SECONDS_AT_ONCE,
    ) -> int:
        """Embed items that have no vector; a thread does the rest. Returns how many are still missing."""
        if not self._embed(embedder, limit, progress, monotonic() + seconds):
            return 0
        with self._lock:
            if self._worker is None or not self._worker.is_alive():
                self._worker = threading.Thread(
                    target=self._embed_all, args=(embedder,), name="holdfast-memory", daemon=True
                )
                self._worker.start()
            return self._rows(f"SELECT count(*) FROM items WHERE {_MISSING}", (self._complete_to,))[0][0]

    def similarities(
        self,
        embedder: Embedder,
        query: NDArray[np.float32],
        scopes: Collection[int] | None,
        wanted: Collection[int],
        limit: int,
    ) -> Similarities[int] | None:
        """Compare with the items of these namespaces (None: all). See `VectorMatrix.similarities`."""
        with self._lock:
            return self._current(embedder).similarities(query, scopes, wanted, limit)

    def _embed_all(self, embedder: Embedder) -> None:
        with suppress(HoldfastError):  # the next search meets the same problem and reports it
            while not self._closed and self._embed(embedder, EMBEDDED_AT_ONCE):
                pass

    def _embed(self, embedder: Embedder, limit: int, progress: Progress | None = None, deadline: float = inf) -> bool:
        """Embed up to `limit` items; return whether there are more."""
        with self._lock:
            self._current(embedder)
            after, dropped = self._complete_to, self._dropped
        with self._database.reading() as execute:
            query = f"SELECT number, content FROM items WHERE {_MISSING} ORDER BY number LIMIT ?"
            rows = execute(query, (after, limit + 1)).fetchall()
            last = execute("SELECT max(number) FROM items").fetchone()[0] or 0
        done, has_more = 0, len(rows) > limit
        for batch in batches({number: passages(content) for number, content in rows[:limit]}, _BATCH):
            if self._closed or (done and monotonic() > deadline):
                return not self._closed
            if progress is not None and len(rows) > _BATCH:
                progress("embedding items of the memory", done, min(limit, len(rows)))
            self._store(embedder, batch)
            done += len({number for number, _ in batch})
        with self._lock:
            if self._dropped == dropped:
                self._complete_to = max(self._complete_to, rows[limit - 1][0] if has_more else last)
        return has_more

    def _store(self, embedder: Embedder, batch: Sequence[tuple[int, str]]) -> None:
        vectors = embedder.embed([text for _, text in batch])
        numbers = json.dumps(list({number for number, _ in batch}))
        with self._database.writing() as execute:
            if _identity_in(execute) != _identity(embedder):
                return  # another process changed the embedder
            # An item may have been forgotten, or embedded by another process, since it was read.
            still = execute(
                f"SELECT number FROM items WHERE {_MISSING} AND number IN (SELECT value FROM json_each(?))",
                (0, numbers),
            )
            wanted = {number for (number,) in still.fetchall()}
            for (number, _), vector in zip(batch, vectors, strict=True):
                if number in wanted:
                    execute("INSERT INTO vectors (item, data) VALUES (?, ?)", (number, vector.tobytes()))

    def _current(self, embedder: Embedder) -> VectorMatrix:
        """Return the matrix with every change of the file applied. Call with the lock."""
        state = self._database.state()
        if self._matrix is not None and state == self._seen and self._of == _identity(embedder):
            return self._matrix
        self._claim(embedder)
        if self._matrix is None or self._of != _identity(embedder):
            self._matrix, self._of = VectorMatrix(embedder.dimension), _identity(embedder)
            self._last_vector = self._last_tombstone = self._complete_to = 0
        damaged = self._load(self._matrix)
        for number, item in self._rows("SELECT number, item FROM tombstones WHERE number > ?", (self._last_tombstone,)):
            self._matrix.remove(item)
            self._last_tombstone = number
        self._seen = state
        if damaged:
            self._drop(self._matrix, damaged)
        return self._matrix

    def _claim(self, embedder: Embedder) -> None:
        """Remove the vectors of another embedder; those of two are never compared."""
        if self._rows("SELECT value FROM facts WHERE name = 'vectors'") == [(_identity(embedder),)]:
            return
        with self._database.writing() as execute:
            before = _identity_in(execute)
            if before == _identity(embedder):
                return
            execute("DELETE FROM vectors")
            execute("INSERT OR REPLACE INTO facts VALUES ('vectors', ?)", (_identity(embedder),))
        self._matrix = None
        if before is not None:
            _log.warning(
                "The memory %s was embedded with %s and is embedded again with %s.",
                self._database.path,
                before,
                _identity(embedder),
            )

    def _load(self, matrix: VectorMatrix) -> list[int]:
        damaged: list[int] = []
        query = (
            "SELECT vectors.number, item, namespace, data FROM vectors JOIN items ON items.number = item"
            " WHERE vectors.number > ? ORDER BY vectors.number LIMIT ?"
        )
        while rows := self._rows(query, (self._last_vector, _LOADED_AT_ONCE)):
            numbers, items, scopes, data = zip(*rows, strict=True)
            damaged += matrix.add(items, scopes, data)
            self._last_vector = numbers[-1]
        return damaged

    def _drop(self, matrix: VectorMatrix, damaged: Sequence[int]) -> None:
        """Remove damaged vectors, so that their items are embedded again."""
        _log.warning(
            "The memory %s had %d damaged vectors. They are computed again.", self._database.path, len(damaged)
        )
        with self._database.writing() as execute:
            for item in damaged:
                execute("DELETE FROM vectors WHERE item = ?", (item,))
                matrix.remove(item)
        self._complete_to = 0
        self._dropped += 1

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._database.reading() as execute:
            return execute(query, values).fetchall()


def _identity(embedder: Embedder) -> str:
    return f"{embedder.name} ({embedder.dimension})"


def _identity_in(execute: Execute) -> str | None:
    row = execute("SELECT value FROM facts WHERE name = 'vectors'").fetchone()
    return None if row is None else row[0]
