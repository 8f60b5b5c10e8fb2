"""Processes that may write to folders for as long as they live, recorded on disk so that other processes see them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import ProcessIdentity
from holdfast.fs.own_paths import user_state_dir
from holdfast.fs.replace import write_private
from holdfast.store.process_identity import is_alive, this_process

_FOLDER: Final = "writers"


class FolderWriter(Struct, frozen=True, kw_only=True):
    owner: ProcessIdentity
    """The process that ends it."""
    folders: tuple[str, ...]
    ended: float | None = None


class WriterRegistration:
    """A writer that lives; calling it says that it does not any more."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Raises `OSError` if it cannot be noted down: then it must not start."""
        self._writer = FolderWriter(owner=this_process(), folders=tuple(map(str, folders)))
        self._path = user_state_dir() / _FOLDER / os.urandom(8).hex()
        _write(self._path, self._writer)

    def __call__(self) -> None:
        with suppress(OSError):
            _write(self._path, replace(self._writer, ended=time()))
            _forget(self._path, self._writer)


def may_have_written(path: Path, since: float | None) -> bool:
    """Whether one that may write there lives; with `since`, also one that ended after that, or nobody knows when."""
    found = False
    for file, writer in _noted():
        if not any(path.is_relative_to(folder) for folder in writer.folders):
            continue
        if writer.ended is None and is_alive(writer.owner):
            found = True
        elif writer.ended is None:  # killed with its owner: it ended by now, and that is all that is known
            found = found or since is not None
            with suppress(OSError):
                _write(file, replace(writer, ended=time()))
        elif since is not None and writer.ended >= since:
            found = True
    return found


def _noted() -> Iterator[tuple[Path, FolderWriter]]:
    with suppress(OSError):
        for file in sorted((user_state_dir() / _FOLDER).iterdir()):
            with suppress(OSError, msgspec.MsgspecError):
                yield file, msgspec.json.decode(file.read_bytes(), type=FolderWriter)


def _forget(path: Path, writer: FolderWriter) -> None:
    """Of those that ended only the last one with the same folders matters."""
    for file, other in _noted():
        if file != path and other.ended is not None and other.folders == writer.folders:
            file.unlink(missing_ok=True)


def _write(path: Path, writer: FolderWriter) -> None:
    write_private(path, msgspec.json.encode(writer))
