"""File changes of calls in the ledger: recorded ahead of the change (write-ahead), and read back for undo."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.command import ChangedPath
from holdfast.store.entries import BeforeImage, BodyReader

if TYPE_CHECKING:
    from holdfast.store.database import Op
    from holdfast.store.entries import BodyEncoder

PathKind = Literal["absent", "file", "symlink", "directory", "fifo", "other"]
ChangeKind = Literal["created", "modified", "deleted", "mode", "replaced"]
_PER_ENTRY: Final = 500
_RAW: Final = "\0"
"""Prefix of a path that is not UTF-8 and is stored as hexadecimal digits. No path contains NUL."""


class EntryStore(Protocol):
    """The part of the ledger that this module uses to store its own kinds of entries."""

    encode_body: BodyEncoder
    read_body: BodyReader

    def run(self, op: Op[Any], /) -> Any: ...
    @property
    def rows(self) -> Callable[..., list[tuple[Any, ...]]]: ...


class PathState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What exists at a path. `other` is a socket or a device, which cannot be recreated."""

    kind: PathKind
    mode: int | None = None
    size: int = 0
    blob: str | None = None
    """The SHA-256 of a file's content, if the content is stored as a blob."""
    digest: str | None = None
    """The SHA-256, if the content is not stored."""
    target: str | None = None
    owner: tuple[int, int] | None = None
    """User and group id, if they differ from those of the process that recorded the state."""

    @property
    def content(self) -> str | None:
        return self.blob or self.digest

    def same_as(self, other: PathState) -> bool:
        if (self.kind, self.content, self.target) != (other.kind, other.content, other.target):
            return False
        return None in (self.mode, other.mode) or self.mode == other.mode


ABSENT: Final = PathState(kind="absent")


class PathChange(Struct, frozen=True):
    """A change of one path, relative to a root; the root itself is the empty path."""

    path: str
    before: PathState
    after: PathState


class CommandChanges(Struct, frozen=True):
    """What a command changed beneath a root; written before the changes are applied to the root."""

    root: str
    changes: tuple[PathChange, ...]


class AfterImage(Struct, frozen=True):
    """The state of a path after a tool changed it."""

    path: str
    state: PathState


class CallUndone(Struct, frozen=True):
    """The call was undone by the call `undo`."""

    undo: str
    by: str


class ConcurrentCalls(Struct, frozen=True):
    """Commands that ran at the same time. Their changes are recorded together, under the first of these calls."""

    calls: tuple[str, ...]


class NetChange(Struct, frozen=True, kw_only=True):
    """The combined effect of one call on one path."""

    path: str
    root: str | None
    """The root it was recorded beneath, if any."""
    before: PathState
    after: PathState | None
    """None if the call was interrupted before it recorded the result."""

    @property
    def kind(self) -> ChangeKind:
        return kind_of_change(self.before, self.after)


def kind_of_change(before: PathState, after: PathState | None) -> ChangeKind:
    if before.kind == "absent":
        return "created"
    if after is None:
        return "modified"
    if after.kind == "absent":
        return "deleted"
    if before.kind != after.kind:
        return "replaced"
    return "mode" if (before.content, before.target) == (after.content, after.target) else "modified"


def to_contract_change(root: str, change: PathChange) -> ChangedPath:
    return ChangedPath(path=absolute(root, change.path), kind=kind_of_change(change.before, change.after))


def absolute(root: str, path: str) -> str:
    return os.path.join(root, path) if path else root  # noqa: PTH118 - `Path` is too slow for thousands of paths


def content_state(content: bytes | None, mode: int | None, *, blob: str | None = None) -> PathState:
    """Return the state of a file with this content; None means that the file does not exist."""
    if content is None:
        return ABSENT
    digest = None if blob else sha256(content).hexdigest()
    return PathState(kind="file", mode=mode, size=len(content), blob=blob, digest=digest)


def record_changes(ledger: EntryStore, call_id: str, root: str, changes: Sequence[PathChange]) -> None:
    """Record the changes in one transaction, `_PER_ENTRY` per entry."""
    encoded = map(_encode_change, changes)
    bodies: list[str] = []
    while batch := tuple(islice(encoded, _PER_ENTRY)):
        bodies.append(ledger.encode_body(CommandChanges(encode_path(root), batch)))
    if bodies:
        ledger.run(lambda tx: [tx.append(call_id, "recorded", body) for body in bodies])


def record_concurrent(ledger: EntryStore, calls: Sequence[str]) -> None:
    body = ledger.encode_body(ConcurrentCalls(tuple(calls)))
    ledger.run(lambda tx: [tx.append(call_id, "together", body) for call_id in calls])


def concurrent_with(ledger: EntryStore, call_id: str) -> tuple[str, ...]:
    """Return the calls that are undone together with this one, including it. The first has the entries."""
    rows = ledger.rows("SELECT body FROM entries WHERE call = ? AND kind = 'together' LIMIT 1", (call_id,))
    return ledger.read_body(rows[0][0], ConcurrentCalls).calls if rows else (call_id,)


def last_entry(ledger: EntryStore) -> int:
    return ledger.rows("SELECT coalesce(max(id), 0) FROM entries")[0][0]


def states_from_other_calls(ledger: EntryStore, since: int, calls: Sequence[str]) -> dict[str, PathState]:
    """Return, by absolute path, the state that calls other than `calls` left there after the entry `since`."""
    found: dict[str, PathState] = {}
    sql = "SELECT call, kind, body FROM entries WHERE id > ? AND kind IN ('after', 'recorded') ORDER BY id"
    for call_id, kind, body in ledger.rows(sql, (since,)):
        if call_id in calls:
            continue
        if kind == "after":
            left = ledger.read_body(body, AfterImage)
            found[decode_path(left.path)] = left.state
            continue
        recorded = ledger.read_body(body, CommandChanges)
        root = decode_path(recorded.root)
        found |= {absolute(root, change.path): change.after for change in map(_decode_change, recorded.changes)}
    return found


def exclude_other_calls(root: str, changes: Sequence[PathChange], others: Mapping[str, PathState]) -> list[PathChange]:
    """Return the changes without those of other calls, and without the parent folders that only those needed."""

    def is_theirs(change: PathChange) -> bool:
        left = others.get(absolute(root, change.path))
        return left is not None and left.same_as(change.after)

    kept = [change for change in changes if not is_theirs(change)]
    files = (change.path for change in kept if change.after.kind != "directory")
    made = _parents(change.path for change in changes if is_theirs(change)) - _parents(files)
    return [change for change in kept if change.path not in made or change.before.kind != "absent"]


def rebase_on_other_calls(
    root: str, changes: Sequence[PathChange], others: Mapping[str, PathState]
) -> list[PathChange]:
    """Return the changes with `before` replaced by the state that another call left there in the meantime."""
    left = ((change, others.get(absolute(root, change.path), change.before)) for change in changes)
    return [change if state.same_as(change.before) else replace(change, before=state) for change, state in left]


def _parents(paths: Iterable[str]) -> set[str]:
    """Return all parent folders of these paths."""
    return {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}


def net_changes(ledger: EntryStore, call_id: str) -> list[NetChange]:
    """Return every path that the call changed, with the first recorded state before it and the last one after it."""
    call_id, *_ = concurrent_with(ledger, call_id)
    found: dict[str, NetChange] = {}
    sql = "SELECT kind, body FROM entries WHERE call = ? AND kind IN ('before', 'after', 'recorded') ORDER BY id"
    for kind, body in ledger.rows(sql, (call_id,)):
        if kind == "before":
            image = ledger.read_body(body, BeforeImage)
            path = decode_path(image.path)
            state = ABSENT if image.blob is None else _file_of(image)
            found.setdefault(path, NetChange(path=path, root=None, before=state, after=None))
        elif kind == "after":
            left = ledger.read_body(body, AfterImage)
            path = decode_path(left.path)
            if path in found:
                found[path] = replace(found[path], after=left.state)
        else:
            recorded = ledger.read_body(body, CommandChanges)
            root = decode_path(recorded.root)
            for change in map(_decode_change, recorded.changes):
                path = absolute(root, change.path)
                first = found.get(path) or NetChange(path=path, root=root, before=change.before, after=None)
                found[path] = replace(first, after=change.after)
    return list(found.values())


def changing_calls(ledger: EntryStore, limit: int) -> list[str]:
    """Return the calls that changed files, newest change first."""
    sql = (
        "SELECT call FROM entries WHERE kind = 'before' OR kind = 'recorded' "
        "GROUP BY call ORDER BY max(id) DESC LIMIT ?"
    )
    return [row[0] for row in ledger.rows(sql, (limit,))]


def mark_undone(ledger: EntryStore, call_id: str, undo: str, by: str) -> None:
    body = ledger.encode_body(CallUndone(undo, by))
    calls = concurrent_with(ledger, call_id)
    ledger.run(lambda tx: [tx.append(call, "undone", body) for call in calls])


def undone_by(ledger: EntryStore, call_id: str) -> str | None:
    """Return the call that undid this one, or None if that undo was itself undone."""
    sql = "SELECT body FROM entries WHERE call = ? AND kind = 'undone' ORDER BY id DESC LIMIT 1"
    rows = ledger.rows(sql, (call_id,))
    if not rows:
        return None
    undo = ledger.read_body(rows[0][0], CallUndone).undo
    return None if undone_by(ledger, undo) else undo


def _file_of(image: BeforeImage) -> PathState:
    return PathState(kind="file", mode=image.mode, size=image.size, blob=image.blob)


def _encode_change(change: PathChange) -> PathChange:
    before, after = (
        state if state.target is None else replace(state, target=encode_path(state.target))
        for state in (change.before, change.after)
    )
    return PathChange(encode_path(change.path), before, after)


def _decode_change(change: PathChange) -> PathChange:
    before, after = (
        state if state.target is None else replace(state, target=decode_path(state.target))
        for state in (change.before, change.after)
    )
    return PathChange(decode_path(change.path), before, after)


def encode_path(path: str) -> str:
    """Return the path as text that JSON can represent, whatever its bytes are."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return _RAW + os.fsencode(path).hex()
    return path


def decode_path(text: str) -> str:
    return os.fsdecode(bytes.fromhex(text[1:])) if text.startswith(_RAW) else text
