"""Waiting for one's turn on a path: announced, cancellable, and never for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from holdfast.contract.errors import PathRefused
from holdfast.contract.event import Queued
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Failure, State
from holdfast.runtime.context import RunContext
from holdfast.runtime.locks import Claim, PathLocks
from holdfast.runtime.refusals import ABORTED, refused_paths


class Turns:
    def __init__(self, tell: Callable[[Queued], None]) -> None:
        self._tell = tell
        self._locks = PathLocks()
        self._waiting: dict[str, asyncio.Future[None]] = {}

    async def take(self, claim: Claim, ctx: RunContext) -> Result | None:
        """Wait for the paths; the refusal if they cannot be had, or if the call is cancelled meanwhile."""
        if self._locks.must_wait(claim, ctx.claims):
            self._tell(Queued(ctx.call_id, ", ".join(map(str, claim.paths))))
            refusal = await self._wait(claim, ctx)
            if refusal is not None:
                return refusal
        else:
            await self._locks.acquire(claim, ctx.claims)
        ctx.claims = (*ctx.claims, claim)
        return None

    def give_back(self, claim: Claim) -> None:
        self._locks.release(claim)

    def cancel(self, call_id: str) -> bool:
        waiting = self._waiting.get(call_id)
        return waiting is not None and waiting.cancel()

    async def _wait(self, claim: Claim, ctx: RunContext) -> Result | None:
        waiting = asyncio.ensure_future(self._locks.acquire(claim, ctx.claims))
        self._waiting[ctx.call_id] = waiting
        try:
            await asyncio.wait({waiting})
            waiting.result()
        except PathRefused as error:
            return refused_paths(error)
        except asyncio.CancelledError:
            if waiting.cancelled():
                return Result(False, error=ABORTED, state=State.CANCELLED, failure=Failure.CANCELLED)
            if not waiting.cancel():
                self._locks.release(claim)
            raise
        finally:
            del self._waiting[ctx.call_id]
        return None
