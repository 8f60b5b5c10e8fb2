"""Running a coroutine so that it can always be stopped.

The first step runs in place: what finishes without waiting costs no task and no timer. What waits is driven by
hand from then on, so that a deadline or a cancel ends it even if it swallows the cancellation: it is asked
(CancelledError), given a grace, then closed, and never stepped again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
from collections.abc import Callable, Coroutine, Generator
from enum import StrEnum
from time import monotonic
from types import coroutine
from typing import Any, Final

GRACE_SECONDS: Final = 1.0
_unclosable: Final[list[Coroutine[Any, Any, Any]]] = []
"""Coroutines that refused to be closed; kept, because finalising them would raise again."""


class StopReason(StrEnum):
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class WorkStopped(Exception):
    """The work was ended by a deadline or by a person, not by itself."""

    def __init__(self, why: StopReason, value: Any = None) -> None:
        self.reason = why
        self.value = value
        """What the work returned when it was asked to end."""
        super().__init__(why.value)


class OutcomeUnknown(Exception):
    """The process that did the work is gone and said nothing."""


class RelayedError(Exception):
    """What a function raised where it cannot be passed on: as it is told, with the original as its cause or a note."""


class DriverClosed(Exception):
    """The coroutine that waits for the work was closed from outside."""


class CancelScope:
    """A call that waits for something, and the means to stop it."""

    __slots__ = (
        "_grace",
        "_left",
        "_loop",
        "_task",
        "_timer",
        "abandoned",
        "callbacks",
        "cancel_requests",
        "longest_step",
        "reason",
    )

    def __init__(self, callbacks: list[Callable[[], None]]) -> None:
        self.reason: StopReason | None = None
        self.abandoned = False
        self.cancel_requests = 0
        self.longest_step = 0.0
        """Seconds for which the work kept the event loop to itself."""
        self.callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._timer: asyncio.TimerHandle | None = None
        self._left: float | None = None
        self._grace: asyncio.TimerHandle | None = None

    def deadline(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self.stop, StopReason.TIMEOUT)

    def pause(self) -> None:
        """Stop the clock, for as long as a person is waited for."""
        if self._timer is not None and self.reason is None:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
            self._timer = None

    def resume(self) -> None:
        """Let the clock run again, with the time that was left."""
        if self._left is not None and self.reason is None:
            self.deadline(self._left)
            self._left = None

    @property
    def loop_closed(self) -> bool:
        """The event loop was closed in mid-call: the work is never stepped again, and cannot be asked to end."""
        return self._loop.is_closed()

    def stop(self, why: StopReason = StopReason.CANCELLED) -> None:
        """Ask the work to end, and make it after a grace. Only the first request counts."""
        if self.reason is not None:
            return
        self.reason = why
        self.run_callbacks()
        self._grace = self._loop.call_later(GRACE_SECONDS, self._force)
        self._cancel()

    def run_callbacks(self) -> None:
        """Tell the tool that its call is over, so that it ends what it started elsewhere."""
        for callback in self.callbacks:
            try:
                callback()
            except Exception:
                _log_failed_callback()

    def _force(self) -> None:
        self.abandoned = True
        self._cancel()

    def _cancel(self) -> None:
        self.cancel_requests += 1
        self._task.cancel()

    def uncancel(self) -> bool:
        """Take back our own cancellations; True if somebody else also wants the task cancelled."""
        for timer in (self._timer, self._grace):
            if timer is not None:
                timer.cancel()
        others = self._task.cancelling() - self.cancel_requests
        while self.cancel_requests:
            self.cancel_requests -= 1
            self._task.uncancel()
        return others > 0


def _log_failed_callback() -> None:
    logging.getLogger("holdfast").exception("A cancel callback of a tool failed.")


async def drive(work: Coroutine[Any, Any, Any], waited: Any, running: CancelScope) -> Any:
    """Drive a started coroutine to its end, or raise `Stopped`. `waited` is what its first step waits for."""
    try:
        value = await _drive(work, waited, running)
    except BaseException as error:
        if running.reason is None or running.uncancel():
            raise
        raise WorkStopped(running.reason) from error
    finally:
        running.uncancel()
    if running.reason is not None:
        raise WorkStopped(running.reason, value)
    return value


@coroutine
def _drive(work: Coroutine[Any, Any, Any], waited: Any, running: CancelScope) -> Generator[Any, Any, Any]:
    while True:
        try:
            sent = yield waited
        except GeneratorExit:
            _close(work)
            raise DriverClosed from None
        except BaseException as error:
            if running.abandoned:
                _close(work)
                raise
            try:
                waited = work.throw(error)
            except StopIteration as stop:
                return stop.value
        else:
            begun = monotonic()
            try:
                waited = work.send(sent)
            except StopIteration as stop:
                return stop.value
            finally:
                running.longest_step = max(running.longest_step, monotonic() - begun)


def _close(work: Coroutine[Any, Any, Any]) -> None:
    try:
        work.close()
    except BaseException:
        _unclosable.append(work)


_IDLE_SECONDS: Final = 30.0
_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class ThreadPool:
    """As many threads as there are blocking calls at once; idle ones are used again."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def work() -> Any:
            return context.run(function, *args)

        with self._lock:
            if self._idle:
                self._idle -= 1
                fresh = False
            else:
                fresh = True
        self._jobs.put((work, loop, future))
        if fresh:
            threading.Thread(target=self._serve, name="holdfast-tool", daemon=True).start()
        return await future

    def _serve(self) -> None:
        while True:
            try:
                work, loop, future = self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return
                continue
            try:
                outcome, error = work(), None
            except BaseException as raised:
                outcome, error = None, raised
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(_deliver, future, outcome, error)
            except RuntimeError:  # the loop has been closed: nobody waits any more
                continue
            del work, future, outcome, error


def _deliver(future: asyncio.Future[Any], outcome: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(outcome)
    elif isinstance(error, StopIteration | asyncio.CancelledError):
        raised = RelayedError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        raised.__cause__ = error  # neither can be raised through a future as it is
        future.set_exception(raised)
    else:
        future.set_exception(error)
