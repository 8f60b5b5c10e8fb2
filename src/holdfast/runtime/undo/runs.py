"""The private folder of one recording, and the removal of those whose process is gone."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from holdfast.store.files import make_private_folder
from holdfast.temporary import is_left, new_name


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
                remove_tree(run)


def remove_tree(folder: Path) -> None:
    """Remove it, whatever modes a command gave to what is in it, and however deep it is.

    Folders are moved up before they are emptied, so that no path gets too long.
    """
    with suppress(FileNotFoundError):
        folder.chmod(stat.S_IRWXU)
        pending = [folder]
        count = 0
        while pending:
            here = pending.pop()
            with os.scandir(here) as entries:
                inside = list(entries)
            for entry in inside:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108 - thousands of them
                    continue
                Path(entry.path).chmod(stat.S_IRWXU)
                if here != folder:
                    count += 1
                    moved = folder / f".moved-{count}"
                    os.rename(entry.path, moved)  # noqa: PTH104
                else:
                    moved = Path(entry.path)
                pending.append(moved)
            if here != folder:
                here.rmdir()
        folder.rmdir()
