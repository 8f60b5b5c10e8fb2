"""Files that appear whole or not at all, and take the place of others in one step."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, Self

from holdfast.fs.beneath import NEW_FILE_FLAGS, USER_FOLDER_FLAGS, NotRegular, open_descriptor, open_regular
from holdfast.fs.temporary import temporary_name

_NO_TMPFILE_ERRNOS: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS})
"""What file systems and kernels without nameless files answer."""
_NO_HARD_LINK_ERRNOS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)
"""What file systems without hard links answer."""
_NO_FOLDER_SYNC_ERRNOS: Final = (errno.EINVAL, errno.ENOTSUP)
"""What file systems that cannot sync a folder answer."""
_NO_EXCHANGE_ERRNOS: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")
"""Access lists and the user's own; those that grant power to a program belong to its old content."""
_RENAME_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100


class FileMetadata(NamedTuple):
    """What a new file takes over from the one it replaces."""

    mode: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, bytes], ...]


def read_metadata(opened: int) -> FileMetadata:
    facts = os.fstat(opened)
    attributes: tuple[tuple[str, bytes], ...] = ()
    if hasattr(os, "listxattr"):
        with suppress(OSError):  # the file system has none, or they changed just now
            names = [name for name in os.listxattr(opened) if name.startswith(_KEPT_ATTRIBUTES)]
            attributes = tuple((name, os.getxattr(opened, name)) for name in names)
    return FileMetadata(stat.S_IMODE(facts.st_mode), (facts.st_uid, facts.st_gid), attributes)


class NewFile:
    """A file in an open folder that nobody sees before it is whole. Used as a context: what got no name is gone."""

    def __init__(self, folder: int, mode: int = 0o600) -> None:
        self._folder = folder
        self._temporary: str | None = None
        self._cleanup = ExitStack()
        self.fd = _open_tmpfile(folder, mode)
        if self.fd < 0:
            try:
                self.fd = os.open(self._new_temporary(), NEW_FILE_FLAGS, mode, dir_fd=folder)
            except BaseException:
                self._cleanup.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def copy_metadata(self, traits: FileMetadata) -> None:
        """As far as this process may."""
        facts = os.fstat(self.fd)
        if (facts.st_uid, facts.st_gid) != traits.owner:
            with suppress(OSError):
                os.fchown(self.fd, *traits.owner)
        for name, value in traits.attributes:
            with suppress(OSError):
                os.setxattr(self.fd, name, value)
        # After the owner, whose change clears bits. As the kernel does on a write: new content has not earned setuid.
        os.fchmod(self.fd, traits.mode & 0o1777)

    def link(self, name: str) -> None:
        """Give it a name that is free. Raises `FileExistsError`, or `OSError` where the file system has no links."""
        # A rename would overwrite what appeared meanwhile; a link fails.
        if self._temporary is None:
            os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._folder, follow_symlinks=True)
        else:
            os.link(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)

    def claim(self, name: str) -> None:
        """Like `link`, also where there are no links: there the name is claimed by an empty file first."""
        try:
            self.link(name)
        except OSError as error:
            if error.errno not in _NO_HARD_LINK_ERRNOS:
                raise
            os.close(os.open(name, NEW_FILE_FLAGS, 0o600, dir_fd=self._folder))
            self.replace(name)

    def replace(self, name: str) -> None:
        """Give it a name, in place of whatever has it."""
        os.rename(self.ensure_name(), name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def ensure_name(self) -> str:
        """The name it has for now."""
        if self._temporary is None:  # a nameless file cannot take the place of another
            os.link(f"/proc/self/fd/{self.fd}", self._new_temporary(), dst_dir_fd=self._folder, follow_symlinks=True)
        assert self._temporary is not None
        return self._temporary

    def _new_temporary(self) -> str:
        self._temporary = self._cleanup.enter_context(temporary_name(self._folder))
        return self._temporary

    def close(self) -> None:
        """Again is harmless."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self._cleanup.close()


@contextmanager
def new_file(folder: int, data: bytes, like: FileMetadata | None = None, *, mode: int = 0o666) -> Generator[NewFile]:
    """A new file with this content on the disk; it has no name yet."""
    with NewFile(folder, mode if like is None else 0o600) as new:  # private until it has the mode it shall have
        new.write(data)
        if like is not None:
            new.copy_metadata(like)
        # Before it gets its name: after a power failure the name must not lead to an empty file.
        os.fsync(new.fd)
        yield new


def _open_tmpfile(folder: int, mode: int) -> int:
    """A file that can be given a name later; -1 where the system, or this file system, has none."""
    try:
        # O_TMPFILE: a process that is killed leaves nothing behind.
        fd = os.open(".", os.O_WRONLY | os.O_CLOEXEC | os.O_TMPFILE, mode, dir_fd=folder)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_TMPFILE_ERRNOS:
            raise
        return -1
    if os.path.exists(f"/proc/self/fd/{fd}"):  # noqa: PTH110 - by which it gets its name; /proc may be missing
        return fd
    os.close(fd)
    return -1


def sync_folder(folder: int) -> None:
    """The names in it are on the disk before this returns, where the file system can do that."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC_ERRNOS:
            raise


def exchange_files(first: Path, second: Path) -> bool:
    """Exchange two files in one step, so that neither name is ever missing and neither content lost.

    False, and nothing changed, where the system or the file system cannot do it. Both have to exist.
    """
    rename = _renameat2()
    if rename is None:
        return False
    problem = rename(os.fsencode(first), os.fsencode(second))
    if problem and problem not in _NO_EXCHANGE_ERRNOS:
        raise OSError(problem, os.strerror(problem), str(second))
    return not problem


@cache
def _renameat2() -> Callable[[bytes, bytes], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes  # which takes longer to load than all of this

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return None
    library.renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def exchange(first: bytes, second: bytes) -> int:
        failed = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
        return ctypes.get_errno() if failed else 0

    return exchange


def make_private_folder(folder: Path) -> None:
    """Create what is missing of the path with mode 0700; what is there stays as it is."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)


class PrivateFile(NewFile):
    """A file of mode 0600 that is written in pieces; `publish` gives it its name."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._held = os.open(folder, USER_FOLDER_FLAGS)
        try:
            super().__init__(self._held)
        except BaseException:
            os.close(self._held)
            raise

    def publish(self, path: Path, *, sync: bool) -> None:
        """With `sync` the content and the name are on the disk before this returns."""
        if sync:
            os.fsync(self.fd)
        make_private_folder(path.parent)
        try:
            self.link(str(path))
        except OSError:  # there is one already, or the file system has no links
            self.replace(str(path))
        self.close()
        if sync:
            with open_descriptor(path.parent, USER_FOLDER_FLAGS) as folder:
                sync_folder(folder)

    def close(self) -> None:
        if self.fd >= 0:
            super().close()
            os.close(self._held)


def write_private(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Write a file of mode 0600 whole, in place of what has its name."""
    with PrivateFile(path.parent) as new:
        new.write(data)
        new.publish(path, sync=sync)


def create_private_once(path: Path, make: Callable[[], bytes]) -> None:
    """Write a file of mode 0600 if there is none: whole, on the disk, and the same one for all who come at once."""
    make_private_folder(path.parent)
    with open_descriptor(path.parent, USER_FOLDER_FLAGS) as folder:
        with NewFile(folder) as new:
            new.write(make())
            os.fsync(new.fd)
            with suppress(FileExistsError):  # another process was faster, and its content is as good
                new.link(path.name)
        sync_folder(folder)


def read_private(path: Path, most: int) -> bytes:
    """What a file of this user's own holds, up to `most` bytes. Raises `PermissionError` for one others may know."""
    try:
        descriptor = open_regular(path)
    except NotRegular as error:
        raise PermissionError("is a link" if error.kind == "a link" else "is not a file") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if found.st_mode & 0o077 or found.st_uid != os.getuid():
            raise PermissionError("is not yours alone")
        return file.read(most)


def open_lock(path: Path) -> int:
    """A private file to be locked; it is never removed, so that all who come lock the same one."""
    make_private_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int) -> bool:
    """Whether the lock is ours now. It ends with the descriptor, or with the process, however that ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
