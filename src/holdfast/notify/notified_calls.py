"""`NotifiedCalls`: which pending calls were notified, in a private file, so that a restart does not repeat them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.contract.call import PendingCall
from holdfast.fs.replace import read_private, write_private

FILE: Final = "notified.json"
MAX_CALLS: Final = 500
"""Calls that are remembered for each project."""
MAX_PROJECTS: Final = 1_000
_MAX_BYTES: Final = 64 * 1024 * 1024


class Progress(Struct, frozen=True):
    """How far the ledger of one project was notified."""

    entry: int = 0
    """The highest number of an entry that was dealt with."""
    calls: tuple[str, ...] = ()
    """The last calls, each as a digest of its id and of what was shown. A call that is stored again under a later entry
    without a change is not repeated."""


class NotifiedCalls:
    """One process writes the file. It is kept in memory only if there is no folder, or if it cannot be written."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE
        self._projects = _read(self._path)
        self._warned = False

    def last_entry(self, project: str) -> int:
        """Return the highest entry number that was dealt with; 0 for a new project."""
        return self._projects.get(project, Progress()).entry

    def covers(self, project: str, entry: int, pending: PendingCall) -> bool:
        progress = self._projects.get(project)
        return progress is not None and (entry <= progress.entry or _mark(pending) in progress.calls)

    def record(self, project: str, calls: Iterable[tuple[int, PendingCall]]) -> None:
        """Remember calls, and write the file."""
        progress = self._projects.pop(project, Progress())
        added = list(calls)
        marks = dict.fromkeys((*progress.calls, *(_mark(pending) for _, pending in added)))
        entry = max((progress.entry, *(number for number, _ in added)))
        self._projects[project] = Progress(entry, tuple(marks)[-MAX_CALLS:])
        while len(self._projects) > MAX_PROJECTS:
            del self._projects[next(iter(self._projects))]  # the one that was notified longest ago
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            write_private(self._path, msgspec.json.encode(self._projects))
        except OSError as error:
            if not self._warned:
                logging.getLogger("holdfast").warning(
                    "Cannot write %s: %s. After a restart, notifications may be repeated.", self._path, error.strerror
                )
            self._warned = True


def _mark(pending: PendingCall) -> str:
    return sha256(f"{pending.call.id}\0{pending.digest}".encode("utf-8", "replace")).hexdigest()[:32]


def _read(path: Path | None) -> dict[str, Progress]:
    if path is None:
        return {}
    try:
        return msgspec.json.decode(read_private(path, _MAX_BYTES), type=dict[str, Progress])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        # Repeating a notification is harmless; missing one is not.
        logging.getLogger("holdfast").warning("Cannot read %s (%s), so notifications may be repeated.", path, error)
        return {}
