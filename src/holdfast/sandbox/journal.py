"""What must be put right if this process is killed while a command runs: noted before, done by the next one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.contract.call import Owner
from holdfast.sandbox.protection import Locked, drop_stub
from holdfast.store.files import NewFile
from holdfast.store.owner import alive, this_process

_FOLDER: Final = "sweeps"
"""Beside the folder where what was taken away is kept."""


class Note(Struct, frozen=True, kw_only=True):
    owner: Owner
    folder: str
    before: list[Locked]
    extra: tuple[str, ...]
    masked: tuple[str, ...]
    root: str | None


def write(
    keep: Path, folder: Path, before: list[Locked], extra: tuple[str, ...], masked: tuple[str, ...], root: Path | None
) -> Path | None:
    """The note, to be removed when all is put right; None if it cannot be written."""
    note = Note(
        owner=this_process(),
        folder=str(folder),
        before=before,
        extra=extra,
        masked=masked,
        root=None if root is None else str(root),
    )
    path = keep.with_name(_FOLDER) / os.urandom(8).hex()
    try:
        new = NewFile(path.parent)
        try:
            new.file.write(msgspec.msgpack.encode(note))
            new.publish(path, sync=False)
        finally:
            new.discard()
    except OSError:
        return None
    return path


def recover(keep: Path | None, notes: list[str] | None = None) -> tuple[str, ...]:
    """Do what dead processes left to be done, except where a living one is at work; what had to be put right.

    `notes` gets where things are now.
    """
    from holdfast.sandbox.sweep import Sweep

    if keep is None:
        return ()
    found = _notes(keep.with_name(_FOLDER))
    busy = {note.folder for note in found.values() if alive(note.owner)}
    violations: list[str] = []
    for path, note in found.items():
        if note.folder in busy:
            continue
        for stub in reversed(note.masked):
            drop_stub(stub)
        root = None if note.root is None else Path(note.root)
        sweep = Sweep(Path(note.folder), note.before, extra=note.extra, masked=note.masked, keep=keep, root=root)
        if Path(note.folder).is_dir():
            sweep()
            violations += sweep.violations
            if notes is not None:
                notes += (f"Left by an earlier command: {note}" for note in sweep.notes)
        sweep.forget()
        path.unlink(missing_ok=True)
    return tuple(violations)


def _notes(folder: Path) -> dict[Path, Note]:
    found: dict[Path, Note] = {}
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if not path.name.startswith("."):
                with suppress(OSError, msgspec.MsgspecError):
                    found[path] = msgspec.msgpack.decode(path.read_bytes(), type=Note)
    return found
