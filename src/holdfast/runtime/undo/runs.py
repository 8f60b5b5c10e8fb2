"""The private folder of one recording, and the removal of those whose process is gone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from holdfast.fs.beneath import remove
from holdfast.fs.private import make_private_folder
from holdfast.fs.temporary import is_left, new_name


def new_run(state: Path) -> Path:
    """A folder of our own, whose name says which process it belongs to."""
    runs = state / "runs"
    make_private_folder(runs)
    run = runs / new_name()
    run.mkdir(mode=0o700)
    return run


def keep_run(run: Path, call_id: str) -> Path:
    """What could not be taken over stays, outside the project, until somebody has looked at it."""
    kept = run.parent.parent / "kept" / call_id
    make_private_folder(kept.parent)
    run.rename(kept)
    return kept


def remove_dead_runs(state: Path) -> None:
    """What a killed process left: nothing of it was taken over, or the ledger knows of it."""
    try:
        runs = list((state / "runs").iterdir())
    except FileNotFoundError:
        return
    for run in runs:
        with suppress(OSError):
            if is_left(run.name, run.stat().st_mtime):
                remove(run)
