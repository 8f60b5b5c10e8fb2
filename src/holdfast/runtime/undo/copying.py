"""Recording without an overlay: everything in a root is kept beforehand, and looked at again afterwards."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.runtime.undo.contents import Contents, Key, Place, key_of
from holdfast.runtime.undo.settling import BlobSource, Step, settle
from holdfast.runtime.undo.states import described
from holdfast.runtime.undo.tree import Tree
from holdfast.store.blobs import Blobs
from holdfast.store.changes import ABSENT, PathChange, PathState


class TooMuch(Exception):
    """There is more than may be copied beforehand."""


class Bounds(msgspec.Struct, frozen=True):
    max_files: int
    max_bytes: int


class _Seen(NamedTuple):
    facts: os.stat_result
    target: str | None = None
    kept: Place | None = None
    sure: bool = True
    """The times tell whether it was changed."""


class CopyPart:
    """One writable root, kept before the command runs."""

    overlay = None

    def __init__(self, root: Path, blobs: Blobs, contents: Contents, bounds: Bounds) -> None:
        self.root = self.left = str(root)
        self._blobs = blobs
        self._contents = contents
        self._before = _walk(root, bounds, contents)

    @property
    def keys(self) -> Iterator[Key]:
        """Of every file that was seen."""
        return (key_of(seen.facts) for seen in self._before.values() if seen.kept is not None)

    def changes(self) -> list[PathChange]:
        after = _walk(Path(self.root), None, None)
        found: list[PathChange] = []
        with Tree(self.root) as tree:
            for path, seen in self._before.items():
                now = after.get(path)
                if now is None or _may_differ(seen, now):
                    state = ABSENT if now is None else tree.state(path)
                    before = self._kept(seen)
                    if not before.same_as(state):
                        found.append(PathChange(path, before, state))
            for path in after.keys() - self._before.keys():
                state = tree.state(path)
                if state.kind not in ("absent", "other"):
                    found.append(PathChange(path, ABSENT, state))
        found.sort(key=lambda change: change.path.split("/"))
        return found

    def roll_back(self, refused: list[PathChange]) -> None:
        steps = [Step(change.path, change.after, change.before) for change in refused]
        with Tree(self.root) as tree:
            settle(tree, steps, BlobSource(self._blobs))

    def take_over(self, changes: list[PathChange]) -> list[str]:
        """The command changed the root itself."""
        return []

    def close(self) -> None:
        """Nothing of it is left."""

    def _kept(self, seen: _Seen) -> PathState:
        """What was there; its content moves to where the ledger keeps content."""
        if seen.kept is None:
            return described(seen.facts, target=seen.target)
        self._contents.hand_over(seen.kept, self._blobs)
        return described(seen.facts, seen.kept.digest, kept=True)


def measure(root: Path, bounds: Bounds) -> None:
    """Raises `TooMuch` where `CopyPart` would."""
    _walk(root, bounds, None)


def _walk(root: Path, bounds: Bounds | None, contents: Contents | None) -> dict[str, _Seen]:
    """Everything beneath a root and the root itself; with `contents` every file's content is kept."""
    found = {"": _Seen(root.stat())}
    size = 0
    with Tree(root) as tree:
        for path, entry, here in tree.walk():
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # it went while we looked
            if stat.S_ISREG(facts.st_mode):
                size += facts.st_size
                kept, sure = (None, True) if contents is None else contents.keep(here, entry.name, facts)
                found[path] = _Seen(facts, None, kept, sure)
            elif stat.S_ISLNK(facts.st_mode):
                found[path] = _Seen(facts, os.readlink(entry.name, dir_fd=here))
            else:
                found[path] = _Seen(facts)
            if bounds is not None and (len(found) > bounds.max_files or size > bounds.max_bytes):
                raise TooMuch(_too_much(root, bounds, files=len(found) > bounds.max_files))
    return found


def _may_differ(before: _Seen, now: _Seen) -> bool:
    if stat.S_ISDIR(before.facts.st_mode) and stat.S_ISDIR(now.facts.st_mode):
        return before.facts.st_mode != now.facts.st_mode
    same = key_of(before.facts) == key_of(now.facts) and before.facts.st_mode == now.facts.st_mode
    return not (same and before.sure)


def _too_much(root: Path, bounds: Bounds, *, files: bool) -> str:
    if files:
        return f"{root} holds more than {bounds.max_files:,} files, which sandbox.undo_max_files does not allow to copy"
    limit = f"{bounds.max_bytes / 1024**2:,.0f} MB"
    return f"{root} holds more than {limit}, which sandbox.undo_max_bytes does not allow to copy"
