"""Replacing a file whole or not at all, below a root, without following links and only if it is still what was seen."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Generator
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

KeepBefore = Callable[[Path, bytes | None, int | None], None]
_ABSENT = "absent"


class Stale(Exception):
    """The file is not what it was when the change was proposed."""


class NotRegular(Exception):
    """The path is a folder, a link, a pipe or a device."""


class FileState(Struct, frozen=True):
    """What is at a path now."""

    content: bytes | None
    digest: str
    """Of content, inode and mode; `absent` if there is nothing."""
    mode: int | None = None

    @property
    def exists(self) -> bool:
        return self.content is not None


def read_state(root: Path, path: Path) -> FileState:
    try:
        with _parent(root, path) as folder:
            return _read(folder, path)
    except FileNotFoundError:
        return FileState(None, _ABSENT)


def replace_file(
    root: Path, path: Path, content: bytes, *, seen: str, keep_before: KeepBefore, create_parents: bool
) -> FileState:
    """Write `content` if the file is still in the state `seen`; returns what was there before."""
    with _parent(root, path, create=create_parents) as folder:
        before = _read(folder, path)
        if before.digest != seen:
            raise Stale
        keep_before(path, before.content, before.mode)
        temporary = f".{path.name[:200]}.{os.urandom(6).hex()}.tmp"
        try:
            _write_new(folder, temporary, content, 0o644 if before.mode is None else before.mode, exact=before.exists)
            if before.exists:
                if _read(folder, path).digest != seen:
                    raise Stale
                os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                _link_new(folder, temporary, path.name)
            os.fsync(folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
    return before


@contextlib.contextmanager
def _parent(root: Path, path: Path, *, create: bool = False) -> Generator[int]:
    """The folder of a path, opened step by step from the root so that no link on the way is followed."""
    if path == root:
        raise NotRegular(f"{path} is a folder")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in path.relative_to(root).parts[:-1]:
            if create:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            below = os.open(part, flags, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


def _read(folder: int, path: Path) -> FileState:
    try:
        opened = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return FileState(None, _ABSENT)
    except OSError as error:
        raise NotRegular(f"{path.name} is a link or cannot be opened ({error.strerror})") from None
    with os.fdopen(opened, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise NotRegular(f"{path.name} is not a regular file")
        content = file.read()
    mode = stat.S_IMODE(facts.st_mode)
    return FileState(content, f"{sha256(content).hexdigest()}:{facts.st_ino}:{mode:o}", mode)


def _write_new(folder: int, name: str, content: bytes, mode: int, *, exact: bool) -> None:
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    with os.fdopen(opened, "wb") as file:
        file.write(content)
        file.flush()
        if exact:
            os.fchmod(file.fileno(), mode)
        os.fsync(file.fileno())


def _link_new(folder: int, temporary: str, name: str) -> None:
    """Give the new file its name only if nothing has it: a rename would overwrite what appeared meanwhile."""
    try:
        os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise Stale from None
