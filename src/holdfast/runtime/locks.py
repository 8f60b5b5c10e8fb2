"""Calls that touch the same path take turns; reads share. Other processes are not held off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct


class Claim(Struct, frozen=True, eq=False):
    """The paths one call holds; a claim on a folder covers what is inside."""

    paths: tuple[Path, ...]
    exclusive: bool

    def conflicts(self, other: Claim) -> bool:
        if not (self.exclusive or other.exclusive):
            return False
        return any(
            mine == theirs or mine in theirs.parents or theirs in mine.parents
            for mine in self.paths
            for theirs in other.paths
        )


class PathLocks:
    """First come, first served among claims that conflict."""

    def __init__(self) -> None:
        self._held: list[Claim] = []
        self._waiting: list[tuple[Claim, asyncio.Future[None], tuple[Claim, ...]]] = []

    def must_wait(self, claim: Claim, mine: Iterable[Claim] = ()) -> bool:
        own = tuple(mine)
        ahead = [*self._held, *(item[0] for item in self._waiting)]
        return any(claim.conflicts(other) for other in ahead if other not in own)

    async def acquire(self, claim: Claim, mine: Iterable[Claim] = ()) -> None:
        """Wait for the paths. `mine` are claims of the calls this one is nested in; they are no obstacle."""
        own = tuple(mine)
        if not self.must_wait(claim, own):
            self._held.append(claim)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (claim, future, own)
        self._waiting.append(entry)
        try:
            await future
        except BaseException:
            if entry in self._waiting:
                self._waiting.remove(entry)
            if claim in self._held:
                self.release(claim)
            else:
                self._wake()
            raise

    def release(self, claim: Claim) -> None:
        self._held.remove(claim)
        self._wake()

    def _wake(self) -> None:
        ahead = list(self._held)
        still: list[tuple[Claim, asyncio.Future[None], tuple[Claim, ...]]] = []
        for claim, future, own in self._waiting:
            if any(claim.conflicts(other) for other in ahead if other not in own):
                still.append((claim, future, own))
            elif not future.done():
                self._held.append(claim)
                future.set_result(None)
            ahead.append(claim)
        self._waiting = still
