"""The contents of files, kept before commands run: appended to a few large files, with an index of what is where.

A file that was not touched since is found by its identity and its times, and not read again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from holdfast.contract.errors import LedgerCorrupt
from holdfast.fs.beneath import NEW
from holdfast.fs.private import make_private_folder, write_private
from holdfast.runtime.undo.states import open_file
from holdfast.store.blobs import Blobs

Key = tuple[int, int, int, int, int]
"""Device, inode, size, and the times of content and inode: what changes with the content."""
_RACY_NS: Final = 100_000_000
"""A file changed less than this before it was read could change again without a new time."""
_BLOCK: Final = 1024 * 1024
_SLACK: Final = 32 * 1024 * 1024
"""Bytes nothing leads to that are put up with."""


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a content is kept."""

    digest: str
    pack: str
    offset: int
    size: int


def key_of(facts: os.stat_result) -> Key:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


class Contents:
    """One object for one recording: what it adds goes into a file of its own, so that no lock is needed."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._folder = folder
        self._index = folder / "index"
        self._name = f"pack-{os.urandom(8).hex()}"
        self._pack: int | None = None
        self._end = 0
        self._known = self._load()

    def keep(self, folder: int, name: str, facts: os.stat_result) -> tuple[Place | None, bool]:
        """Where a file's content is kept now, None if it cannot be read; and whether its times tell if it changes."""
        key = key_of(facts)
        sure = facts.st_ctime_ns < time.time_ns() - _RACY_NS
        place = self._known.get(key)
        if place is None:
            try:
                place = self._append(folder, name)
            except PermissionError:
                return None, sure
            if sure:
                self._known[key] = place
        return place, sure

    def hand_over(self, place: Place, blobs: Blobs) -> None:
        """Keep a content where the ledger keeps it."""
        if blobs.freshen(place.digest):
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
        if self._pack is not None:
            os.close(self._pack)
            self._pack = None
        before = len(self._known)
        self._known = {key: self._known[key] for key in seen if key in self._known}
        if self._end == 0 and len(self._known) == before:
            return
        if self._wasted() > _SLACK:
            self._known = {key: place for key, place in self._known.items() if place.pack == self._name}
        self._write_index()
        self._remove_unused()

    def _append(self, folder: int, name: str) -> Place:
        if self._pack is None:
            self._pack = os.open(self._folder / self._name, NEW, 0o600)
        opened = open_file(folder, name)
        digest, start = sha256(), self._end
        try:
            while block := os.read(opened, _BLOCK):
                digest.update(block)
                view = memoryview(block)
                while view:
                    view = view[os.write(self._pack, view) :]
                self._end += len(block)
        finally:
            os.close(opened)
        return Place(digest.hexdigest(), self._name, start, self._end - start)

    def _wasted(self) -> int:
        used = sum(place.size for place in set(self._known.values()))
        kept = sum(self._size_of(pack) for pack in {place.pack for place in self._known.values()})
        return kept - used

    def _size_of(self, pack: str) -> int:
        with suppress(FileNotFoundError):
            return (self._folder / pack).stat().st_size
        return 0

    def _load(self) -> dict[Key, Place]:
        try:
            rows = msgspec.msgpack.decode(self._index.read_bytes(), type=list[tuple[Key, Place]])
        except (OSError, msgspec.DecodeError):
            return {}
        packs = {path.name for path in self._folder.glob("pack-*")}
        return {key: place for key, place in rows if place.pack in packs}

    def _write_index(self) -> None:
        write_private(self._index, msgspec.msgpack.encode(list(self._known.items())))

    def _remove_unused(self) -> None:
        """Packs nothing leads to any more; young ones may belong to a recording that has not saved yet."""
        used = {place.pack for place in self._known.values()}
        for path in self._folder.glob("pack-*"):
            with suppress(FileNotFoundError):
                if path.name not in used and time.time() - path.stat().st_mtime > 86_400:
                    path.unlink()
