"""Group commit: operations that arrive in the same turn of the event loop share one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from holdfast.contract.errors import HoldfastError
from holdfast.store.database import PATIENCE, Database, Locked, Op

T = TypeVar("T")
_PAUSE: Final = 0.005
"""Seconds until a locked database is tried again; the event loop is free meanwhile."""


class _Waiting:
    __slots__ = ("alone", "deadline", "droppable", "error", "future", "op", "outcome", "settled")

    def __init__(self, op: Op[Any], future: asyncio.Future[Any] | None, droppable: bool) -> None:
        self.op = op
        self.future = future
        self.droppable = droppable
        self.alone = False
        """It was in a transaction that failed: it is tried again in one of its own, so that only the culprit fails."""
        self.deadline = 0.0
        self.settled = False
        self.outcome: Any = None
        self.error: BaseException | None = None

    @property
    def dropped(self) -> bool:
        return self.droppable and self.future is not None and self.future.cancelled()

    def settle(self, outcome: Any, error: BaseException | None = None) -> None:
        self.settled, self.outcome, self.error = True, outcome, error
        future = self.future
        if future is None or future.done():
            return
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)


class Writer:
    """Writes in the thread of the event loop: a transaction takes less time than a change of threads.

    The first operation of a turn leads: its task lets the others have their turn, then writes for all of them.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: list[_Waiting] = []

    async def commit(self, op: Op[T], *, droppable: bool = False, if_lost: Callable[[], None] | None = None) -> T:
        """The outcome of the operation, once it is committed.

        A caller that is cancelled before the write does not stop it, unless the operation is droppable; `if_lost` is
        called when the caller is cancelled after the write but before it could hear of it.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and not self._loop.is_closed():
                return self._database.run(op)
            self.drain()
            self._loop = loop
        if self._queue:
            waiting = _Waiting(op, loop.create_future(), droppable)
            self._queue.append(waiting)
        else:
            waiting = _Waiting(op, None, droppable)
            self._queue.append(waiting)
            await self._lead(waiting)
            if not waiting.settled:
                waiting.future = loop.create_future()
        if waiting.future is not None:
            await self._follow(waiting, waiting.future, if_lost)
        if waiting.error is not None:
            raise waiting.error
        return waiting.outcome

    async def _lead(self, waiting: _Waiting) -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if waiting.droppable:
                self._queue.remove(waiting)
            self._flush()
            raise
        self._flush()

    async def _follow(
        self, waiting: _Waiting, future: asyncio.Future[Any], if_lost: Callable[[], None] | None
    ) -> None:
        try:
            await future
        except asyncio.CancelledError:
            if if_lost is not None and waiting.settled and waiting.error is None:
                if_lost()
            raise

    def drain(self) -> None:
        """Write what waits now, without the event loop."""
        while self._queue:
            waiting = self._queue.pop(0)
            if not waiting.dropped:
                with suppress(HoldfastError):
                    self._database.run(waiting.op)

    def _flush(self) -> None:
        while self._queue:
            batch = self._take()
            try:
                outcomes = self._database.write([waiting.op for waiting in batch])
            except Locked as error:
                if self._retry_later(batch):
                    return
                _fail(batch, error)
            except Exception as error:
                if len(batch) == 1:
                    _fail(batch, error)
                else:
                    for waiting in batch:
                        waiting.alone = True
                    self._queue[:0] = batch
            except BaseException as error:
                _fail(batch, error)
                raise
            else:
                for waiting, outcome in zip(batch, outcomes, strict=True):
                    waiting.settle(outcome)

    def _take(self) -> list[_Waiting]:
        if self._queue[0].alone:
            return [self._queue.pop(0)]
        batch, self._queue = self._queue, []
        return [waiting for waiting in batch if not waiting.dropped]

    def _retry_later(self, batch: list[_Waiting]) -> bool:
        """Whether there is still time; the batch then leads the queue, and the loop is free meanwhile."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for waiting in batch:
            waiting.deadline = waiting.deadline or now + PATIENCE
        if not batch or now > batch[0].deadline:
            return False
        self._queue[:0] = batch
        loop.call_later(_PAUSE, self._flush)
        return True


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        waiting.settle(None, error)
