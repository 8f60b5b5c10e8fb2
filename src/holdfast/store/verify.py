"""Reading the whole ledger to see that nothing in it was changed, taken out, put in or moved."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator

from msgspec import Struct

from holdfast.contract.errors import LedgerError
from holdfast.store.bodies import BodyReader
from holdfast.store.chain import Verification, link
from holdfast.store.database import Database
from holdfast.store.derived import Derived, difference
from holdfast.store.schema import GENESIS

Execute = Callable[..., sqlite3.Cursor]
_PAGE = 1000


class _Progress(Struct):
    entries: int = 0
    head: bytes = GENESIS
    anchored: bool = False


def verify(database: Database, read: BodyReader, anchor: str | None = None) -> Verification:
    """`anchor` is a head from an earlier verification: the chain must still pass through it."""
    progress = _Progress(anchored=anchor in (None, GENESIS.hex()))
    try:
        return database.read(lambda execute: _verify(execute, read, progress, anchor))
    except LedgerError as error:
        return _failed(progress, progress.entries + 1, str(error))


def _verify(execute: Execute, read: BodyReader, progress: _Progress, anchor: str | None) -> Verification:
    derived = Derived(read)
    begun: set[str] = {""}
    for entry, call, kind, at, body, digest, place in _entries(execute):
        expected = progress.entries + 1
        if entry != expected:
            return _failed(progress, expected, f"Entry {expected} is missing: the next one is {entry}.")
        if link(progress.head, call, kind, at, body) != digest or place != (entry if call in begun else 0):
            return _failed(progress, entry, f"Entry {entry} is not what was written there.")
        begun.add(call)
        derived.feed(entry, call, kind, body)
        progress.entries, progress.head = entry, digest
        progress.anchored = progress.anchored or digest.hex() == anchor
        if derived.stray is not None:
            return _failed(progress, entry, f"Entry {entry} ends a call that was not open.")
    written = execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entries'").fetchone()[0]
    if written != progress.entries:
        missing = f"The ledger ends with entry {progress.entries}, but {written} were written."
        return _failed(progress, progress.entries + 1, missing)
    if not progress.anchored:
        return _failed(progress, None, "The ledger does not pass through the head that was noted earlier.")
    table = difference(derived, execute)
    if table is not None:
        return _failed(progress, None, f"The table {table} does not follow from the entries.")
    damage = execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        return _failed(progress, None, f"The file is damaged: {damage}.")
    return Verification(ok=True, entries=progress.entries, head=progress.head.hex())


def _entries(execute: Execute) -> Generator[tuple[int, str, str, float, str, bytes, int]]:
    last = -(2**63)
    while page := execute(
        "SELECT id, call, kind, at, body, hash, place FROM entries WHERE id > ? ORDER BY id LIMIT ?", (last, _PAGE)
    ).fetchall():
        yield from page
        last = page[-1][0]


def _failed(progress: _Progress, first_bad: int | None, problem: str) -> Verification:
    return Verification(
        ok=False, entries=progress.entries, head=progress.head.hex(), first_bad=first_bad, problem=problem
    )
