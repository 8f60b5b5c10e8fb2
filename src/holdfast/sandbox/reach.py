"""Ways through a folder that commands write to: no symlink is followed, and a mode that shuts the owner out is loosened
while something has to be done, then set again."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Reach:
    """Paths are absolute and lie in the folder. Modes are set again when the block is left."""

    def __init__(self, folder: Path) -> None:
        self.failed: list[str] = []
        """Folders of this user that could not be looked into."""
        self._folder = folder
        self._loosened: list[tuple[int, int]] = []
        """Open folders, and the modes they had."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for handle, mode in reversed(self._loosened):
            with suppress(OSError):
                _chmod(handle, mode)
            os.close(handle)
        self._loosened.clear()

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """What is in a folder, in order; nothing where it is gone, or another user's and shut."""
        try:
            return _listed(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            try:
                with self.parent(f"{folder}/."):
                    return _listed(folder)
            except OSError:
                if _is_own(folder):
                    self.failed.append(folder)
                return []

    @contextmanager
    def parent(self, path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        """The open folder a path lies in, which its owner can then work in, and its name there."""
        *folders, name = path.removeprefix(f"{self._folder}/").split("/")
        here = self._opened(str(self._folder), None)
        try:
            for folder in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=here)
                below = self._opened(folder, here)
                os.close(here)
                here = below
            yield here, name
        finally:
            os.close(here)

    def _opened(self, name: str, parent: int | None) -> int:
        handle = os.open(name, _HANDLE, dir_fd=parent)
        kept = False
        try:
            about = os.fstat(handle)
            mode = stat.S_IMODE(about.st_mode)
            if mode & stat.S_IRWXU != stat.S_IRWXU and about.st_uid == os.geteuid() != 0:
                _chmod(handle, mode | stat.S_IRWXU)
                self._loosened.append((handle, mode))
                kept = True
            return os.open(name, FOLDER, dir_fd=parent)
        finally:
            if not kept:
                os.close(handle)


def loosen(folder: int) -> None:
    """Let the owner work in an open folder, for good."""
    os.fchmod(folder, stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU)


def _listed(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if entries:
        with suppress(FileNotFoundError):
            entries[0].stat(follow_symlinks=False)  # a folder may be read and yet not be entered
    return entries


def _is_own(folder: str) -> bool:
    try:
        return os.lstat(folder).st_uid == os.geteuid()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def _chmod(handle: int, mode: int) -> None:
    if hasattr(os, "O_PATH"):
        Path(f"/proc/self/fd/{handle}").chmod(mode)
    else:
        os.fchmod(handle, mode)
