"""Path locks: calls that touch the same path take turns; readers share.

Waiting is announced with an event and can be cancelled, and a deadlock is refused. The locks are in memory: they do not
cover other processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import PathRefused
from holdfast.contract.event import Queued
from holdfast.contract.result import Result
from holdfast.runtime.results import ABORTED, failed, refused_paths


class Claim(Struct, frozen=True, eq=False):
    """The paths that one call locks. A claim on a folder covers everything in it."""

    paths: tuple[Path, ...]
    exclusive: bool
    group: str = ""
    """The id of the outermost call. Nested calls share it, so deadlocks are found between groups."""

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
    """Fair locks: conflicting claims are served in order, but a nested call overtakes unrelated calls that wait.

    Otherwise a waiting call could block the nested call of a call that holds the lock, which is a deadlock.
    """

    def __init__(self) -> None:
        self._held: list[Claim] = []
        self._waiting: list[_Waiting] = []

    def must_wait(self, claim: Claim, ancestors: Iterable[Claim] = ()) -> bool:
        """Whether other claims conflict. `ancestors` are the claims of the calls that this one is nested in."""
        own = tuple(ancestors)
        ahead = self._held if own else [*self._held, *(item.claim for item in self._waiting)]
        return any(claim.conflicts(other) for other in ahead if other not in own)

    async def acquire(self, claim: Claim, ancestors: Iterable[Claim] = ()) -> None:
        """Wait for the paths. Raises `PathRefused` if that would be a deadlock."""
        own = tuple(ancestors)
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
        """The groups this claim would wait for, directly or indirectly (the transitive closure)."""
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


class PathQueue:
    """Acquires the paths of calls, with an event for each call that has to wait."""

    def __init__(self, emit: Callable[[Queued], None]) -> None:
        self._emit = emit
        self._locks = PathLocks()
        self._waiting: dict[str, asyncio.Future[None]] = {}

    async def acquire(self, claim: Claim, call_id: str, ancestors: tuple[Claim, ...]) -> Result | None:
        """Wait for the paths. Returns a result if the call is refused or cancelled, else None.

        `ancestors` are the claims of the calls that this one is nested in.
        """
        if self._locks.must_wait(claim, ancestors):
            self._emit(Queued(call_id, ", ".join(map(str, claim.paths))))
            return await self._wait(claim, call_id, ancestors)
        await self._locks.acquire(claim, ancestors)
        return None

    def release(self, claim: Claim) -> None:
        self._locks.release(claim)

    def cancel(self, call_id: str) -> bool:
        waiting = self._waiting.get(call_id)
        return waiting is not None and waiting.cancel()

    async def _wait(self, claim: Claim, call_id: str, ancestors: tuple[Claim, ...]) -> Result | None:
        waiting = asyncio.ensure_future(self._locks.acquire(claim, ancestors))
        self._waiting[call_id] = waiting
        try:
            await asyncio.wait({waiting})
            waiting.result()
        except PathRefused as error:
            return refused_paths(error)
        except asyncio.CancelledError:
            if waiting.cancelled():
                return failed(ABORTED, State.CANCELLED, Failure.CANCELLED)
            if not waiting.cancel():
                self._locks.release(claim)
            raise
        finally:
            del self._waiting[call_id]
        return None
