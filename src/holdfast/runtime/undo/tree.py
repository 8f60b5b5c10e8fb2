"""A folder tree seen from its root: every way is walked step by step, so that no link ever leads out of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from holdfast.runtime.undo.states import (
    MISSING,
    OPEN_FOLDER,
    Keep,
    change_mode,
    described,
    look,
    names_in,
)
from holdfast.store.changes import ABSENT, PathState
from holdfast.temporary import new_name, noted

_BLOCK: Final = 1024 * 1024
_ALL: Final = stat.S_IRWXU


class Tree:
    """Paths are relative to the root, which is the empty path. Descriptors of the last way are kept open."""

    def __init__(self, root: str | Path, stage: Path) -> None:
        self.root = str(root)
        self._stage = stage
        """A private folder: new content is written there if it can be moved from there into the tree."""
        self._top = os.open(self.root, OPEN_FOLDER)
        self._way: list[tuple[str, int]] = []
        self._loosened: dict[str, int] = {}
        """Folders we could not work in, and the modes they get back."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.restore_modes()
        finally:
            self._forget(0)
            os.close(self._top)

    def state(self, path: str, keep: Keep | None = None) -> PathState:
        if not path:
            return described(os.fstat(self._top))
        try:
            folder, name = self._parent(path)
            return look(folder, name, keep)
        except OSError as error:
            if error.errno in MISSING:
                return ABSENT
            raise

    def size(self, path: str) -> int | None:
        """Of a file; None if there is none."""
        try:
            folder, name = self._parent(path)
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        return facts.st_size if stat.S_ISREG(facts.st_mode) else None

    def names(self, path: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder."""
        try:
            return names_in(self.folder(path))
        except OSError as error:
            if error.errno in MISSING:
                return []
            raise

    def folder(self, path: str) -> int:
        """A folder, opened; it stays open until another way is walked."""
        parts = path.split("/") if path else []
        common = 0
        while common < min(len(parts), len(self._way)) and self._way[common][0] == parts[common]:
            common += 1
        self._forget(common)
        here = self._way[-1][1] if self._way else self._top
        for place in range(common, len(parts)):
            here = self._enter(here, parts[place], "/".join(parts[: place + 1]))
            self._way.append((parts[place], here))
        return here

    def remove(self, path: str, *, folder: bool) -> None:
        parent, name = self._writable_parent(path)
        if folder:
            self._forget_below(path)
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)

    def make_folder(self, path: str, state: PathState) -> None:
        """Its own mode comes when everything in it is in place; until then its owner can work in it."""

        def make(folder: int, name: str) -> None:
            os.mkdir(name, 0o700, dir_fd=folder)
            change_mode(folder, name, lambda mode: _ALL | (mode if state.mode is None else state.mode))

        self._replace(path, state, make)

    def make_link(self, path: str, state: PathState) -> None:
        target = state.target or ""
        self._replace(path, state, lambda folder, name: os.symlink(target, name, dir_fd=folder))

    def make_fifo(self, path: str, state: PathState) -> None:
        def make(folder: int, name: str) -> None:
            os.mkfifo(name, 0o600, dir_fd=folder)
            change_mode(folder, name, lambda mode: mode if state.mode is None else state.mode)

        self._replace(path, state, make)

    def copy_in(self, path: str, state: PathState, opened: int, times: tuple[int, int] | None = None) -> None:
        """A file with what `opened` holds."""

        def make(folder: int, name: str) -> None:
            os.lseek(opened, 0, os.SEEK_SET)
            _write_file(folder, name, opened)
            change_mode(folder, name, lambda mode: mode if state.mode is None else state.mode)
            if times is not None:
                os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)

        self._replace(path, state, make)

    def move_in(self, path: str, source: str) -> bool:
        """Rename a finished file into its place; False if it lies where it cannot be renamed from."""
        parent, name = self._writable_parent(path)
        try:
            os.rename(source, name, dst_dir_fd=parent)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return False
            raise
        return True

    def set_mode(self, path: str, mode: int) -> None:
        self._loosened.pop(path, None)
        if not path:
            os.fchmod(self._top, mode)
            return
        parent, name = self._parent(path)
        change_mode(parent, name, lambda _: mode)

    def set_times(self, path: str, times: tuple[int, int]) -> None:
        parent, name = self._parent(path)
        os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)

    def restore_modes(self) -> None:
        """Give the folders that were opened up their modes back, the deepest first."""
        for path in sorted(self._loosened, reverse=True):
            mode = self._loosened[path]
            with suppress(OSError):
                self.set_mode(path, mode)
        self._loosened.clear()

    def _parent(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        return self.folder(folder), name

    def _writable_parent(self, path: str) -> tuple[int, str]:
        parent, name = self._parent(path)
        mode = stat.S_IMODE(os.fstat(parent).st_mode)
        if mode & _ALL != _ALL and os.geteuid():
            self._loosened.setdefault(path.rpartition("/")[0], mode)
            os.fchmod(parent, mode | _ALL)
        return parent, name

    def _enter(self, here: int, name: str, path: str) -> int:
        try:
            return os.open(name, OPEN_FOLDER, dir_fd=here)
        except PermissionError:
            self._loosened.setdefault(path, change_mode(here, name, lambda mode: mode | _ALL))
            return os.open(name, OPEN_FOLDER, dir_fd=here)

    def _replace(self, path: str, state: PathState, make: Callable[[int, str], None]) -> None:
        """Make something under a name of its own, outside the tree where that is possible, and rename it into place."""
        parent, name = self._writable_parent(path)
        stage = os.open(self._stage, OPEN_FOLDER)
        try:
            near = os.fstat(stage).st_dev == os.fstat(parent).st_dev
            if not (near and _make_and_move(stage, parent, name, state, make)):
                _make_and_move(parent, parent, name, state, make)
        finally:
            os.close(stage)

    def _forget(self, keep: int) -> None:
        while len(self._way) > keep:
            os.close(self._way.pop()[1])

    def _forget_below(self, path: str) -> None:
        """Let go of a folder that is about to be removed."""
        depth = path.count("/")
        if [part for part, _ in self._way[: depth + 1]] == path.split("/"):
            self._forget(depth)
        self._loosened.pop(path, None)


def _make_and_move(
    folder: int, parent: int, name: str, state: PathState, make: Callable[[int, str], None]
) -> bool:
    """False if it cannot be renamed from this folder."""
    new = f".{new_name()}.tmp"
    inside = os.path.realpath(f"/proc/self/fd/{folder}")
    try:
        with noted(f"{inside}/{new}"):
            make(folder, new)
            if state.owner is not None:
                with suppress(PermissionError):
                    os.chown(new, *state.owner, dir_fd=folder, follow_symlinks=False)
                    if state.kind == "file" and state.mode is not None:
                        os.chmod(new, state.mode, dir_fd=folder)  # a change of owner takes away setuid and setgid
            os.rename(new, name, src_dir_fd=folder, dst_dir_fd=parent)
    except BaseException as error:
        with suppress(OSError):
            os.rmdir(new, dir_fd=folder) if state.kind == "directory" else os.unlink(new, dir_fd=folder)
        if isinstance(error, OSError) and error.errno == errno.EXDEV and folder != parent:
            return False
        raise
    return True


def _write_file(folder: int, name: str, opened: int) -> None:
    new = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        while block := os.read(opened, _BLOCK):
            view = memoryview(block)
            while view:
                view = view[os.write(new, view) :]
    finally:
        os.close(new)
