"""What calls changed on disk: how it is written into the ledger before it happens, and read back to be undone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.store.entries import BeforeImage, BodyReader

if TYPE_CHECKING:
    from holdfast.contract.command import ChangedPath
    from holdfast.store.database import Op
    from holdfast.store.entries import BodyEncoder

PathKind = Literal["absent", "file", "symlink", "directory", "fifo", "other"]
ChangeKind = Literal["created", "modified", "deleted", "mode", "replaced"]
_PER_ENTRY: Final = 500
_RAW: Final = "\0"
"""Begins a path that is not UTF-8, written as hexadecimal digits. No path holds this character."""


class EntryStore(Protocol):
    """What the ledger offers to those who keep entries of their own in it."""

    encode_body: BodyEncoder
    read_body: BodyReader

    def run(self, op: Op[Any], /) -> Any: ...
    @property
    def rows(self) -> Callable[..., list[tuple[Any, ...]]]: ...


class PathState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is at a path. `other` is a socket or a device, which cannot be made again."""

    kind: PathKind
    mode: int | None = None
    size: int = 0
    blob: str | None = None
    """The SHA-256 of a file's content, if the content is kept."""
    digest: str | None = None
    """The same, if it is not."""
    target: str | None = None
    owner: tuple[int, int] | None = None
    """User and group, where they are not those of the process that looked."""

    @property
    def content(self) -> str | None:
        return self.blob or self.digest

    def same_as(self, other: PathState) -> bool:
        if (self.kind, self.content, self.target) != (other.kind, other.content, other.target):
            return False
        return None in (self.mode, other.mode) or self.mode == other.mode


ABSENT: Final = PathState(kind="absent")


class PathChange(Struct, frozen=True):
    """One path, relative to a root; the root itself is the empty path."""

    path: str
    before: PathState
    after: PathState


class CommandChanges(Struct, frozen=True):
    """What a command changed beneath a root; written before it is taken over."""

    root: str
    changes: tuple[PathChange, ...]


class AfterImage(Struct, frozen=True):
    """What a tool left at a path."""

    path: str
    state: PathState


class CallUndone(Struct, frozen=True):
    """The call was undone by another."""

    undo: str
    by: str


class ConcurrentCalls(Struct, frozen=True):
    """Commands that ran at the same time: what they changed is recorded as one, with the first of these calls."""

    calls: tuple[str, ...]


class NetChange(Struct, frozen=True, kw_only=True):
    """What one call did to one path, all of it taken together."""

    path: str
    root: str | None
    """What it lies beneath, where that was recorded."""
    before: PathState
    after: PathState | None
    """None if the call was interrupted before it could say."""

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


def shown_change(root: str, change: PathChange) -> ChangedPath:
    from holdfast.contract.command import ChangedPath

    return ChangedPath(path=absolute(root, change.path), kind=kind_of_change(change.before, change.after))


def absolute(root: str, path: str) -> str:
    return os.path.join(root, path) if path else root  # noqa: PTH118 - not a Path: thousands of them


def content_state(content: bytes | None, mode: int | None, *, blob: str | None = None) -> PathState:
    """The state a tool describes by a file's content."""
    if content is None:
        return ABSENT
    digest = None if blob else sha256(content).hexdigest()
    return PathState(kind="file", mode=mode, size=len(content), blob=blob, digest=digest)


def record_changes(ledger: EntryStore, call_id: str, root: str, changes: Sequence[PathChange]) -> None:
    """All of them in one transaction, some hundred to an entry."""
    written = map(_written, changes)
    bodies: list[str] = []
    while batch := tuple(islice(written, _PER_ENTRY)):
        bodies.append(ledger.encode_body(CommandChanges(encode_path(root), batch)))
    if bodies:
        ledger.run(lambda tx: [tx.append(call_id, "recorded", body) for body in bodies])


def record_concurrent(ledger: EntryStore, calls: Sequence[str]) -> None:
    body = ledger.encode_body(ConcurrentCalls(tuple(calls)))
    ledger.run(lambda tx: [tx.append(call_id, "together", body) for call_id in calls])


def concurrent_with(ledger: EntryStore, call_id: str) -> tuple[str, ...]:
    """The calls that are undone with this one, itself among them and the one they are recorded with first."""
    rows = ledger.rows("SELECT body FROM entries WHERE call = ? AND kind = 'together' LIMIT 1", (call_id,))
    return ledger.read_body(rows[0][0], ConcurrentCalls).calls if rows else (call_id,)


def last_entry(ledger: EntryStore) -> int:
    return ledger.rows("SELECT coalesce(max(id), 0) FROM entries")[0][0]


def states_from_other_calls(ledger: EntryStore, since: int, calls: Sequence[str]) -> dict[str, PathState]:
    """What calls other than these left at which paths after an entry of the ledger."""
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
        found |= {absolute(root, change.path): change.after for change in map(_read, recorded.changes)}
    return found


def exclude_other_calls(root: str, changes: Sequence[PathChange], others: Mapping[str, PathState]) -> list[PathChange]:
    """The changes without those that other calls made, and without the folders those needed."""

    def is_theirs(change: PathChange) -> bool:
        left = others.get(absolute(root, change.path))
        return left is not None and left.same_as(change.after)

    kept = [change for change in changes if not is_theirs(change)]
    files = (change.path for change in kept if change.after.kind != "directory")
    made = _above(change.path for change in changes if is_theirs(change)) - _above(files)
    return [change for change in kept if change.path not in made or change.before.kind != "absent"]


def rebase_on_other_calls(
    root: str, changes: Sequence[PathChange], others: Mapping[str, PathState]
) -> list[PathChange]:
    """The changes, each beginning with what another call left there meanwhile."""
    left = ((change, others.get(absolute(root, change.path), change.before)) for change in changes)
    return [change if state.same_as(change.before) else replace(change, before=state) for change, state in left]


def _above(paths: Iterable[str]) -> set[str]:
    """Every folder on the way to these paths."""
    return {path[:at] for path in paths for at, letter in enumerate(path) if letter == "/"}


def net_changes(ledger: EntryStore, call_id: str) -> list[NetChange]:
    """Every path the call changed: the first thing known before it and the last after it."""
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
            for change in map(_read, recorded.changes):
                path = absolute(root, change.path)
                first = found.get(path) or NetChange(path=path, root=root, before=change.before, after=None)
                found[path] = replace(first, after=change.after)
    return list(found.values())


def changing_calls(ledger: EntryStore, limit: int) -> list[str]:
    """The calls that changed something, those with the newest changes first."""
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
    """The call that undid this one, unless that has been undone since."""
    sql = "SELECT body FROM entries WHERE call = ? AND kind = 'undone' ORDER BY id DESC LIMIT 1"
    rows = ledger.rows(sql, (call_id,))
    if not rows:
        return None
    undo = ledger.read_body(rows[0][0], CallUndone).undo
    return None if undone_by(ledger, undo) else undo


def _file_of(image: BeforeImage) -> PathState:
    return PathState(kind="file", mode=image.mode, size=image.size, blob=image.blob)


def _written(change: PathChange) -> PathChange:
    before, after = (
        state if state.target is None else replace(state, target=encode_path(state.target))
        for state in (change.before, change.after)
    )
    return PathChange(encode_path(change.path), before, after)


def _read(change: PathChange) -> PathChange:
    before, after = (
        state if state.target is None else replace(state, target=decode_path(state.target))
        for state in (change.before, change.after)
    )
    return PathChange(decode_path(change.path), before, after)


def encode_path(path: str) -> str:
    """A path as JSON can carry it, whatever bytes it is made of."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return _RAW + os.fsencode(path).hex()
    return path


def decode_path(text: str) -> str:
    return os.fsdecode(bytes.fromhex(text[1:])) if text.startswith(_RAW) else text
