"""Recording with overlayfs: a command writes to the upper folder of an overlay, whose changes are then applied."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.fs.beneath import FOLDER_FLAGS, open_descriptor, remove_tree
from holdfast.runtime.undo.tree import (
    PathEdit,
    Tree,
    apply_edits,
    describe_stat,
    digest_of_open,
    kind_of,
    list_names,
    open_file,
    path_state,
)
from holdfast.sandbox.launch import Overlay
from holdfast.store.blobs import Blobs
from holdfast.store.changes import ABSENT, PathChange, PathState

_OPAQUE: Final = "user.overlay.opaque"
_OVERLAY_XATTRS: Final = "user.overlay."


class OverlayRecording:
    """The recording of one writable root, which stays untouched until `apply`."""

    def __init__(self, root: Path, folder: Path, blobs: Blobs) -> None:
        self.root = str(root)
        self._folder = folder
        self._blobs = blobs
        self._upper = folder / "upper"
        self.content_root = str(self._upper)
        self._touched: dict[str, tuple[int, int]] = {}
        """New times of files whose content did not change."""
        facts = root.stat()
        for made in (self._upper, folder / "work"):
            made.mkdir(mode=0o700, parents=True)
        self._upper.chmod(stat.S_IMODE(facts.st_mode))
        os.utime(self._upper, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        self.overlay = Overlay(lower=root, upper=self._upper, work=folder / "work")

    def changes(self) -> list[PathChange]:
        """The command's changes. The previous content is stored."""
        with Tree(self.root) as lower, open_descriptor(self._upper, FOLDER_FLAGS) as upper:
            top = lower.state("")
            after = describe_stat(os.fstat(upper))
            found = [] if top.same_as(after) else [PathChange("", top, after)]
            found.extend(self._compare(lower, upper, "", has_lower=True))
        return found

    def revert(self, refused: list[PathChange]) -> None:
        """Nothing to do: changes that are not applied never reach the root."""

    def apply(self, changes: list[PathChange]) -> list[str]:
        """Apply the changes to the root, each path atomically. They are in the ledger already. Returns the failures."""
        failed: list[str] = []
        steps = [PathEdit(change.path, change.before, change.after) for change in changes]
        with Tree(self.root) as tree:
            apply_edits(tree, steps, self, failed)
            for path, times in self._touched.items():
                with suppress(OSError):
                    tree.set_times(path, times)
        return failed

    def write_file(self, tree: Tree, step: PathEdit) -> None:
        made = self._upper / step.path
        made.chmod(stat.S_IRUSR | stat.S_IWUSR)
        _remove_overlay_xattrs(made)
        if step.wanted.mode is not None:
            made.chmod(step.wanted.mode)
        if not tree.move_in(step.path, str(made)):
            made.chmod(stat.S_IRUSR)
            facts = made.stat()
            with made.open("rb", buffering=0) as file:
                tree.copy_in(step.path, step.wanted, file.fileno(), (facts.st_atime_ns, facts.st_mtime_ns))

    def close(self) -> None:
        remove_tree(self._folder)

    def _compare(self, lower: Tree, upper: int, path: str, *, has_lower: bool) -> Iterator[PathChange]:
        names = list_names(upper)
        if has_lower and _is_opaque(upper):
            for name in sorted(set(lower.names(path)) - set(names)):
                yield from self._gone(lower, _join(path, name))
        for name in names:
            yield from self._compare_one(lower, upper, name, _join(path, name), has_lower=has_lower)

    def _compare_one(self, lower: Tree, upper: int, name: str, path: str, *, has_lower: bool) -> Iterator[PathChange]:
        facts = os.stat(name, dir_fd=upper, follow_symlinks=False)
        kind = kind_of(facts.st_mode)
        if kind == "other":
            if has_lower:
                yield from self._gone(lower, path)
        elif kind == "directory":
            yield from self._compare_folder(lower, upper, name, path, facts, has_lower=has_lower)
        else:
            yield from self._compare_leaf(lower, upper, name, path, facts, has_lower=has_lower)

    def _compare_folder(
        self, lower: Tree, upper: int, name: str, path: str, facts: os.stat_result, *, has_lower: bool
    ) -> Iterator[PathChange]:
        after = describe_stat(facts)
        before = self._before(lower, path) if has_lower else ABSENT
        merged = before.kind == "directory"
        if not merged or before.mode != after.mode:
            yield PathChange(path, before, after)
        os.chmod(name, stat.S_IRWXU, dir_fd=upper)
        with open_descriptor(name, FOLDER_FLAGS, upper) as inside:
            yield from self._compare(lower, inside, path, has_lower=merged)

    def _compare_leaf(
        self, lower: Tree, upper: int, name: str, path: str, facts: os.stat_result, *, has_lower: bool
    ) -> Iterator[PathChange]:
        is_file = stat.S_ISREG(facts.st_mode)
        after = describe_stat(facts, _digest(upper, name)) if is_file else path_state(upper, name)
        found = lower.state(path) if has_lower and not _differs_in_size(lower, path, after) else ABSENT
        if is_file and found.content == after.content:
            self._touched[path] = (facts.st_atime_ns, facts.st_mtime_ns)
        if found.same_as(after):
            return
        before = self._before(lower, path) if has_lower else ABSENT
        if before.kind == "directory":
            yield from self._gone_inside(lower, path)
        yield PathChange(path, before, after)

    def _gone(self, lower: Tree, path: str) -> Iterator[PathChange]:
        before = self._before(lower, path)
        if before.kind == "absent":
            return
        yield PathChange(path, before, ABSENT)
        if before.kind == "directory":
            yield from self._gone_inside(lower, path)

    def _gone_inside(self, lower: Tree, path: str) -> Iterator[PathChange]:
        for name in lower.names(path):
            yield from self._gone(lower, _join(path, name))

    def _before(self, lower: Tree, path: str) -> PathState:
        return lower.state(path, self._blobs.put_open)


def _differs_in_size(lower: Tree, path: str, after: PathState) -> bool:
    """Whether the sizes differ. Then the old file need not be read to compare it, only to store it."""
    size = lower.size(path)
    return after.kind == "file" and size is not None and size != after.size


def _digest(folder: int, name: str) -> str:
    opened = open_file(folder, name)
    try:
        return digest_of_open(opened)
    finally:
        os.close(opened)


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(folder, _OPAQUE) == b"y"
    except OSError:
        return False


def _remove_overlay_xattrs(file: Path) -> None:
    """Remove the extended attributes that overlayfs has set on a file."""
    with suppress(OSError):
        for name in os.listxattr(file):
            if name.startswith(_OVERLAY_XATTRS):
                os.removexattr(file, name)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
