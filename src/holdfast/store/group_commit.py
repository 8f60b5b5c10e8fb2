"""Group commit: what one turn of the event loop asks for is written in one transaction, or two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from holdfast.contract.errors import HoldfastError
from holdfast.store.database import LOCK_TIMEOUT, Database, DatabaseLocked, Op

T = TypeVar("T")
_PAUSE: Final = 0.005
"""Seconds until a locked database is tried again; the event loop is free meanwhile."""
_MAX_TURN: Final = 0.001
"""Seconds a task may go on writing before it lets others have their turn."""


class _Waiting:
    __slots__ = ("alone", "deadline", "droppable", "future", "op")

    def __init__(self, op: Op[Any], future: asyncio.Future[Any], droppable: bool) -> None:
        self.op = op
        self.future = future
        self.droppable = droppable
        self.alone = False
        """It was in a transaction that failed: it is tried again in one of its own, so that only the culprit fails."""
        self.deadline = 0.0

    @property
    def dropped(self) -> bool:
        return self.droppable and self.future.cancelled()


class GroupCommitWriter:
    """Writes in the thread of the event loop: a transaction takes less time than a change of threads.

    The first operation in a turn of the loop is written at once, because nobody may follow. The others of the same
    turn are written together when it is over. A task that wrote first goes on at once: it cannot overtake itself.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first: asyncio.Task[Any] | None = None
        self._turn_ends = 0.0
        self._queue: list[_Waiting] = []
        self._locked = False

    async def commit(self, op: Op[T], *, droppable: bool = False, if_lost: Callable[[], None] | None = None) -> T:
        """The outcome of the operation, once it is committed.

        A caller that is cancelled before the write does not stop it, unless the operation is droppable; `if_lost` is
        called when the caller is cancelled after the write but before it could hear of it.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop and not self._adopt(loop):
            return self._database.run(op)
        if not self._queue and self._may_go_first(loop):
            with suppress(DatabaseLocked):
                return self._database.write([op])[0]
        future: asyncio.Future[T] = loop.create_future()
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
            if not waiting.dropped:
                with suppress(HoldfastError):
                    self._database.run(waiting.op)

    def _adopt(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Serve this loop from now on, unless another one that still lives is served."""
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
                outcomes = self._database.write([waiting.op for waiting in batch])
            except DatabaseLocked as error:
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
        batch, self._queue = self._queue, []
        return [waiting for waiting in batch if not waiting.dropped]

    def _retry_later(self, batch: list[_Waiting]) -> bool:
        """Whether there is still time; the batch then goes to the head of the queue."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for waiting in batch:
            waiting.deadline = waiting.deadline or now + LOCK_TIMEOUT
        if not batch or now > batch[0].deadline:
            return False
        self._queue[:0] = batch
        self._locked = True
        loop.call_later(_PAUSE, self._flush)
        return True


def _fail(batch: Sequence[_Waiting], error: BaseException) -> None:
    for waiting in batch:
        if not waiting.future.done():
            waiting.future.set_exception(error)
