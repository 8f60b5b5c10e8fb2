"""A folder tree seen from its root, in which every path changes whole."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.fs.beneath import FOLDER, GONE, Folders, change_mode, for_owner, opened, set_mode
from holdfast.fs.replace import NewFile
from holdfast.fs.temporary import temporary_name
from holdfast.runtime.undo.states import Keep, described, look, names_in
from holdfast.store.changes import ABSENT, PathState

_BLOCK: Final = 1024 * 1024


class Tree(Folders):
    """Paths are relative to the root, which is the empty path."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, loosen=True)

    def state(self, path: str, keep: Keep | None = None) -> PathState:
        if not path:
            return described(os.fstat(self.top))
        try:
            folder, name = self.parent(path)
            return look(folder, name, keep)
        except OSError as error:
            if error.errno in GONE:  # nothing can be at a path whose way is blocked
                return ABSENT
            raise

    def size(self, path: str) -> int | None:
        """Of a file; None if there is none."""
        try:
            folder, name = self.parent(path)
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        return facts.st_size if stat.S_ISREG(facts.st_mode) else None

    def names(self, path: str) -> list[str]:
        """What is in a folder; nothing if there is no such folder."""
        try:
            return names_in(self.open(path))
        except OSError as error:
            if error.errno in GONE:
                return []
            raise

    def remove(self, path: str, *, folder: bool) -> None:
        parent, name = self.parent(path, writable=True)
        if folder:
            self.forget(path)
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)

    def make_folder(self, path: str, state: PathState) -> None:
        """Its own mode comes when everything in it is in place; until then its owner can work in it."""
        parent, name = self.parent(path, writable=True)
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        with opened(name, FOLDER, parent) as made:
            _give_owner(made, state)
            set_mode(made, for_owner(state.mode or 0))

    def make_link(self, path: str, state: PathState) -> None:
        target = state.target or ""
        self._replace(path, state, lambda folder, name: os.symlink(target, name, dir_fd=folder))

    def make_fifo(self, path: str, state: PathState) -> None:
        def make(folder: int, name: str) -> None:
            os.mkfifo(name, 0o600, dir_fd=folder)
            change_mode(name, lambda mode: mode if state.mode is None else state.mode, folder)

        self._replace(path, state, make)

    def copy_in(self, path: str, state: PathState, source: int, times: tuple[int, int] | None = None) -> None:
        """A file with what the open `source` holds."""
        parent, name = self.parent(path, writable=True)
        os.lseek(source, 0, os.SEEK_SET)
        with NewFile(parent) as new:
            while block := os.read(source, _BLOCK):
                new.write(block)
            _give_owner(new.fd, state)
            if state.mode is not None:
                os.fchmod(new.fd, state.mode)  # after the owner, whose change takes away setuid and setgid
            if times is not None:
                os.utime(new.fd, ns=times)
            new.replace(name)

    def move_in(self, path: str, source: str) -> bool:
        """Rename a finished file into its place; False if it lies where it cannot be renamed from."""
        parent, name = self.parent(path, writable=True)
        try:
            os.rename(source, name, dst_dir_fd=parent)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return False
            raise
        return True

    def set_times(self, path: str, times: tuple[int, int]) -> None:
        parent, name = self.parent(path)
        os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)

    def _replace(self, path: str, state: PathState, make: Callable[[int, str], None]) -> None:
        """Make something under a name of its own and rename it into place."""
        parent, name = self.parent(path, writable=True)
        with temporary_name(parent) as new:
            make(parent, new)
            if state.owner is not None:
                with suppress(PermissionError):
                    os.chown(new, *state.owner, dir_fd=parent, follow_symlinks=False)
            os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)


def _give_owner(descriptor: int, state: PathState) -> None:
    if state.owner is not None:
        with suppress(PermissionError):
            os.fchown(descriptor, *state.owner)
