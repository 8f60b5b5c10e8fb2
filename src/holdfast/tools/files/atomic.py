"""Replacing a file whole or not at all, beneath a root and only if it is still what was seen."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.temporary import NewFile
from holdfast.text.truncate import format_size
from holdfast.tools.files.beneath import check_regular, folder

MAX_BYTES: Final = 64 * 1024 * 1024
"""What is replaced is kept, so that it can be put back; more than this is not."""
_ABSENT: Final = "absent"
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)
"""What file systems without hard links answer."""
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")

Keep = Callable[[Path, bytes | None, int | None], None]


class Stale(Exception):
    """The file is not what it was when the change was proposed."""


class TooLarge(Exception):
    """The file is too large to be kept."""


class FileState(Struct, frozen=True):
    """What is at a path now."""

    content: bytes | None
    digest: str
    """Of content, inode and mode; `absent` if there is nothing."""
    mode: int | None = None
    owner: tuple[int, int] | None = None
    attributes: tuple[tuple[str, bytes], ...] = ()
    """Access lists and the user's own; those that grant power to a program belong to its old content."""

    @property
    def exists(self) -> bool:
        return self.content is not None


def read_state(root: Path, path: Path) -> FileState:
    try:
        with folder(root, path.parent) as opened:
            return _read(opened, path.name)
    except FileNotFoundError:
        return FileState(None, _ABSENT)


def replace_file(
    root: Path,
    path: Path,
    content: bytes,
    *,
    seen: str,
    keep_before: Keep,
    keep_after: Keep,
    create_parents: bool = False,
) -> FileState:
    """Write `content` if the file is still in the state `seen`; returns what was there before.

    Both images are kept before the file gets its name: what cannot be recorded does not happen.
    """
    with folder(root, path.parent, create=create_parents) as opened:
        before = _read(opened, path.name)
        if before.digest != seen:
            raise Stale
        keep_before(path, before.content, before.mode)
        with NewFile(opened, 0o600 if before.exists else 0o666) as new:
            mode = _write_new(new, content, before)
            keep_after(path, content, mode)
            if before.exists:
                if _read(opened, path.name).digest != seen:
                    raise Stale
                new.replace(path.name)
            else:
                _link_new(opened, new, path.name)
        with contextlib.suppress(OSError):  # it is in place: some file systems cannot sync a folder
            os.fsync(opened)
    return before


def _read(where: int, name: str) -> FileState:
    try:
        facts = os.stat(name, dir_fd=where, follow_symlinks=False)
    except FileNotFoundError:
        return FileState(None, _ABSENT)
    check_regular(facts.st_mode)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=where), "rb") as file:
        facts = os.fstat(file.fileno())
        check_regular(facts.st_mode)
        content = file.read(MAX_BYTES + 1) if facts.st_size <= MAX_BYTES else None
        attributes = tuple(_attributes(file.fileno()))
    if content is None or len(content) > MAX_BYTES:
        raise TooLarge(f"is {format_size(facts.st_size)}; only files up to {format_size(MAX_BYTES)} are changed")
    mode = stat.S_IMODE(facts.st_mode)
    digest = f"{sha256(content).hexdigest()}:{facts.st_ino}:{mode:o}"
    return FileState(content, digest, mode, (facts.st_uid, facts.st_gid), attributes)


def _attributes(opened: int) -> list[tuple[str, bytes]]:
    if not hasattr(os, "listxattr"):
        return []
    try:
        names = [name for name in os.listxattr(opened) if name.startswith(_KEPT_ATTRIBUTES)]
        return [(name, os.getxattr(opened, name)) for name in names]
    except OSError:
        return []


def _write_new(new: NewFile, content: bytes, before: FileState) -> int:
    """The new content with owner and mode of the old; returns the mode it got."""
    new.write(content)
    if before.mode is not None and before.owner is not None:
        _keep_owner(new.fd, before.owner)
        mode = before.mode & 0o1777  # as the kernel does on a write: new content has not earned setuid
        for attribute, value in before.attributes:
            with contextlib.suppress(OSError):
                os.setxattr(new.fd, attribute, value)
        os.fchmod(new.fd, mode)
    os.fsync(new.fd)
    return stat.S_IMODE(os.fstat(new.fd).st_mode)


def _keep_owner(opened: int, owner: tuple[int, int]) -> None:
    facts = os.fstat(opened)
    if (facts.st_uid, facts.st_gid) != owner:
        with contextlib.suppress(OSError):
            os.fchown(opened, *owner)


def _link_new(where: int, new: NewFile, name: str) -> None:
    """Give the new file its name only if nothing has it: a rename alone would overwrite what appeared meanwhile."""
    try:
        new.link(name)
    except FileExistsError:
        raise Stale from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=where))
        except FileExistsError:
            raise Stale from None
        new.replace(name)
