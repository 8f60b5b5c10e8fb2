"""Opens files beneath a root by descriptors, and writes them whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Generator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.temporary import NewFile
from holdfast.text.truncate import format_size

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
