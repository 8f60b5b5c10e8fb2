"""`NotifiedCalls`: which pending calls were notified, in private files, so that a restart does not repeat them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.contract.call import PendingCall
from holdfast.fs.replace import read_private, write_private

FOLDER: Final = "notified"
MAX_CALLS: Final = 500
"""Calls that are remembered for each project."""
_MAX_BYTES: Final = 1024 * 1024
_LOG: Final = logging.getLogger("holdfast")


class Progress(Struct, frozen=True):
    """How far the ledger of one project was notified."""

    entry: int = 0
    """The highest number of an entry that was dealt with."""
    calls: tuple[str, ...] = ()
    """The last calls, each as a digest of its id and of what was shown. A call that is stored again under a later entry
    without a change is not repeated."""


class NotifiedCalls:
    """One file for each project, so that daemons that serve different projects do not write the same one. Without a
    folder, or if it cannot be written, it is only in memory."""

    def __init__(self, state: Path | None) -> None:
        self._folder = None if state is None else state / FOLDER
        self._projects: dict[str, Progress] = {}
        self._warned = False

    def last_entry(self, project: str) -> int:
        """Return the highest entry number that was dealt with; 0 for a new project."""
        return self._progress(project).entry

    def covers(self, project: str, entry: int, pending: PendingCall) -> bool:
        progress = self._progress(project)
        return entry <= progress.entry or _mark(pending) in progress.calls

    def record(self, project: str, calls: Iterable[tuple[int, PendingCall]]) -> None:
        """Remember calls, and write the file."""
        progress = self._progress(project)
        added = list(calls)
        marks = dict.fromkeys((*progress.calls, *(_mark(pending) for _, pending in added)))
        entry = max((progress.entry, *(number for number, _ in added)))
        self._projects[project] = Progress(entry, tuple(marks)[-MAX_CALLS:])
        self._write(project)

    def forget(self, project: str) -> None:
        self._projects[project] = Progress()
        self._write(project)

    def _progress(self, project: str) -> Progress:
        if project not in self._projects:
            self._projects[project] = Progress() if self._folder is None else _read(self._file(self._folder, project))
        return self._projects[project]

    @staticmethod
    def _file(folder: Path, project: str) -> Path:
        return folder / f"{sha256(os.fsencode(project)).hexdigest()[:32]}.json"

    def _write(self, project: str) -> None:
        if self._folder is None:
            return
        path = self._file(self._folder, project)
        try:
            write_private(path, msgspec.json.encode(self._projects[project]))
        except OSError as error:
            if not self._warned:
                _LOG.warning("Cannot write %s (%s), so a restart may repeat notifications.", path, error.strerror)
            self._warned = True


def _mark(pending: PendingCall) -> str:
    return sha256(f"{pending.call.id}\0{pending.digest}".encode("utf-8", "replace")).hexdigest()[:32]


def _read(path: Path) -> Progress:
    try:
        return msgspec.json.decode(read_private(path, _MAX_BYTES), type=Progress)
    except FileNotFoundError:
        return Progress()
    except (OSError, msgspec.DecodeError) as error:
        # Repeating a notification is harmless; missing one is not.
        _LOG.warning("Cannot read %s (%s), so notifications may be repeated.", path, error)
        return Progress()
