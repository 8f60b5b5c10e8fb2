"""Looking at a path without following it: what kind of thing it is, its mode, its content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Final

from holdfast.fs.beneath import change_mode, open_regular
from holdfast.store.changes import ABSENT, Kind, PathState

Keep = Callable[[int], str]
"""Keeps what an open file holds; gives the SHA-256 of it."""

_BLOCK: Final = 1024 * 1024
_KINDS: Final[dict[int, Kind]] = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
}


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
        return open_regular(name, folder)
    except PermissionError:
        mode = change_mode(name, lambda mode: mode | stat.S_IRUSR, folder)
        try:
            return open_regular(name, folder)
        finally:
            change_mode(name, lambda _: mode, folder)


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
