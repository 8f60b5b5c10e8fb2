"""Daemon threads for blocking functions. One that never returns is abandoned; it keeps no process alive."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, Final

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
        future.set_exception(RuntimeError(f"the tool raised {type(error).__name__}"))
    else:
        future.set_exception(error)
