"""Calls that touch the same path take turns; reads share. Other processes are not held off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.contract.errors import PathRefused


class Claim(Struct, frozen=True, eq=False):
    """The paths one call holds; a claim on a folder covers what is inside."""

    paths: tuple[Path, ...]
    exclusive: bool
    group: str = ""
    """The outermost call: what is nested in one call waits together."""

    def conflicts(self, other: Claim) -> bool:
        if not (self.exclusive or other.exclusive):
            return False
        return any(
            mine == theirs or mine in theirs.parents or theirs in mine.parents
            for mine in self.paths
            for theirs in other.paths
        )


class _Waiting(NamedTuple):
    claim: Claim
    future: asyncio.Future[None]
    own: tuple[Claim, ...]


class PathLocks:
    """First come, first served among claims that conflict; a nested call goes before strangers that wait."""

    def __init__(self) -> None:
        self._held: list[Claim] = []
        self._waiting: list[_Waiting] = []

    def must_wait(self, claim: Claim, mine: Iterable[Claim] = ()) -> bool:
        """Whether others stand in the way. `mine` are claims of the calls this one is nested in."""
        own = tuple(mine)
        ahead = self._held if own else [*self._held, *(item.claim for item in self._waiting)]
        return any(claim.conflicts(other) for other in ahead if other not in own)

    async def acquire(self, claim: Claim, mine: Iterable[Claim] = ()) -> None:
        """Wait for the paths; `PathRefused` if that would be for ever, because the others wait for us."""
        own = tuple(mine)
        if not self.must_wait(claim, own):
            self._held.append(claim)
            return
        if claim.group in self._groups_waited_for(claim, own):
            raise PathRefused(
                f"{claim.paths[0]} is in use by a call that waits for this one; let one of them finish first."
            )
        entry = _Waiting(claim, asyncio.get_running_loop().create_future(), own)
        self._waiting.append(entry)
        try:
            await entry.future
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

    def _groups_waited_for(self, claim: Claim, own: tuple[Claim, ...]) -> set[str]:
        """The groups this claim would wait for, directly or through what those wait for."""
        reached = self._blockers(claim, own)
        while True:
            more = {
                group
                for item in self._waiting
                if item.claim.group in reached
                for group in self._blockers(item.claim, item.own)
            }
            if more <= reached:
                return reached
            reached |= more

    def _blockers(self, claim: Claim, own: tuple[Claim, ...]) -> set[str]:
        return {other.group for other in self._held if other not in own and claim.conflicts(other)}

    def _wake(self) -> None:
        ahead: list[Claim] = []
        still: list[_Waiting] = []
        for item in sorted(self._waiting, key=lambda entry: not entry.own):
            blocking = [*self._held, *(() if item.own else ahead)]
            if any(item.claim.conflicts(other) for other in blocking if other not in item.own):
                still.append(item)
                ahead.append(item.claim)
            elif not item.future.done():
                self._held.append(item.claim)
                item.future.set_result(None)
        self._waiting = [item for item in self._waiting if item in still]
