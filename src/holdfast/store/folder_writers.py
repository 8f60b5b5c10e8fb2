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
    """The process that started the writer and ends it."""
    folders: tuple[str, ...]
    ended: float | None = None


class WriterRegistration:
    """Registers a writer while it runs. Call the registration when the writer has ended."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Raises `OSError` if the record cannot be written: the writer must not start then."""
        self._writer = FolderWriter(owner=this_process(), folders=tuple(map(str, folders)))
        self._path = user_state_dir() / _FOLDER / os.urandom(8).hex()
        _write(self._path, self._writer)

    def __call__(self) -> None:
        with suppress(OSError):
            _write(self._path, replace(self._writer, ended=time()))
            _remove_older(self._path, self._writer)


def may_have_written(path: Path, since: float | None) -> bool:
    """Whether a live writer may write to the path; with `since`, also one that ended after it or at an unknown time."""
    found = False
    for file, writer in _records():
        if not any(path.is_relative_to(folder) for folder in writer.folders):
            continue
        if writer.ended is None and is_alive(writer.owner):
            found = True
        elif writer.ended is None:  # killed together with its owner, at an unknown time before now
            found = found or since is not None
            with suppress(OSError):
                _write(file, replace(writer, ended=time()))
        elif since is not None and writer.ended >= since:
            found = True
    return found


def _records() -> Iterator[tuple[Path, FolderWriter]]:
    with suppress(OSError):
        for file in sorted((user_state_dir() / _FOLDER).iterdir()):
            with suppress(OSError, msgspec.MsgspecError):
                yield file, msgspec.json.decode(file.read_bytes(), type=FolderWriter)


def _remove_older(path: Path, writer: FolderWriter) -> None:
    """Delete older records of ended writers with the same folders: only the last end time matters."""
    for file, other in _records():
        if file != path and other.ended is not None and other.folders == writer.folders:
            file.unlink(missing_ok=True)


def _write(path: Path, writer: FolderWriter) -> None:
    write_private(path, msgspec.json.encode(writer))
