"""Atomic file replacement, private files (mode 0600) and file locks."""

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
"""Errors of file systems and kernels without O_TMPFILE."""
_NO_HARD_LINK_ERRNOS: Final = (errno.EPERM, errno.ENOTSUP, errno.EMLINK)
"""Errors of file systems without hard links."""
_NO_FOLDER_SYNC_ERRNOS: Final = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that cannot sync a folder."""
_NO_EXCHANGE_ERRNOS: Final = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")
"""ACLs and user attributes. Not security.capability: new content must not inherit privileges."""
_RENAME_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100


class FileMetadata(NamedTuple):
    """Metadata that a new file inherits from the file it replaces."""

    mode: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, bytes], ...]


def read_metadata(opened: int) -> FileMetadata:
    facts = os.fstat(opened)
    attributes: tuple[tuple[str, bytes], ...] = ()
    if hasattr(os, "listxattr"):
        with suppress(OSError):  # not supported, or changed meanwhile
            names = [name for name in os.listxattr(opened) if name.startswith(_KEPT_ATTRIBUTES)]
            attributes = tuple((name, os.getxattr(opened, name)) for name in names)
    return FileMetadata(stat.S_IMODE(facts.st_mode), (facts.st_uid, facts.st_gid), attributes)


class NewFile:
    """A file that is invisible until it is complete. Use it as a context manager, which removes an unpublished file."""

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
        """Apply owner, attributes and mode, as far as this process is permitted to."""
        facts = os.fstat(self.fd)
        if (facts.st_uid, facts.st_gid) != traits.owner:
            with suppress(OSError):
                os.fchown(self.fd, *traits.owner)
        for name, value in traits.attributes:
            with suppress(OSError):
                os.setxattr(self.fd, name, value)
        # After the owner, since chown clears bits. Drop setuid and setgid, as the kernel does on a write.
        os.fchmod(self.fd, traits.mode & 0o1777)

    def link(self, name: str) -> None:
        """Publish under a new name. Raises `FileExistsError`, or `OSError` if the file system has no hard links."""
        # A rename would overwrite a file created meanwhile; link fails.
        if self._temporary is None:
            os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._folder, follow_symlinks=True)
        else:
            os.link(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)

    def claim(self, name: str) -> None:
        """Like `link`, but without hard links claims the name with an empty file (O_EXCL) first."""
        try:
            self.link(name)
        except OSError as error:
            if error.errno not in _NO_HARD_LINK_ERRNOS:
                raise
            os.close(os.open(name, NEW_FILE_FLAGS, 0o600, dir_fd=self._folder))
            self.replace(name)

    def replace(self, name: str) -> None:
        """Publish under a name, atomically replacing an existing file."""
        os.rename(self.ensure_name(), name, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def ensure_name(self) -> str:
        """Return the temporary name, created if needed."""
        if self._temporary is None:  # an O_TMPFILE file cannot be renamed over another
            os.link(f"/proc/self/fd/{self.fd}", self._new_temporary(), dst_dir_fd=self._folder, follow_symlinks=True)
        assert self._temporary is not None
        return self._temporary

    def _new_temporary(self) -> str:
        self._temporary = self._cleanup.enter_context(temporary_name(self._folder))
        return self._temporary

    def close(self) -> None:
        """Close the file and remove its temporary name. Idempotent."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            self._cleanup.close()


@contextmanager
def new_file(folder: int, data: bytes, like: FileMetadata | None = None, *, mode: int = 0o666) -> Generator[NewFile]:
    """Create a file with this content, synced to disk but not yet published."""
    with NewFile(folder, mode if like is None else 0o600) as new:  # private until the final mode is set
        new.write(data)
        if like is not None:
            new.copy_metadata(like)
        # Before publishing: after a power failure the name must not lead to an empty file.
        os.fsync(new.fd)
        yield new


def _open_tmpfile(folder: int, mode: int) -> int:
    """Open an unnamed file that can be linked later; -1 if the system or file system does not support it."""
    try:
        # O_TMPFILE: a killed process leaves no file behind.
        fd = os.open(".", os.O_WRONLY | os.O_CLOEXEC | os.O_TMPFILE, mode, dir_fd=folder)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_TMPFILE_ERRNOS:
            raise
        return -1
    if os.path.exists(f"/proc/self/fd/{fd}"):  # noqa: PTH110 - needed to link the file; /proc may be missing
        return fd
    os.close(fd)
    return -1


def sync_folder(folder: int) -> None:
    """Sync the folder's entries to disk, if the file system supports it."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC_ERRNOS:
            raise


def exchange_files(first: Path, second: Path) -> bool:
    """Exchange two existing files atomically (RENAME_EXCHANGE): neither name is ever missing, neither content lost.

    Returns False, without changes, if the system or file system does not support it.
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
    import ctypes  # slow to import

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        return None
    library.renameat2.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def exchange(first: bytes, second: bytes) -> int:
        failed = library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE)
        return ctypes.get_errno() if failed else 0

    return exchange


def make_private_folder(folder: Path) -> None:
    """Create a folder and missing parents with mode 0700. Existing folders keep their mode."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)


def make_private(path: Path) -> None:
    """Create the file with mode 0600 before SQLite opens it, so that its log files get the same mode."""
    # An existing file is never opened here: POSIX drops all locks of the process on a file when any descriptor closes.
    make_private_folder(path.parent)
    try:
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
    except FileNotFoundError:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


class PrivateFile(NewFile):
    """A file of mode 0600 that is written in pieces; `publish` makes it visible."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._held = os.open(folder, USER_FOLDER_FLAGS)
        try:
            super().__init__(self._held)
        except BaseException:
            os.close(self._held)
            raise

    def publish(self, path: Path, *, sync: bool) -> None:
        """Publish under a name. With `sync`, content and name are on disk before this returns."""
        if sync:
            os.fsync(self.fd)
        make_private_folder(path.parent)
        try:
            self.link(str(path))
        except OSError:  # the name exists, or the file system has no hard links
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
    """Write a file of mode 0600 atomically, replacing an existing one."""
    with PrivateFile(path.parent) as new:
        new.write(data)
        new.publish(path, sync=sync)


def create_private_once(path: Path, make: Callable[[], bytes]) -> None:
    """Create a file of mode 0600 if it does not exist, synced to disk. Concurrent callers get the same file."""
    make_private_folder(path.parent)
    with open_descriptor(path.parent, USER_FOLDER_FLAGS) as folder:
        with NewFile(folder) as new:
            new.write(make())
            os.fsync(new.fd)
            with suppress(FileExistsError):  # another process won the race; its content is as good
                new.link(path.name)
        sync_folder(folder)


def read_private(path: Path, most: int) -> bytes:
    """Read up to `most` bytes of a private file. Raises `PermissionError` if other users can access it."""
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
    """Open a private lock file. It is never removed, so that all processes lock the same inode."""
    make_private_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def try_lock(descriptor: int) -> bool:
    """Try to take the lock. The kernel releases it when the descriptor is closed or the process dies."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
