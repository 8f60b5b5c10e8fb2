"""One process at a time drives a document, and the others can see which."""

from __future__ import annotations

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
from holdfast.fs.private import open_lock, try_lock
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
        end = time.monotonic() + wait
        try:
            self._descriptor = open_lock(self._file)
            while not try_lock(self._descriptor):
                if time.monotonic() >= end:
                    raise DocumentBusy(self._path, _read_owner(self._file))
                time.sleep(_PAUSE)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, msgspec.json.encode(this_process()), 0)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise DocumentError(
                    f"{self._path} cannot be locked with {self._file} ({error.strerror}); "
                    "check the disk and permissions of that folder."
                ) from None
            raise

    def _give_back(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def driver(path: Path, state: Path) -> Owner | None:
    """The process that drives a document now."""
    owner = _read_owner(_lock_file(path, state))
    return owner if owner is not None and alive(owner) else None


def _lock_file(path: Path, state: Path) -> Path:
    return state / f"{key(path)}.lock"


def _read_owner(file: Path) -> Owner | None:
    try:
        return _owner.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None
