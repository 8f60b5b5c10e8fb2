"""After a command: what it planted at protected paths is taken away, what it moved or changed is put back.

Every step goes through open folders and follows no symlink, since another command may be running in the same place.
What a person or another program did meanwhile cannot always be told from what the command did: where the command
cannot have done it, it stays, and what is taken away is kept.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from holdfast.sandbox.protection import KEPT_BYTES, Locked, find, is_vacant

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Sweep:
    """Puts one writable folder right when called; `violations` says what had to be."""

    def __init__(
        self,
        folder: Path,
        before: Sequence[Locked],
        *,
        extra: Sequence[str] = (),
        masked: Sequence[str] = (),
        keep: Path | None = None,
    ) -> None:
        self.violations: tuple[str, ...] = ()
        self._folder = folder
        self._before = {item.path: item for item in before}
        self._extra = tuple(extra)
        self._masked = tuple(masked)
        self._keep = keep

    def __call__(self) -> None:
        known = {item.identity: item for item in self._before.values()}
        violations: list[str] = []
        moved: list[tuple[Locked, Locked]] = []
        for item in find(self._folder, self._extra):
            if self._is_innocent(item):
                continue
            violations.append(item.path)
            origin = known.get(item.identity)
            if origin is not None and origin.path != item.path and not self._is_at_home(origin):
                moved.append((origin, item))
            else:
                self._take_away(item.path)
        for origin, item in moved:
            self._move_back(item.path, origin.path)
        for item in self._before.values():
            if self._is_out_of_reach(item):
                continue
            if not self._is_at_home(item) or self._is_changed(item):
                violations.append(item.path)
                self._take_away(item.path)
                self._put_back(item)
        self.violations = tuple(dict.fromkeys(violations))

    def _is_innocent(self, item: Locked) -> bool:
        """It was there before, or the command cannot have put it there."""
        if is_vacant(item, self._folder) or any(Path(item.path).is_relative_to(path) for path in self._masked):
            return True
        before = self._before.get(item.path)
        return before is not None and (before.identity == item.identity or self._is_out_of_reach(before))

    def _is_out_of_reach(self, item: Locked) -> bool:
        """Mounted, in the folder it was in: the command could neither change nor replace it there."""
        if not item.mounted:
            return False
        with suppress(OSError), self._parent(item.path) as (parent, _name):
            about = os.fstat(parent)
            return (about.st_dev, about.st_ino) == item.parent
        return False

    def _is_at_home(self, item: Locked) -> bool:
        with suppress(OSError), self._parent(item.path) as (parent, name):
            about = os.stat(name, dir_fd=parent, follow_symlinks=False)
            return (about.st_dev, about.st_ino) == item.identity
        return False

    def _is_changed(self, item: Locked) -> bool:
        if item.content is None:
            return False
        with suppress(OSError), self._parent(item.path) as (parent, name):
            if item.kind == "link":
                return os.fsencode(os.readlink(name, dir_fd=parent)) != item.content
            about = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_IMODE(about.st_mode) != item.mode:
                return True
            return _read(name, parent, len(item.content) + 1) != item.content
        return True

    def _take_away(self, path: str) -> None:
        """Make it harmless by one rename, keep a copy if that is wanted, remove it. What is too big stays, harmless."""
        with suppress(OSError), self._parent(path) as (parent, name):
            aside = f"holdfast-{secrets.token_hex(8)}.blocked"
            os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            is_folder = stat.S_ISDIR(os.stat(aside, dir_fd=parent, follow_symlinks=False).st_mode)
            if self._keep is not None and not self._copy(f"/proc/self/fd/{parent}/{aside}", is_folder, name):
                return
            if is_folder:
                shutil.rmtree(aside, dir_fd=parent)
            else:
                os.unlink(aside, dir_fd=parent)

    def _copy(self, aside: str, is_folder: bool, name: str) -> bool:
        assert self._keep is not None
        if _size(aside) > KEPT_BYTES:
            return False
        self._keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = self._keep / f"{secrets.token_hex(4)}-{name}"
        if is_folder:
            shutil.copytree(aside, kept, symlinks=True)
        else:
            shutil.copy2(aside, kept, follow_symlinks=False)
        return True

    def _move_back(self, here: str, there: str) -> None:
        with suppress(OSError), self._parent(here) as (parent, name), self._parent(there, make=True) as (home, old):
            os.rename(name, old, src_dir_fd=parent, dst_dir_fd=home)

    def _put_back(self, item: Locked) -> None:
        if item.content is None:
            return
        with suppress(OSError), self._parent(item.path, make=True) as (parent, name):
            if item.kind == "link":
                os.symlink(os.fsdecode(item.content), name, dir_fd=parent)
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, item.mode, dir_fd=parent), "wb") as file:
                file.write(item.content)
                os.fchmod(file.fileno(), item.mode)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The open folder a path lies in, reached from the top without following a symlink, and its name there."""
        *folders, name = Path(path).relative_to(self._folder).parts
        here = os.open(self._folder, _FOLDER)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=here)
                below = os.open(folder, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here, name
        finally:
            os.close(here)


def _size(path: str) -> int:
    total = os.lstat(path).st_size
    for folder, _folders, files in os.walk(path):
        total += sum(os.lstat(f"{folder}/{name}").st_size for name in files)
    return total


def _read(name: str, parent: int, size: int) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as file:
        return file.read(size)
