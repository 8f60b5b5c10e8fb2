"""Private files and folders (modes 0600 and 0700), and locks between processes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from holdfast.fs.beneath import USERS_FOLDER, NotRegular, open_regular, opened
from holdfast.fs.replace import NewFile, sync_folder


def make_private_folder(folder: Path) -> None:
    """Create what is missing of the path with mode 0700; what is there stays as it is."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)


class PrivateFile(NewFile):
    """A file of mode 0600 that is written in pieces; `publish` gives it its name."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._held = os.open(folder, USERS_FOLDER)
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
            with opened(path.parent, USERS_FOLDER) as folder:
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


def make_private_once(path: Path, make: Callable[[], bytes]) -> None:
    """Write a file of mode 0600 if there is none: whole, on the disk, and the same one for all who come at once."""
    make_private_folder(path.parent)
    with opened(path.parent, USERS_FOLDER) as folder:
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
