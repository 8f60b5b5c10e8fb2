"""Pruning: finished calls that are old go with all that was kept for them, and kept content has a limit.

What is removed is told by an entry of its own, so that the chain of hashes can be followed across the gap.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.contract.errors import LedgerError
from holdfast.store.database import Transaction
from holdfast.store.entries import EntriesPruned

if TYPE_CHECKING:
    from holdfast.config.config import LedgerConfig
    from holdfast.store.ledger import Ledger

DAY: Final = 86_400.0
_GRACE: Final = 3600.0
"""Content younger than this may belong to an entry that is about to be written."""
_SETTLED: Final = 60.0
"""The same for content that belonged to a call: it could be kept again for another just now."""
_PAGE: Final = 2000
_REFERENCE: Final = re.compile(r'"(blob|spill)":"([0-9a-f]{64})"')
_BODY: Final = '{"blob":"'
"""How an entry begins whose body is kept elsewhere; `verify` needs such a body as long as the entry is there."""


class PruneReport(Struct, frozen=True, kw_only=True):
    """What was removed, or would be."""

    calls: int = 0
    entries: int = 0
    blobs: int = 0
    freed: int = 0
    """Bytes of kept content."""
    kept_bytes: int = 0
    """Bytes of content that are still kept."""


class _Kept(Struct):
    """Kept content something refers to."""

    newest: int
    """The newest entry that does."""
    needed: bool
    """Not to be dropped for space: a body, or part of a call that is not over."""


class _File(Struct, frozen=True):
    path: Path
    size: int
    at: float


def prune(
    ledger: Ledger, *, older_than: float | None, max_bytes: int | None, by: str, dry_run: bool = False
) -> PruneReport:
    """Remove finished calls without an entry since `older_than` (a time of the clock), then content beyond `max_bytes`.

    Calls that wait or run, grants and trust stay, however old they are.
    """
    doomed = [] if older_than is None else _old_calls(ledger, older_than)
    known = _references(ledger, set()) if doomed else {}
    entries = 0
    if doomed and dry_run:
        entries = sum(_count(ledger, call) for call in doomed)
    elif doomed and older_than is not None:
        doomed, entries = _remove_entries(ledger, older_than, by)
    references = _references(ledger, set(doomed))
    files = _files(ledger.blobs.folder)
    orphans = [
        file
        for name, file in files.items()
        if name not in references and _is_older(file, _SETTLED if name in known else _GRACE)
    ]
    surplus = _surplus(files, references, orphans, max_bytes)
    gone = [*orphans, *surplus]
    freed = sum(file.size for file in gone)
    if not dry_run:
        if surplus:
            sizes = sum(file.size for file in surplus)
            _tell(ledger, EntriesPruned(blobs=len(surplus), freed=sizes, by=by))
        _remove_files(gone)
        if entries:
            ledger.shrink()
    kept = sum(file.size for file in files.values()) - freed
    return PruneReport(calls=len(doomed), entries=entries, blobs=len(gone), freed=freed, kept_bytes=kept)


def prune_by_config(ledger: Ledger, config: LedgerConfig, *, by: str, dry_run: bool = False) -> PruneReport:
    """As the configuration says."""
    older_than = None if config.keep_days is None else time.time() - config.keep_days * DAY
    return prune(ledger, older_than=older_than, max_bytes=config.max_blob_bytes, by=by, dry_run=dry_run)


_OLD: Final = """
    SELECT call FROM entries WHERE call != '' GROUP BY call
    HAVING max(at) < ? AND call NOT IN (SELECT call FROM open_calls)
"""


def _old_calls(ledger: Ledger, older_than: float) -> list[str]:
    return _named(ledger.rows(_OLD, (older_than,)))


def _named(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """A name that is no text cannot be asked for: its entries are damaged, and stay."""
    return [call for (call,) in rows if isinstance(call, str) and call.isprintable()]


def _count(ledger: Ledger, call: str) -> int:
    return ledger.rows("SELECT count(*) FROM entries WHERE call = ?", (call,))[0][0]


def _remove_entries(ledger: Ledger, older_than: float, by: str) -> tuple[list[str], int]:
    """In one transaction: what is old now, whatever was old when it was looked at first."""

    def op(tx: Transaction) -> tuple[list[str], int]:
        calls = _named(tx.execute(_OLD, (older_than,)).fetchall())
        rows = [
            row
            for call in calls
            for row in tx.execute("SELECT id, hash FROM entries WHERE call = ?", (call,)).fetchall()
        ]
        ranges = _ranges(sorted(rows))
        if not ranges:
            return [], 0
        pruned = EntriesPruned(ranges=ranges, calls=len(calls), older_than=older_than, by=by)
        tx.append("", "pruned", ledger.encode_body(pruned))
        for first, last, digest in ranges:
            tx.execute("INSERT INTO pruned (first, last, hash) VALUES (?, ?, ?)", (first, last, bytes.fromhex(digest)))
            tx.execute("DELETE FROM entries WHERE id BETWEEN ? AND ?", (first, last))
        return calls, len(rows)

    return ledger.run(op)


def _ranges(rows: Iterable[tuple[int, object]]) -> tuple[tuple[int, int, str], ...]:
    """Numbers that follow each other, taken together, with the hash of the last."""
    found: list[tuple[int, int, str]] = []
    for number, digest in rows:
        first = found.pop()[0] if found and found[-1][1] == number - 1 else number
        found.append((first, number, digest.hex() if isinstance(digest, bytes) else ""))
    return tuple(found)


def _references(ledger: Ledger, without: set[str]) -> dict[str, _Kept]:
    """All content the entries refer to, those of some calls left out."""
    found: dict[str, _Kept] = {}
    open_calls = {call for (call,) in ledger.rows("SELECT call FROM open_calls")}
    sql = (
        "SELECT id, call, body FROM entries WHERE id > ? AND id <= ? "
        'AND (instr(body, \'"blob":"\') OR instr(body, \'"spill":"\'))'
    )
    last = ledger.rows("SELECT coalesce(max(id), 0) FROM entries")[0][0]
    for start in range(0, last, _PAGE):
        for entry, call, body in ledger.rows(sql, (start, start + _PAGE)):
            if call not in without:
                _note(ledger, found, entry, body, needed=call in open_calls)
    return found


def _note(ledger: Ledger, found: dict[str, _Kept], entry: int, body: object, *, needed: bool) -> None:
    if not isinstance(body, str):
        return  # damaged, so that nothing can refer to what it held
    elsewhere = body.startswith(_BODY)
    for _, reference in _REFERENCE.findall(body):
        known = found.get(reference)
        is_needed = needed or elsewhere or (known is not None and known.needed)
        found[reference] = _Kept(entry, is_needed)
    if elsewhere:
        with suppress(LedgerError, ValueError):  # one that is damaged or gone refers to nothing
            text = ledger.read_body.text(body)
            _note(ledger, found, entry, f" {text.decode() if isinstance(text, bytes) else text}", needed=needed)


def _files(folder: Path) -> dict[str, _File]:
    found: dict[str, _File] = {}
    for path in (*folder.glob("[0-9a-f][0-9a-f]/*"), *folder.glob(".holdfast-*.tmp")):
        try:
            facts = path.stat()
        except FileNotFoundError:
            continue
        found[path.name] = _File(path, facts.st_size, facts.st_mtime)
    return found


def _surplus(
    files: dict[str, _File], references: dict[str, _Kept], orphans: list[_File], max_bytes: int | None
) -> list[_File]:
    """What was referred to longest ago, until the rest is small enough."""
    if max_bytes is None:
        return []
    over = sum(file.size for file in files.values()) - sum(file.size for file in orphans) - max_bytes
    chosen: list[_File] = []
    for name, kept in sorted(references.items(), key=lambda item: item[1].newest):
        if over <= 0:
            break
        file = files.get(name)
        if file is not None and not kept.needed:
            chosen.append(file)
            over -= file.size
    return chosen


def _is_older(file: _File, seconds: float) -> bool:
    return time.time() - file.at > seconds


def _remove_files(files: Iterable[_File]) -> None:
    for file in files:
        try:
            if file.path.stat().st_mtime == file.at:
                file.path.unlink()
        except FileNotFoundError:
            continue


def _tell(ledger: Ledger, pruned: EntriesPruned) -> None:
    body = ledger.encode_body(pruned)
    ledger.run(lambda tx: tx.append("", "pruned", body))
