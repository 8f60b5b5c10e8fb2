"""Group commit: writes of one event loop iteration share one transaction, or two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from holdfast.contract.errors import HoldfastError
from holdfast.store.database import LOCK_TIMEOUT, Database, DatabaseLocked, Op

T = TypeVar("T")
_PAUSE: Final = 0.005
"""Seconds between retries on a locked database; the event loop is free in between."""
_MAX_TURN: Final = 0.001
"""Seconds for which a task may keep writing immediately, before its writes are queued like those of other tasks."""


class _QueuedWrite:
    __slots__ = ("alone", "deadline", "droppable", "future", "op")

    def __init__(self, op: Op[Any], future: asyncio.Future[Any], droppable: bool) -> None:
        self.op = op
        self.future = future
        self.droppable = droppable
        self.alone = False
        """Retried in a transaction of its own after a shared one failed, so that only the culprit fails."""
        self.deadline = 0.0

    @property
    def dropped(self) -> bool:
        return self.droppable and self.future.cancelled()


class GroupCommitWriter:
    """Writes in the event loop's thread, because a transaction takes less time than a thread switch.

    The first operation of a loop iteration is committed immediately, because it may be the only one. The others are
    committed together at the end of the iteration. The task that wrote first may keep writing immediately: its own
    writes cannot overtake each other.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first: asyncio.Task[Any] | None = None
        self._turn_ends = 0.0
        self._queue: list[_QueuedWrite] = []
        self._locked = False

    async def commit(self, op: Op[T], *, droppable: bool = False, if_lost: Callable[[], None] | None = None) -> T:
        """Return the result of the operation after its commit.

        Cancelling the caller does not stop a queued write, unless it is `droppable`. `if_lost` is called if the caller
        is cancelled after the commit but before it got the result.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop and not self._adopt(loop):
            return self._database.run(op)
        if not self._queue and self._may_go_first(loop):
            with suppress(DatabaseLocked):
                return self._database.write([op])[0]
        future: asyncio.Future[T] = loop.create_future()
        self._queue.append(_QueuedWrite(op, future, droppable))
        if if_lost is None:
            return await future
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:
                if_lost()
            raise

    def drain(self) -> None:
        """Commit all queued writes now, without the event loop."""
        while self._queue:
            write = self._queue.pop(0)
            if not write.dropped:
                with suppress(HoldfastError):
                    self._database.run(write.op)

    def _adopt(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Switch to this event loop, unless the current one is still open."""
        if self._loop is not None and not self._loop.is_closed():
            return False
        self.drain()
        self._loop, self._first, self._locked = loop, None, False
        return True

    def _may_go_first(self, loop: asyncio.AbstractEventLoop) -> bool:
        task = asyncio.current_task(loop)
        if self._first is None:
            self._first = task
            self._turn_ends = loop.time() + _MAX_TURN
            loop.call_soon(self._turn_over)
            return True
        return self._first is task and loop.time() < self._turn_ends

    def _turn_over(self) -> None:
        self._first = None
        if self._queue and not self._locked:
            self._flush()

    def _flush(self) -> None:
        self._locked = False
        while self._queue:
            batch = self._take()
            try:
                outcomes = self._database.write([write.op for write in batch])
            except DatabaseLocked as error:
                if self._retry_later(batch):
                    return
                _fail(batch, error)
            except Exception as error:
                if len(batch) == 1:
                    _fail(batch, error)
                else:
                    for write in batch:
                        write.alone = True
                    self._queue[:0] = batch
            except BaseException as error:
                _fail(batch, error)
                raise
            else:
                for write, outcome in zip(batch, outcomes, strict=True):
                    if not write.future.done():
                        write.future.set_result(outcome)

    def _take(self) -> list[_QueuedWrite]:
        if self._queue[0].alone:
            return [self._queue.pop(0)]
        batch, self._queue = self._queue, []
        return [write for write in batch if not write.dropped]

    def _retry_later(self, batch: list[_QueuedWrite]) -> bool:
        """Put the batch back at the head of the queue and schedule a retry; False if its time is up."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for write in batch:
            write.deadline = write.deadline or now + LOCK_TIMEOUT
        if not batch or now > batch[0].deadline:
            return False
        self._queue[:0] = batch
        self._locked = True
        loop.call_later(_PAUSE, self._flush)
        return True


def _fail(batch: Sequence[_QueuedWrite], error: BaseException) -> None:
    for write in batch:
        if not write.future.done():
            write.future.set_exception(error)
