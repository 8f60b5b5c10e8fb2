"""Private files: folders only the user can enter, and files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from holdfast.contract.errors import LedgerUnavailable


def make_private_folder(folder: Path) -> None:
    """Create what is missing of the path with mode 0700; what is there stays as it is."""
    for part in (*reversed(folder.parents), folder):
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)


class NewFile:
    """A file of mode 0600 under a temporary name, until `publish` gives it its own."""

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self._path = folder / f".new-{os.urandom(8).hex()}"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.file: BinaryIO = os.fdopen(descriptor, "wb")

    def publish(self, path: Path, *, sync: bool) -> None:
        """With `sync` the content and the name are on the disk before this returns."""
        self.file.flush()
        if sync:
            os.fsync(self.file.fileno())
        self.file.close()
        make_private_folder(path.parent)
        self._path.replace(path)
        if sync:
            sync_folder(path.parent)

    def discard(self) -> None:
        """Harmless after `publish`."""
        with suppress(OSError):
            self.file.close()
        self._path.unlink(missing_ok=True)


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
