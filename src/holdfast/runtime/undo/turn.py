"""Whose turn it is to change a project: one recorded command at a time, also among processes."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import Final

_PAUSE: Final = 0.01


async def take_turn(state: Path) -> int:
    """Wait for the turn; it ends when the returned descriptor is closed, or its process is gone."""
    folder = state / "undo"
    await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    held = os.open(folder / "turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _taken(held):  # noqa: ASYNC110 - another process tells nobody when its turn ends
            await asyncio.sleep(_PAUSE)
    except BaseException:
        os.close(held)
        raise
    return held


def _taken(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
