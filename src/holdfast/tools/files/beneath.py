"""Opening what lies beneath a root: no link is followed, nothing outside is reached, and nothing blocks.

Linux resolves a whole path under these rules in one step (openat2). Where that is missing, the path is walked down
one folder at a time, each opened relative to the one before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

Opener = Callable[[int, Sequence[str], int], int]
"""Opens names, one inside the other, starting at a folder's descriptor."""

_OPENAT2: Final = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_STEP: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ALWAYS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY
_A_FOLDER: Final = "a folder"
_KINDS: Final = {
    stat.S_IFDIR: _A_FOLDER,
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegular(Exception):
    """There is something other than a file; the message says what."""

    def __init__(self, kind: str) -> None:
        self.folder = kind == _A_FOLDER
        super().__init__(f"is {kind}, not a regular file")


def open_beneath(root: Path, path: Path, flags: int) -> int:
    """A descriptor of a real path below a real root. A link anywhere in between is an error, and so is `..`."""
    names = _names(root, path)
    anchor = os.open(root, _STEP)
    try:
        return opener()(anchor, names, flags | _ALWAYS)
    finally:
        os.close(anchor)


@contextlib.contextmanager
def regular_file(root: Path, path: Path) -> Generator[int]:
    """A file opened for reading; `NotRegular` for anything that is not one."""
    check_regular(path.lstat().st_mode)  # before it is opened, too: some devices act on that
    opened = open_beneath(root, path, os.O_RDONLY)
    try:
        check_regular(os.fstat(opened).st_mode)
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def folder(root: Path, path: Path, *, create: bool = False) -> Generator[int]:
    """A folder, made first with all that leads to it if asked."""
    if create:
        make_folders(root, path)
    opened = open_beneath(root, path, _FOLDER)
    try:
        yield opened
    finally:
        os.close(opened)


def make_folders(root: Path, path: Path) -> None:
    names = _names(root, path)
    here = os.open(root, _STEP)
    try:
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=here)
            here = _step(here, name)
    finally:
        os.close(here)


def _names(root: Path, path: Path) -> tuple[str, ...]:
    names = path.relative_to(root).parts
    if ".." in names:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
    return names


def check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegular(_KINDS.get(stat.S_IFMT(mode), "something else"))


@cache
def opener() -> Opener:
    """The best way to open that works here."""
    if sys.platform != "linux":
        return walk
    here = os.open("/", _STEP)
    try:
        os.close(openat2(here, (), _STEP))
    except (OSError, ImportError):
        return walk
    finally:
        os.close(here)
    return openat2


def walk(start: int, names: Sequence[str], flags: int) -> int:
    here = os.dup(start)
    try:
        for name in names[:-1]:
            here = _step(here, name)
        return os.open(names[-1] if names else ".", flags, dir_fd=here)
    finally:
        os.close(here)


def _step(here: int, name: str) -> int:
    """The folder `name` in the folder `here`, which is closed."""
    below = os.open(name, _STEP, dir_fd=here)
    os.close(here)
    return below


def openat2(start: int, names: Sequence[str], flags: int) -> int:
    import ctypes

    path = os.fsencode("/".join(names) or ".")
    how = (ctypes.c_uint64 * 3)(flags, 0, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    while True:
        opened = _syscall()(_OPENAT2, start, path, how, ctypes.sizeof(how))
        if opened >= 0:
            return opened
        error = ctypes.get_errno()
        try:
            raise OSError(error, os.strerror(error), "/".join(names))
        except InterruptedError:
            continue


@cache
def _syscall() -> Callable[..., int]:
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    return function
