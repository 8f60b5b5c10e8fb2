"""Verifies the ledger's hash chain: detects entries that were changed, removed, inserted or reordered."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from typing import Final

from msgspec import Struct, field

from holdfast.contract.errors import LedgerError
from holdfast.store.changes import AfterImage, CallUndone, CommandChanges, ConcurrentCalls
from holdfast.store.database import GENESIS, PRUNING_VERSION, Database
from holdfast.store.entries import (
    BeforeImage,
    BodyReader,
    CallEnded,
    CallRecorded,
    EntriesPruned,
    RunClaimed,
    RunEnded,
    RunsMissed,
    UnreadableEntry,
    VerifyReport,
    matches_chain,
)
from holdfast.store.projections import ExpectedTables, first_mismatch

Execute = Callable[..., sqlite3.Cursor]
_PAGE = 1000
_OTHER_KINDS: Final[dict[str, type[Struct]]] = {
    "call": CallRecorded,
    "ended": CallEnded,
    "before": BeforeImage,
    "after": AfterImage,
    "recorded": CommandChanges,
    "undone": CallUndone,
    "together": ConcurrentCalls,
    "fired": RunClaimed,
    "ran": RunEnded,
    "missed": RunsMissed,
}
"""Kinds that no table is derived from; decoded only to check that they are readable."""


class _Progress(Struct):
    last: int = 0
    head: bytes = GENESIS
    anchored: bool = False
    pruned: int = 0
    gaps: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])
    """Pruned ranges from the table `pruned`: first entry to (last entry, hash of the last)."""
    vouched: set[tuple[int, int, str]] = field(default_factory=set[tuple[int, int, str]])
    """The pruned ranges that `pruned` entries, which are part of the chain, confirm."""
    unreadable: list[UnreadableEntry] = field(default_factory=list[UnreadableEntry])

    def skip(self) -> None:
        """Continue behind the pruned entries."""
        while (gap := self.gaps.get(self.last + 1)) is not None and gap[0] > self.last:
            self.pruned += gap[0] - self.last
            self.last, self.head = gap


def verify(database: Database, read: BodyReader, anchor: str | None = None) -> VerifyReport:
    """Verify the chain, the derived tables and the file. The chain must pass through `anchor`, an earlier head."""
    progress = _Progress(anchored=anchor in (None, GENESIS.hex()))
    try:
        return database.read(lambda execute: _verify(execute, read, progress, anchor))
    except LedgerError as error:
        return _failed(progress, progress.last + 1, str(error))


def _verify(execute: Execute, read: BodyReader, progress: _Progress, anchor: str | None) -> VerifyReport:
    expected = ExpectedTables(read)
    begun: set[str] = {""}
    progress.gaps = _gaps(execute)
    for entry, call, kind, at, body, digest, place in _entries(execute):
        progress.skip()
        progress.anchored = progress.anchored or progress.head.hex() == anchor
        number = progress.last + 1
        if entry != number:
            return _failed(progress, number, f"Entry {number} is missing: the next one is {entry}.")
        written = matches_chain(digest, progress.head, call, kind, at, body)
        if not written or place != (entry if call in begun else 0):
            return _failed(progress, entry, f"Entry {entry} was changed after it was written.")
        begun.add(call)
        try:
            expected.feed(entry, call, kind, body)
            if kind == "pruned":
                progress.vouched.update(read(body, EntriesPruned).ranges)
            elif kind in _OTHER_KINDS:
                read(body, _OTHER_KINDS[kind])
        except LedgerError as error:
            progress.unreadable.append(UnreadableEntry(entry=entry, call=call, kind=kind, problem=str(error)))
        progress.last, progress.head = entry, digest
        progress.anchored = progress.anchored or digest.hex() == anchor
        if expected.stray_end is not None:
            return _failed(progress, entry, f"Entry {entry} ends a call that is not open.")
    return _conclude(execute, expected, progress)


def _conclude(execute: Execute, expected: ExpectedTables, progress: _Progress) -> VerifyReport:
    written = execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entries'").fetchone()[0]
    if written != progress.last:
        missing = f"The ledger ends with entry {progress.last}, but {written} were written."
        return _failed(progress, progress.last + 1, missing)
    for first, (last, digest) in progress.gaps.items():
        if (first, last, digest.hex()) not in progress.vouched:
            return _failed(progress, first, f"Entry {first} is missing, and no entry records that it was pruned.")
    if progress.unreadable:
        return _failed(progress, progress.unreadable[0].entry, _not_readable(progress.unreadable))
    if not progress.anchored:
        pruned = "; it may have been pruned, so save a new head" if progress.pruned else ""
        return _failed(progress, None, f"The hash chain does not contain the given head{pruned}.")
    table = first_mismatch(expected, execute)
    if table is not None:
        return _failed(progress, None, f"The table {table} does not match the entries.")
    damage = execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        return _failed(progress, None, f"The file is damaged: {damage}.")
    return _found(progress, ok=True)


def _not_readable(found: list[UnreadableEntry]) -> str:
    first = found[0]
    whose = f"{first.kind} of call {first.call}" if first.call else first.kind
    more = "" if len(found) == 1 else f" {len(found) - 1:,} more cannot be read either."
    return f"Entry {first.entry} ({whose}) cannot be read: {first.problem}{more}"


def _gaps(execute: Execute) -> dict[int, tuple[int, bytes]]:
    # A read-only ledger is not migrated, so it may predate the table `pruned`.
    if execute("PRAGMA user_version").fetchone()[0] < PRUNING_VERSION:
        return {}
    rows = execute("SELECT first, last, hash FROM pruned ORDER BY first").fetchall()
    return {first: (last, digest) for first, last, digest in rows}


def _entries(execute: Execute) -> Generator[tuple[int, str, str, float, str, bytes, int]]:
    last = -(2**63)
    while page := execute(
        "SELECT id, call, kind, at, body, hash, place FROM entries WHERE id > ? ORDER BY id LIMIT ?", (last, _PAGE)
    ).fetchall():
        yield from page
        last = page[-1][0]


def _failed(progress: _Progress, first_bad: int | None, problem: str) -> VerifyReport:
    return _found(progress, ok=False, first_bad=first_bad, problem=problem)


def _found(progress: _Progress, *, ok: bool, first_bad: int | None = None, problem: str | None = None) -> VerifyReport:
    return VerifyReport(
        ok=ok,
        entries=progress.last - progress.pruned,
        head=progress.head.hex(),
        first_bad=first_bad,
        problem=problem,
        pruned=progress.pruned,
        unreadable=tuple(progress.unreadable),
    )
