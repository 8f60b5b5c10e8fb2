"""Cancellation and timeouts: runs a coroutine so that it can always be stopped, and blocking functions in threads.

A coroutine is driven by hand, with `send` and `throw`, instead of as a task, for two reasons. Its first step runs in
place, so work that finishes without waiting costs no task and no timer. And a deadline or a cancel ends it even if it
swallows `CancelledError`: after the request it has a grace period, then it is closed and never stepped again.
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
"""Coroutines that raised in `close`. Kept alive, because the finalizer would call `close` again."""


class StopReason(StrEnum):
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class WorkStopped(Exception):
    """The work was ended by a deadline or a cancel, not by itself."""

    def __init__(self, reason: StopReason, value: Any = None) -> None:
        self.reason = reason
        self.value = value
        """What the work returned after it was asked to end."""
        super().__init__(reason.value)


class RelayedError(Exception):
    """Stands for an exception that cannot be raised here itself: its cause or note is the original."""


class DriverClosed(Exception):
    """The coroutine that waits for the work was closed from outside."""


class CancelScope:
    """Work in progress, with its deadline and the means to stop it."""

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
        """Why the work was asked to end, if it was."""
        self.abandoned = False
        """The grace period is over: the work is closed at its next step."""
        self.cancel_requests = 0
        """Cancellations of the task that this scope made."""
        self.longest_step = 0.0
        """Seconds for which the work blocked the event loop."""
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
        """Stop the clock while the work waits for a person."""
        if self._timer is not None and self.reason is None:
            self._left = max(0.0, self._timer.when() - self._loop.time())
            self._timer.cancel()
            self._timer = None

    def resume(self) -> None:
        """Restart the clock with the time that was left."""
        if self._left is not None and self.reason is None:
            self.deadline(self._left)
            self._left = None

    @property
    def loop_closed(self) -> bool:
        """Whether the event loop was closed during the call: the work will never be stepped again."""
        return self._loop.is_closed()

    def stop(self, reason: StopReason = StopReason.CANCELLED) -> None:
        """Ask the work to end, and force it after a grace period. Only the first request counts."""
        if self.reason is not None:
            return
        self.reason = reason
        self.run_callbacks()
        self._grace = self._loop.call_later(GRACE_SECONDS, self._force)
        self._cancel()

    def run_callbacks(self) -> None:
        """Run the tool's cancel callbacks, which end work it started elsewhere."""
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
        """Take back this scope's cancellations of the task; True if the task was also cancelled by others."""
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


async def drive(work: Coroutine[Any, Any, Any], waited: Any, scope: CancelScope) -> Any:
    """Drive a started coroutine to its end, or raise `WorkStopped`. `waited` is what its first step yielded."""
    try:
        value = await _drive(work, waited, scope)
    except BaseException as error:
        if scope.reason is None or scope.uncancel():
            raise
        raise WorkStopped(scope.reason) from error
    finally:
        scope.uncancel()
    if scope.reason is not None:
        raise WorkStopped(scope.reason, value)
    return value


@coroutine
def _drive(work: Coroutine[Any, Any, Any], waited: Any, scope: CancelScope) -> Generator[Any, Any, Any]:
    """Pass on what the event loop sends to `work` and what `work` yields to the event loop."""
    while True:
        try:
            sent = yield waited
        except GeneratorExit:
            _close(work)
            raise DriverClosed from None
        except BaseException as error:
            if scope.abandoned:
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
                scope.longest_step = max(scope.longest_step, monotonic() - begun)


def _close(work: Coroutine[Any, Any, Any]) -> None:
    try:
        work.close()
    except BaseException:
        _unclosable.append(work)


_IDLE_SECONDS: Final = 30.0
_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class ThreadPool:
    """Threads for blocking functions. It has no maximum size: a tool that never returns must not block the others."""

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
                needs_thread = False
            else:
                needs_thread = True
        self._jobs.put((work, loop, future))
        if needs_thread:
            threading.Thread(target=self._serve, name="holdfast-tool", daemon=True).start()
        return await future

    def _serve(self) -> None:
        while True:
            try:
                work, loop, future = self._jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                # If `_idle` is 0, `run` has counted on this thread and its job is about to arrive.
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
            except RuntimeError:  # the loop is closed: no one waits for the result
                continue
            del work, future, outcome, error  # an idle thread must not keep the last result alive


def _deliver(future: asyncio.Future[Any], outcome: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(outcome)
    elif isinstance(error, StopIteration | asyncio.CancelledError):
        # A future refuses StopIteration, and CancelledError would look like a cancellation of the caller.
        relayed = RelayedError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        relayed.__cause__ = error
        future.set_exception(relayed)
    else:
        future.set_exception(error)
