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
    __slots__ = ("alone", "deadline", "droppable", "future", "op")

    def __init__(self, op: Op[Any], future: asyncio.Future[Any], droppable: bool) -> None:
        self.op = op
        self.future = future
        self.droppable = droppable
        self.alone = False
        """It was in a transaction that failed: it is tried again in one of its own, so that only the culprit fails."""
        self.deadline = 0.0


class Writer:
    """Writes in the thread of the event loop: a transaction takes less time than a change of threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: list[_Waiting] = []

    async def commit(
        self, op: Op[T], *, droppable: bool = False, if_lost: Callable[[], None] | None = None
    ) -> T:
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
        future: asyncio.Future[T] = loop.create_future()
        if not self._queue:
            loop.call_soon(self._flush)
        self._queue.append(_Waiting(op, future, droppable))
        if if_lost is None:
            return await future
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:
                if_lost()
            raise

    def drain(self) -> None:
        """Write what waits now, without the event loop."""
        while self._queue:
            waiting = self._queue.pop(0)
            if not (waiting.droppable and waiting.future.cancelled()):
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
                    if not waiting.future.done():
                        waiting.future.set_result(outcome)

    def _take(self) -> list[_Waiting]:
        if self._queue[0].alone:
            return [self._queue.pop(0)]
        batch = [waiting for waiting in self._queue if not (waiting.droppable and waiting.future.cancelled())]
        self._queue = []
        return batch

    def _retry_later(self, batch: list[_Waiting]) -> bool:
        loop = batch[0].future.get_loop()
        now = loop.time()
        for waiting in batch:
            waiting.deadline = waiting.deadline or now + PATIENCE
        if now > batch[0].deadline:
            return False
        self._queue[:0] = batch
        loop.call_later(_PAUSE, self._flush)
        return True


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.future.done():
            waiting.future.set_exception(error)
