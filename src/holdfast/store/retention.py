"""Retention: prunes old finished calls with their blobs, and limits the total size of blobs.

Pruning is recorded in an entry of its own, so that `verify` can follow the hash chain across the gap.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.errors import LedgerError
from holdfast.store.database import Transaction
from holdfast.store.entries import EntriesPruned
from holdfast.store.saved_attachments import remove_old

if TYPE_CHECKING:
    from holdfast.config.config import LedgerConfig
    from holdfast.store.ledger import Ledger

DAY: Final = 86_400.0
_ORPHAN_GRACE: Final = 3600.0
"""Seconds: a younger blob without a reference may belong to an entry that is about to be written."""
_PRUNED_GRACE: Final = 60.0
"""Seconds, for a blob of a pruned call: another call may be storing the same content right now."""
_PAGE: Final = 2000
_REFERENCE: Final = re.compile(r'(?:"(?:blob|spill)"|"type":"attachment","kind":"[a-z]+","digest"):"([0-9a-f]{64})"')
"""A reference in an entry. The order of an attachment's fields is that of its declaration."""
_BODY_IN_BLOB: Final = '{"blob":"'
"""The start of an entry whose body is a blob. `verify` needs that blob for as long as the entry exists."""


class PruneReport(Struct, frozen=True, kw_only=True):
    """What was removed, or with `dry_run` would be."""

    calls: int = 0
    entries: int = 0
    blobs: int = 0
    freed: int = 0
    """Bytes of removed blobs."""
    kept_bytes: int = 0
    """Bytes of remaining blobs."""


class _BlobUse(Struct):
    """How the ledger uses a blob."""

    newest: int
    """The newest entry that refers to it."""
    needed: bool
    """Never removed for space: the body of an entry, or part of an open call."""


class _File(Struct, frozen=True):
    path: Path
    size: int
    at: float


def prune(
    ledger: Ledger, *, older_than: float | None, max_bytes: int | None, by: str, dry_run: bool = False
) -> PruneReport:
    """Remove finished calls without an entry since `older_than` (Unix time), then blobs beyond `max_bytes`.

    Pending and running calls, grants and trust are never pruned.
    """
    old_calls = [] if older_than is None else _old_calls(ledger, older_than)
    known = _references(ledger, set()) if old_calls else {}
    entries = 0
    if old_calls and dry_run:
        entries = sum(_count(ledger, call) for call in old_calls)
    elif old_calls and older_than is not None:
        old_calls, entries = _remove_entries(ledger, older_than, by)
    references = _references(ledger, set(old_calls))
    files = _files(ledger.blobs.folder)
    orphans = [
        file
        for name, file in files.items()
        if name not in references and _is_older(file, _PRUNED_GRACE if name in known else _ORPHAN_GRACE)
    ]
    surplus = _surplus(files, references, orphans, max_bytes)
    gone = [*orphans, *surplus]
    freed = sum(file.size for file in gone)
    if not dry_run:
        if surplus:
            sizes = sum(file.size for file in surplus)
            _record(ledger, EntriesPruned(blobs=len(surplus), freed=sizes, by=by))
        _remove_files(gone)
        if entries:
            ledger.shrink()
    kept = sum(file.size for file in files.values()) - freed
    copies = size = 0
    if older_than is not None and not ledger.volatile:  # one in memory has no folder of its own
        copies, size = remove_old(ledger.path.parent, older_than, dry_run=dry_run)
    return PruneReport(
        calls=len(old_calls), entries=entries, blobs=len(gone) + copies, freed=freed + size, kept_bytes=kept
    )


def prune_by_config(ledger: Ledger, config: LedgerConfig, *, by: str, dry_run: bool = False) -> PruneReport:
    """Prune by `ledger.keep_days` and `ledger.max_blob_bytes`."""
    older_than = None if config.keep_days is None else time.time() - config.keep_days * DAY
    return prune(ledger, older_than=older_than, max_bytes=config.max_blob_bytes, by=by, dry_run=dry_run)


_OLD: Final = """
    SELECT call FROM entries WHERE call != '' GROUP BY call
    HAVING max(at) < ? AND call NOT IN (SELECT call FROM open_calls)
"""


def _old_calls(ledger: Ledger, older_than: float) -> list[str]:
    return _valid_ids(ledger.rows(_OLD, (older_than,)))


def _valid_ids(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Skip ids that are not printable text: their entries are damaged and stay."""
    return [call for (call,) in rows if isinstance(call, str) and call.isprintable()]


def _count(ledger: Ledger, call: str) -> int:
    return ledger.rows("SELECT count(*) FROM entries WHERE call = ?", (call,))[0][0]


def _remove_entries(ledger: Ledger, older_than: float, by: str) -> tuple[list[str], int]:
    def op(tx: Transaction) -> tuple[list[str], int]:
        # Queried again inside the transaction: a call may have got a new entry since the first look.
        calls = _valid_ids(tx.execute(_OLD, (older_than,)).fetchall())
        return calls, remove_calls(ledger, tx, calls, EntriesPruned(older_than=older_than, by=by))

    return ledger.run(op)


def remove_calls(ledger: Ledger, tx: Transaction, calls: Sequence[str], record: EntriesPruned) -> int:
    """Remove the entries of finished calls, and append `record` with their ranges, which `verify` needs.

    Returns the number of removed entries.
    """
    rows = [
        row for call in calls for row in tx.execute("SELECT id, hash FROM entries WHERE call = ?", (call,)).fetchall()
    ]
    ranges = _ranges(sorted(rows))
    if not ranges:
        return 0
    tx.append("", "pruned", ledger.encode_body(replace(record, ranges=ranges, calls=len(calls))))
    for first, last, digest in ranges:
        tx.execute("INSERT INTO pruned (first, last, hash) VALUES (?, ?, ?)", (first, last, bytes.fromhex(digest)))
        tx.execute("DELETE FROM entries WHERE id BETWEEN ? AND ?", (first, last))
    return len(rows)


def blobs_of(ledger: Ledger, calls: Iterable[str]) -> set[str]:
    """Return every blob that the entries of these calls refer to."""
    found: dict[str, _BlobUse] = {}
    for call in calls:
        for entry, body in ledger.rows("SELECT id, body FROM entries WHERE call = ?", (call,)):
            _add_references(ledger, found, entry, body, needed=False)
    return set(found)


def used_blobs(ledger: Ledger) -> set[str]:
    """Return every blob that any entry refers to."""
    return set(_references(ledger, set()))


def _ranges(rows: Iterable[tuple[int, object]]) -> tuple[tuple[int, int, str], ...]:
    """Group consecutive entry ids into (first, last, hash of the last)."""
    found: list[tuple[int, int, str]] = []
    for number, digest in rows:
        first = found.pop()[0] if found and found[-1][1] == number - 1 else number
        found.append((first, number, digest.hex() if isinstance(digest, bytes) else ""))
    return tuple(found)


def _references(ledger: Ledger, without: set[str]) -> dict[str, _BlobUse]:
    """Return every blob that the entries refer to, except entries of the calls in `without`."""
    found: dict[str, _BlobUse] = {}
    open_calls = {call for (call,) in ledger.rows("SELECT call FROM open_calls")}
    sql = (
        "SELECT id, call, body FROM entries WHERE id > ? AND id <= ? "
        'AND (instr(body, \'"blob":"\') OR instr(body, \'"spill":"\') OR instr(body, \'"type":"attachment"\'))'
    )
    last = ledger.rows("SELECT coalesce(max(id), 0) FROM entries")[0][0]
    for start in range(0, last, _PAGE):
        for entry, call, body in ledger.rows(sql, (start, start + _PAGE)):
            if call not in without:
                _add_references(ledger, found, entry, body, needed=call in open_calls)
    return found


def _add_references(ledger: Ledger, found: dict[str, _BlobUse], entry: int, body: object, *, needed: bool) -> None:
    if not isinstance(body, str):
        return  # a damaged entry refers to nothing
    in_blob = body.startswith(_BODY_IN_BLOB)
    for reference in _REFERENCE.findall(body):
        known = found.get(reference)
        is_needed = needed or in_blob or (known is not None and known.needed)
        found[reference] = _BlobUse(entry, is_needed)
    if in_blob:
        with suppress(LedgerError, ValueError):  # a damaged or missing body refers to nothing
            text = ledger.read_body.text(body)
            inner = text.decode() if isinstance(text, bytes) else text
            # The leading space keeps an inner body from being taken for one in a blob.
            _add_references(ledger, found, entry, f" {inner}", needed=needed)


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
    files: dict[str, _File], references: dict[str, _BlobUse], orphans: list[_File], max_bytes: int | None
) -> list[_File]:
    """Return the least recently referenced blobs, until the rest fits into `max_bytes`."""
    if max_bytes is None:
        return []
    over = sum(file.size for file in files.values()) - sum(file.size for file in orphans) - max_bytes
    chosen: list[_File] = []
    for name, use in sorted(references.items(), key=lambda item: item[1].newest):
        if over <= 0:
            break
        file = files.get(name)
        if file is not None and not use.needed:
            chosen.append(file)
            over -= file.size
    return chosen


def _is_older(file: _File, seconds: float) -> bool:
    return time.time() - file.at > seconds


def _remove_files(files: Iterable[_File]) -> None:
    for file in files:
        try:
            # A new modification time means that `Blobs.touch` has just claimed the blob for another call.
            if file.path.stat().st_mtime == file.at:
                file.path.unlink()
        except FileNotFoundError:
            continue


def _record(ledger: Ledger, pruned: EntriesPruned) -> None:
    body = ledger.encode_body(pruned)
    ledger.run(lambda tx: tx.append("", "pruned", body))
