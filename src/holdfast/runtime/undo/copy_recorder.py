"""Recording without an overlay: everything in a root is kept beforehand, and looked at again afterwards.

Contents are appended to a few large files, with an index of what is where. A file that was not touched since is found
by its identity and its times, and not read again.
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
"""Device, inode, size, and the times of content and inode: what changes with the content."""
_RACY_NS: Final = 100_000_000
"""A file changed less than this before it was read could change again without a new time."""
_BLOCK: Final = 1024 * 1024
_SLACK: Final = 32 * 1024 * 1024
"""Bytes nothing leads to that are put up with."""


class PackEntry(msgspec.Struct, frozen=True, array_like=True):
    """Where a content is kept."""

    digest: str
    pack: str
    offset: int
    size: int


def key_of(facts: os.stat_result) -> Key:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


class PackStore:
    """One object for one recording: what it adds goes into a file of its own, so that no lock is needed."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._folder = folder
        self._index = folder / "index"
        self._pack_name = f"pack-{os.urandom(8).hex()}"
        self._pack_fd: int | None = None
        self._pack_size = 0
        self._entries = self._load()

    def store(self, folder: int, name: str, facts: os.stat_result) -> tuple[PackEntry | None, bool]:
        """Where a file's content is kept now, None if it cannot be read; and whether its times tell if it changes."""
        key = key_of(facts)
        sure = facts.st_ctime_ns < time.time_ns() - _RACY_NS
        place = self._entries.get(key)
        if place is None:
            try:
                place = self._append(folder, name)
            except PermissionError:
                return None, sure
            if sure:
                self._entries[key] = place
        return place, sure

    def copy_to_blobs(self, place: PackEntry, blobs: Blobs) -> None:
        """Keep a content where the ledger keeps it."""
        if blobs.touch(place.digest):
            return
        pack = os.open(self._folder / place.pack, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.lseek(pack, place.offset, os.SEEK_SET)
            if blobs.put_open(pack, place.size) != place.digest:
                raise LedgerCorrupt(f"The kept content {place.digest[:12]} was changed since it was kept.")
        finally:
            os.close(pack)

    def save(self, seen: Iterable[Key]) -> None:
        """Remember only what is there. When too much is kept that nothing leads to, everything is forgotten."""
        if self._pack_fd is not None:
            os.close(self._pack_fd)
            self._pack_fd = None
        before = len(self._entries)
        self._entries = {key: self._entries[key] for key in seen if key in self._entries}
        if self._pack_size == 0 and len(self._entries) == before:
            return
        if self._wasted() > _SLACK:
            self._entries = {key: place for key, place in self._entries.items() if place.pack == self._pack_name}
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
        used = sum(place.size for place in set(self._entries.values()))
        kept = sum(self._size_of(pack) for pack in {place.pack for place in self._entries.values()})
        return kept - used

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
        return {key: place for key, place in rows if place.pack in packs}

    def _write_index(self) -> None:
        write_private(self._index, msgspec.msgpack.encode(list(self._entries.items())))

    def _remove_unused(self) -> None:
        """Packs nothing leads to any more; young ones may belong to a recording that has not saved yet."""
        used = {place.pack for place in self._entries.values()}
        for path in self._folder.glob("pack-*"):
            with suppress(FileNotFoundError):
                if path.name not in used and time.time() - path.stat().st_mtime > 86_400:
                    path.unlink()


class TooLarge(Exception):
    """There is more than may be copied beforehand."""


class CopyLimits(msgspec.Struct, frozen=True):
    max_files: int
    max_bytes: int


class _PathSnapshot(NamedTuple):
    facts: os.stat_result
    target: str | None = None
    entry: PackEntry | None = None
    times_reliable: bool = True
    """The times tell whether it was changed."""


class CopyRecording:
    """One writable root, kept before the command runs."""

    overlay = None

    def __init__(self, root: Path, blobs: Blobs, contents: PackStore, bounds: CopyLimits) -> None:
        self.root = self.content_root = str(root)
        self._blobs = blobs
        self._contents = contents
        self._before = _walk(root, bounds, contents)

    @property
    def keys(self) -> Iterator[Key]:
        """Of every file that was seen."""
        return (key_of(seen.facts) for seen in self._before.values() if seen.entry is not None)

    def changes(self) -> list[PathChange]:
        after = _walk(Path(self.root), None, None)
        found: list[PathChange] = []
        with Tree(self.root) as tree:
            for path, seen in self._before.items():
                now = after.get(path)
                if now is None or _may_have_changed(seen, now):
                    state = ABSENT if now is None else tree.state(path)
                    before = self._state_before(seen)
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
        """The command changed the root itself."""
        return []

    def close(self) -> None:
        """Nothing of it is left."""

    def _state_before(self, seen: _PathSnapshot) -> PathState:
        """What was there; its content moves to where the ledger keeps content."""
        if seen.entry is None:
            return describe_stat(seen.facts, target=seen.target)
        self._contents.copy_to_blobs(seen.entry, self._blobs)
        return describe_stat(seen.facts, seen.entry.digest, kept=True)


def check_size(root: Path, bounds: CopyLimits) -> None:
    """Raises `TooMuch` where `CopyPart` would."""
    _walk(root, bounds, None)


def _walk(root: Path, bounds: CopyLimits | None, contents: PackStore | None) -> dict[str, _PathSnapshot]:
    """Everything beneath a root and the root itself; with `contents` every file's content is kept."""
    found = {"": _PathSnapshot(root.stat())}
    size = 0
    with Tree(root) as tree:
        for path, entry, here in tree.walk():
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it went while we looked
            if stat.S_ISREG(facts.st_mode):
                size += facts.st_size
                kept, sure = (None, True) if contents is None else contents.store(here, entry.name, facts)
                found[path] = _PathSnapshot(facts, None, kept, sure)
            elif stat.S_ISLNK(facts.st_mode):
                found[path] = _PathSnapshot(facts, os.readlink(entry.name, dir_fd=here))
            else:
                found[path] = _PathSnapshot(facts)
            if bounds is not None and (len(found) > bounds.max_files or size > bounds.max_bytes):
                raise TooLarge(_too_large_message(root, bounds, files=len(found) > bounds.max_files))
    return found


def _may_have_changed(before: _PathSnapshot, now: _PathSnapshot) -> bool:
    if stat.S_ISDIR(before.facts.st_mode) and stat.S_ISDIR(now.facts.st_mode):
        return before.facts.st_mode != now.facts.st_mode
    same = key_of(before.facts) == key_of(now.facts) and before.facts.st_mode == now.facts.st_mode
    return not (same and before.times_reliable)


def _too_large_message(root: Path, bounds: CopyLimits, *, files: bool) -> str:
    if files:
        return f"{root} holds more than {bounds.max_files:,} files, which sandbox.undo_max_files does not allow to copy"
    limit = f"{bounds.max_bytes / 1024**2:,.0f} MB"
    return f"{root} holds more than {limit}, which sandbox.undo_max_bytes does not allow to copy"
