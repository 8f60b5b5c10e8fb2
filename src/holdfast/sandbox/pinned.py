"""Paths held open, so that what is mounted is what was looked at, whatever another command puts there meanwhile."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import Final

from holdfast.contract.errors import SandboxRefused
from holdfast.fs.beneath import HANDLE, open_beneath

LIMIT: Final = 200
"""A message between processes carries 253 open files."""


class Opened:
    """Open files that go with a launch; closed when they were handed over, or when nobody wants them."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def add(self, folder: Path, path: str, identity: tuple[int, int] | None = None) -> int:
        """Open a path in a folder; its place among the open files. Refuses what is not what it was."""
        if len(self.fds) >= LIMIT:
            raise SandboxRefused(
                "There are more protected folders in the writable folders than can be held; "
                'narrow sandbox.writable, or set sandbox.undo = "overlay".'
            )
        self.fds.append(open_same(folder, path, identity))
        return len(self.fds) - 1

    def __call__(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


def open_same(folder: Path, path: str, identity: tuple[int, int] | None) -> int:
    """A path in a folder, opened without following any symlink, if it is still the one with this identity."""
    try:
        fd = open_beneath(folder, Path(path), HANDLE)
    except OSError:
        raise _changed(path) from None
    about = os.fstat(fd)
    if identity is not None and identity != (about.st_dev, about.st_ino):
        os.close(fd)
        raise _changed(path)
    return fd


def _changed(path: str) -> SandboxRefused:
    return SandboxRefused(f"{path} changed while the command was made ready; try again.")


_running: Counter[Path] = Counter()
_running_lock = threading.Lock()


class Turn:
    """One command at work in a folder; calling it says that it is over."""

    def __init__(self, folder: Path, *, alone: bool) -> None:
        """`alone`: the command cannot be started safely while another one runs there."""
        self._folder = folder
        with _running_lock:
            if alone and _running[folder]:
                raise SandboxRefused(
                    f"This bubblewrap is too old to hold paths in {folder} while another command runs there; "
                    "wait until that has ended, or install bubblewrap 0.10 or newer."
                )
            _running[folder] += 1
        self._over = False

    def __call__(self) -> None:
        with _running_lock:
            if not self._over:
                self._over = True
                _running[self._folder] -= 1
