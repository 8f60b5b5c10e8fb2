"""Looking at a path without following it: what kind of thing it is, its mode, its content."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from holdfast.store.changes import ABSENT, Kind, PathState

Keep = Callable[[int], str]
"""Keeps what an open file holds; gives the SHA-256 of it."""

OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HANDLE: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK: Final = 1024 * 1024
_KINDS: Final[dict[int, Kind]] = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
}
MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Nothing can be at a path whose way is blocked."""


def kind_of(mode: int) -> Kind:
    return _KINDS.get(stat.S_IFMT(mode), "other")


def look(folder: int, name: str, keep: Keep | None = None) -> PathState:
    """What is there now. `keep` is given the content of a file; without it the content is only digested."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return ABSENT
    kind = kind_of(facts.st_mode)
    if kind == "file":
        return look_at_file(folder, name, facts, keep)
    target = os.readlink(name, dir_fd=folder) if kind == "symlink" else None
    return described(facts, target=target)


def look_at_file(folder: int, name: str, facts: os.stat_result, keep: Keep | None) -> PathState:
    try:
        opened = open_file(folder, name)
    except PermissionError:
        return described(facts)
    try:
        digest = digest_of_open(opened) if keep is None else keep(opened)
        return described(os.fstat(opened), digest, kept=keep is not None)
    finally:
        os.close(opened)


def described(
    facts: os.stat_result, digest: str | None = None, *, kept: bool = False, target: str | None = None
) -> PathState:
    kind = kind_of(facts.st_mode)
    mine = facts.st_uid == os.geteuid() and facts.st_gid == os.getegid()
    return PathState(
        kind=kind,
        mode=None if kind == "symlink" else stat.S_IMODE(facts.st_mode),
        size=facts.st_size if kind == "file" else 0,
        blob=digest if kept else None,
        digest=None if kept else digest,
        target=target,
        owner=None if mine else (facts.st_uid, facts.st_gid),
    )


def open_file(folder: int, name: str) -> int:
    """A regular file to read, whatever its mode says, as long as it is ours."""
    try:
        return os.open(name, _OPEN_FILE, dir_fd=folder)
    except PermissionError:
        mode = change_mode(folder, name, lambda mode: mode | stat.S_IRUSR)
        try:
            return os.open(name, _OPEN_FILE, dir_fd=folder)
        finally:
            change_mode(folder, name, lambda _: mode)


def change_mode(folder: int, name: str, change: Callable[[int], int]) -> int:
    """Set the mode of what has this name, never of what a link leads to; gives the mode it had."""
    handle = os.open(name, _HANDLE, dir_fd=folder)
    try:
        facts = os.fstat(handle)
        if stat.S_ISLNK(facts.st_mode):
            raise OSError(errno.ELOOP, "It is a symlink by now", name)
        mode = stat.S_IMODE(facts.st_mode)
        wanted = change(mode)
        if wanted != mode:
            if hasattr(os, "O_PATH"):
                Path(f"/proc/self/fd/{handle}").chmod(wanted)
            else:
                os.fchmod(handle, wanted)
        return mode
    finally:
        os.close(handle)


def digest_of_open(opened: int) -> str:
    digest = sha256()
    while block := os.read(opened, _BLOCK):
        digest.update(block)
    return digest.hexdigest()


def names_in(folder: int) -> list[str]:
    """The names in a folder, in order. The descriptor is read from its beginning."""
    with suppress(OSError):
        os.lseek(folder, 0, os.SEEK_SET)
    return sorted(os.listdir(folder))
