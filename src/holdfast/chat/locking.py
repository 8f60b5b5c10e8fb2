"""One process at a time drives a document, and the others can see which."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from holdfast.chat.files import DocumentError
from holdfast.contract.call import Owner
from holdfast.store.files import make_private_folder
from holdfast.store.owner import alive, this_process

_PAUSE: Final = 0.01
_owner: Final = msgspec.json.Decoder(Owner)


class DocumentBusy(DocumentError):
    """Another process, or another part of this one, drives the document."""

    def __init__(self, path: Path, owner: Owner | None) -> None:
        self.owner = owner
        who = f"process {owner.pid}" if owner else "another process"
        super().__init__(
            f"{path} is being driven by {who}; wait for it, or stop it with `holdfast chat cancel {path.name}`."
        )


def key(path: Path) -> str:
    """The name of a document in the state folder: the same for every way to name the same file."""
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:40]


class DocumentLock:
    """May be taken again by its holder. The system gives it back when the process ends, however it ends."""

    def __init__(self, path: Path, state: Path) -> None:
        self._path = path
        self._file = _lock_file(path, state)
        self._descriptor = -1
        self._depth = 0

    @contextmanager
    def held(self, wait: float = 0.0) -> Generator[None]:
        """Raises `DocumentBusy` when others hold it for longer than `wait` seconds."""
        if self._depth == 0:
            self._take(wait)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._give_back()

    def _take(self, wait: float) -> None:
        descriptor = self._open()
        end = time.monotonic() + wait
        try:
            while not _taken(descriptor):
                if time.monotonic() >= end:
                    raise DocumentBusy(self._path, _read_owner(self._file))
                time.sleep(_PAUSE)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, msgspec.json.encode(this_process()), 0)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise DocumentError(_unlockable(self._path, self._file, error)) from None
            raise
        self._descriptor = descriptor

    def _open(self) -> int:
        try:
            make_private_folder(self._file.parent)
            return os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DocumentError(_unlockable(self._path, self._file, error)) from None

    def _give_back(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = -1


def driver(path: Path, state: Path) -> Owner | None:
    """The process that drives a document now."""
    owner = _read_owner(_lock_file(path, state))
    return owner if owner is not None and alive(owner) else None


def _lock_file(path: Path, state: Path) -> Path:
    return state / f"{key(path)}.lock"


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_owner(file: Path) -> Owner | None:
    try:
        return _owner.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


def _unlockable(path: Path, file: Path, error: OSError) -> str:
    return f"{path} cannot be locked with {file} ({error.strerror}); check the disk and permissions of that folder."
