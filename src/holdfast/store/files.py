"""Private files: folders only the user can enter, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from holdfast import temporary
from holdfast.contract.errors import LedgerUnavailable


def make_private_folder(folder: Path) -> None:
    """Create what is missing of the path with mode 0700; what is there stays as it is."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)


class NewFile:
    """A file of mode 0600 that is not seen until `publish` gives it its name."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._new = temporary.NewFile(self._folder)
        except BaseException:
            os.close(self._folder)
            raise
        self.file: BinaryIO = os.fdopen(self._new.fd, "wb", closefd=False)

    def publish(self, path: Path, *, sync: bool) -> None:
        """With `sync` the content and the name are on the disk before this returns."""
        self.file.flush()
        if sync:
            os.fsync(self.file.fileno())
        make_private_folder(path.parent)
        try:
            self._new.link(str(path))
        except OSError:  # there is one already, or the file system has no links
            self._new.replace(str(path))
        self.discard()
        if sync:
            sync_folder(path.parent)

    def discard(self) -> None:
        """Harmless after `publish`."""
        if self._new.fd < 0:
            return
        with suppress(OSError):
            self.file.close()
        self._new.close()
        os.close(self._folder)


def read_private(path: Path, most: int) -> bytes:
    """What a file of this user's own holds, up to `most` bytes. Raises `PermissionError` for one others may know."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError("is a link") from error
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError("is not a file")
        if found.st_mode & 0o077 or found.st_uid != os.getuid():
            raise PermissionError("is not yours alone")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(descriptor)


def make_private_once(path: Path, make: Callable[[], bytes]) -> None:
    """Write a file of mode 0600 if there is none: whole, on the disk, and the same one for all who come at once."""
    make_private_folder(path.parent)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with temporary.NewFile(folder) as new:
            new.write(make())
            os.fsync(new.fd)
            with suppress(FileExistsError):  # another process was faster, and its content is as good
                new.link(path.name)
        os.fsync(folder)
    finally:
        os.close(folder)


def sync_folder(folder: Path) -> None:
    """The names in it are on the disk before this returns."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def translated(what: str) -> Generator[None]:
    """Errors of the disk as errors of the ledger."""
    try:
        yield
    except FileNotFoundError as error:
        raise LedgerUnavailable("That content is not kept any more; run the call again to get it.") from error
    except OSError as error:
        raise LedgerUnavailable(
            f"The content could not be {what} ({error.strerror}); check the disk and permissions of the state folder."
        ) from error
