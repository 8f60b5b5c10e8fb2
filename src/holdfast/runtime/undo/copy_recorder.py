"""Recording by copying: the content of a root is stored before the command runs, and compared with it afterwards.

Contents are appended to pack files, with an index. A file that was not touched since the last recording is recognised
by its inode and timestamps, as in git's index, and not read again.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from holdfast.contract.errors import LedgerCorrupt
from holdfast.fs.beneath import NEW_FILE_FLAGS
from holdfast.fs.replace import make_private_folder, write_private
from holdfast.runtime.undo.tree import BlobSource, PathEdit, Tree, apply_edits, describe_stat, open_file
from holdfast.store.blobs import Blobs
from holdfast.store.changes import ABSENT, PathChange, PathState

Key = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime: at least one changes with the content."""
_RACY_NS: Final = 100_000_000
"""A file that changed this shortly before it was read could change again within the same timestamp, as in git's "racy"
index entries, so its times are not relied on."""
_BLOCK: Final = 1024 * 1024
_SLACK: Final = 32 * 1024 * 1024
"""Unused bytes in pack files that are tolerated."""


class PackEntry(msgspec.Struct, frozen=True, array_like=True):
    """Where a content is stored."""

    digest: str
    pack: str
    offset: int
    size: int


def key_of(facts: os.stat_result) -> Key:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


class PackStore:
    """The stored contents. Each recording has its own instance and writes its own pack file, so no lock is needed."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._folder = folder
        self._index = folder / "index"
        self._pack_name = f"pack-{os.urandom(8).hex()}"
        self._pack_fd: int | None = None
        self._pack_size = 0
        self._entries = self._load()

    def store(self, folder: int, name: str, facts: os.stat_result) -> tuple[PackEntry | None, bool]:
        """Store a file's content. Returns its entry (None if it cannot be read), and whether its times are reliable."""
        key = key_of(facts)
        reliable = facts.st_ctime_ns < time.time_ns() - _RACY_NS
        entry = self._entries.get(key)
        if entry is None:
            try:
                entry = self._append(folder, name)
            except PermissionError:
                return None, reliable
            if reliable:
                self._entries[key] = entry
        return entry, reliable

    def copy_to_blobs(self, entry: PackEntry, blobs: Blobs) -> None:
        """Copy a content to the ledger's blobs."""
        if blobs.touch(entry.digest):
            return
        pack = os.open(self._folder / entry.pack, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.lseek(pack, entry.offset, os.SEEK_SET)
            if blobs.put_open(pack, entry.size) != entry.digest:
                raise LedgerCorrupt(f"The stored content {entry.digest[:12]} has changed since it was stored.")
        finally:
            os.close(pack)

    def save(self, keys: Iterable[Key]) -> None:
        """Write an index of the files that exist. If too many stored bytes are unused, only the new pack is kept."""
        if self._pack_fd is not None:
            os.close(self._pack_fd)
            self._pack_fd = None
        before = len(self._entries)
        self._entries = {key: self._entries[key] for key in keys if key in self._entries}
        if self._pack_size == 0 and len(self._entries) == before:
            return
        if self._wasted() > _SLACK:
            self._entries = {key: entry for key, entry in self._entries.items() if entry.pack == self._pack_name}
        self._write_index()
        self._remove_unused()

    def _append(self, folder: int, name: str) -> PackEntry:
        if self._pack_fd is None:
            self._pack_fd = os.open(self._folder / self._pack_name, NEW_FILE_FLAGS, 0o600)
        opened = open_file(folder, name)
        digest, start = sha256(), self._pack_size
        try:
            while block := os.read(opened, _BLOCK):
                digest.update(block)
                view = memoryview(block)
                while view:
                    view = view[os.write(self._pack_fd, view) :]
                self._pack_size += len(block)
        finally:
            os.close(opened)
        return PackEntry(digest.hexdigest(), self._pack_name, start, self._pack_size - start)

    def _wasted(self) -> int:
        used = sum(entry.size for entry in set(self._entries.values()))
        total = sum(self._size_of(pack) for pack in {entry.pack for entry in self._entries.values()})
        return total - used

    def _size_of(self, pack: str) -> int:
        with suppress(FileNotFoundError):
            return (self._folder / pack).stat().st_size
        return 0

    def _load(self) -> dict[Key, PackEntry]:
        try:
            rows = msgspec.msgpack.decode(self._index.read_bytes(), type=list[tuple[Key, PackEntry]])
        except (OSError, msgspec.DecodeError):
            return {}
        packs = {path.name for path in self._folder.glob("pack-*")}
        return {key: entry for key, entry in rows if entry.pack in packs}

    def _write_index(self) -> None:
        write_private(self._index, msgspec.msgpack.encode(list(self._entries.items())))

    def _remove_unused(self) -> None:
        """Remove unused pack files that are a day old; a younger one may belong to a recording in progress."""
        used = {entry.pack for entry in self._entries.values()}
        for path in self._folder.glob("pack-*"):
            with suppress(FileNotFoundError):
                if path.name not in used and time.time() - path.stat().st_mtime > 86_400:
                    path.unlink()


class TooLarge(Exception):
    """The root is larger than `sandbox.undo_max_files` or `sandbox.undo_max_bytes` allows to copy."""


class CopyLimits(msgspec.Struct, frozen=True):
    max_files: int
    max_bytes: int


class _PathSnapshot(NamedTuple):
    facts: os.stat_result
    target: str | None = None
    entry: PackEntry | None = None
    times_reliable: bool = True
    """Whether unchanged times prove unchanged content."""


class CopyRecording:
    """The recording of one writable root, whose content is stored before the command runs."""

    overlay = None

    def __init__(self, root: Path, blobs: Blobs, contents: PackStore, limits: CopyLimits) -> None:
        self.root = self.content_root = str(root)
        self._blobs = blobs
        self._contents = contents
        self._before = _walk(root, limits, contents)

    @property
    def keys(self) -> Iterator[Key]:
        """The keys of all files that were stored."""
        return (key_of(snapshot.facts) for snapshot in self._before.values() if snapshot.entry is not None)

    def changes(self) -> list[PathChange]:
        after = _walk(Path(self.root), None, None)
        found: list[PathChange] = []
        with Tree(self.root) as tree:
            for path, snapshot in self._before.items():
                now = after.get(path)
                if now is None or _may_have_changed(snapshot, now):
                    state = ABSENT if now is None else tree.state(path)
                    before = self._state_before(snapshot)
                    if not before.same_as(state):
                        found.append(PathChange(path, before, state))
            for path in after.keys() - self._before.keys():
                state = tree.state(path)
                if state.kind not in ("absent", "other"):
                    found.append(PathChange(path, ABSENT, state))
        found.sort(key=lambda change: change.path.split("/"))
        return found

    def revert(self, refused: list[PathChange]) -> None:
        steps = [PathEdit(change.path, change.after, change.before) for change in refused]
        with Tree(self.root) as tree:
            apply_edits(tree, steps, BlobSource(self._blobs))

    def apply(self, changes: list[PathChange]) -> list[str]:
        """Nothing to do: the command changed the root itself."""
        return []

    def close(self) -> None:
        """Nothing to clean up."""

    def _state_before(self, snapshot: _PathSnapshot) -> PathState:
        """The state before the command, with its content copied to the ledger's blobs."""
        if snapshot.entry is None:
            return describe_stat(snapshot.facts, target=snapshot.target)
        self._contents.copy_to_blobs(snapshot.entry, self._blobs)
        return describe_stat(snapshot.facts, snapshot.entry.digest, stored=True)


def check_size(root: Path, limits: CopyLimits) -> None:
    """Raise `TooLarge` if `CopyRecording` would."""
    _walk(root, limits, None)


def _walk(root: Path, limits: CopyLimits | None, contents: PackStore | None) -> dict[str, _PathSnapshot]:
    """A snapshot of a root and everything in it; with `contents`, every file's content is stored."""
    found = {"": _PathSnapshot(root.stat())}
    size = 0
    with Tree(root) as tree:
        for path, entry, here in tree.walk():
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed during the walk
            if stat.S_ISREG(facts.st_mode):
                size += facts.st_size
                stored, reliable = (None, True) if contents is None else contents.store(here, entry.name, facts)
                found[path] = _PathSnapshot(facts, None, stored, reliable)
            elif stat.S_ISLNK(facts.st_mode):
                found[path] = _PathSnapshot(facts, os.readlink(entry.name, dir_fd=here))
            else:
                found[path] = _PathSnapshot(facts)
            if limits is not None and (len(found) > limits.max_files or size > limits.max_bytes):
                raise TooLarge(_too_large_message(root, limits, files=len(found) > limits.max_files))
    return found


def _may_have_changed(before: _PathSnapshot, now: _PathSnapshot) -> bool:
    if stat.S_ISDIR(before.facts.st_mode) and stat.S_ISDIR(now.facts.st_mode):
        return before.facts.st_mode != now.facts.st_mode
    same = key_of(before.facts) == key_of(now.facts) and before.facts.st_mode == now.facts.st_mode
    return not (same and before.times_reliable)


def _too_large_message(root: Path, limits: CopyLimits, *, files: bool) -> str:
    if files:
        return f"{root} holds more than {limits.max_files:,} files, the limit for copying (sandbox.undo_max_files)"
    limit = f"{limits.max_bytes / 1024**2:,.0f} MB"
    return f"{root} holds more than {limit}, the limit for copying (sandbox.undo_max_bytes)"
