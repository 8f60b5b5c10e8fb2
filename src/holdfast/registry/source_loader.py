"""Sources: tools that are found out later. Requests wait until every source has finished, one way or another."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import RLock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.registry.registration import ToolSource

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

WAITING_FOR_SOURCES: Final = "Waiting for tool definitions to load..."

Callback = Callable[[], None]


class Handle:
    """Undoes one registration, once."""

    __slots__ = ("_undo",)

    def __init__(self, undo: Callable[[], object] | None = None) -> None:
        self._undo = undo

    def remove(self) -> bool:
        """True the first time, False ever after."""
        undo, self._undo = self._undo, None
        if undo is None:
            return False
        undo()
        return True

    @staticmethod
    def compose(*handles: Handle | None) -> Handle:
        """One handle for several, removed in the order given; None is skipped."""

        def undo() -> None:
            for handle in handles:
                if handle is not None:
                    handle.remove()

        return Handle(undo)


class Register(Protocol):
    """`register`, as a source gets it: all the forms a registry takes."""

    def __call__(self, what: object, definition: Any = None, /, *, replace: bool = False) -> Handle: ...


class Timer(Protocol):
    def cancel(self) -> object: ...


CallLater = Callable[[float, Callback], Timer]


class _Loading:
    """One source on its way."""

    __slots__ = ("deadline", "finished", "handles", "loop", "register", "source", "task", "timeout", "timer")

    def __init__(self, source: ToolSource, register: Register, timeout: float) -> None:
        self.source = source
        self.register = register
        self.timeout = timeout
        self.finished = False
        self.handles: list[Handle] = []
        self.loop: AbstractEventLoop | None = None
        self.deadline = 0.0
        self.timer: Timer | None = None
        self.task: Task[None] | None = None


class SourceLoader:
    """Runs sources, bounds their time, and tells when all have finished. Safe to use from threads."""

    def __init__(
        self, warn: Callable[[str], None], *, default_timeout: float, call_later: CallLater | None = None
    ) -> None:
        self._warn = warn
        self._default_timeout = default_timeout
        self._call_later = call_later
        self._lock = RLock()
        self._pending: dict[_Loading, None] = {}
        self._waiting: dict[object, tuple[AbstractEventLoop | None, Callback]] = {}

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def ready(self) -> bool:
        return not self._pending

    def add(self, source: ToolSource, register: Register) -> Handle:
        """Start a source, at once inside a running loop, else with `start` or the first wait.

        The handle stops a source that has not finished and removes all that it registered.
        """
        loading = _Loading(source, register, source.timeout or self._default_timeout)
        with self._lock:
            self._pending[loading] = None
        if (loop := _running_loop()) is not None:
            self._begin(loading, loop)
        return Handle(lambda: self._withdraw(loading))

    def start(self) -> None:
        """Start what waits for a loop. Sources of a loop that is gone are timed by the one running now."""
        loop = _running_loop()
        if loop is None:
            raise RuntimeError("Tool sources start inside a running event loop; await `start()` or `wait_ready()`.")
        for loading in tuple(self._pending):
            if loading.loop is None:
                self._begin(loading, loop)
            elif loading.loop is not loop:
                loading.loop = loop
                self._arm(loading, loop, max(0.0, loading.deadline - monotonic()))

    async def wait_ready(self) -> None:
        """Until no source is pending. Giving up the wait does not stop the sources."""
        from asyncio import get_running_loop

        loop = get_running_loop()
        while not self.ready:
            self.start()
            woken = loop.create_future()
            handle = self.on_ready(lambda future=woken: None if future.done() else future.set_result(None))
            try:
                await woken
            finally:
                handle.remove()

    def on_ready(self, callback: Callback) -> Handle:
        """Call once when no source is pending: on the loop that runs now, or directly if there is none."""
        loop = _running_loop()
        key = object()
        with self._lock:
            if not self.ready:
                self._waiting[key] = (loop, callback)
                return Handle(lambda: self._waiting.pop(key, None))
        self._call(loop, callback)
        return Handle()

    def stop(self) -> None:
        """Give up every pending source; what they registered stays."""
        for loading in tuple(self._pending):
            self._finish(loading)
            self._cancel(loading)

    def _begin(self, loading: _Loading, loop: AbstractEventLoop) -> None:
        with self._lock:
            if loading.loop is not None or loading.finished:
                return
            loading.loop = loop
        loading.deadline = monotonic() + loading.timeout
        self._arm(loading, loop, loading.timeout)
        if inspect.iscoroutinefunction(loading.source.resolve):
            self._follow(loading, loop, None)
        else:
            Thread(target=self._run, args=(loading, loop), name=f"source {loading.source.label}", daemon=True).start()

    def _arm(self, loading: _Loading, loop: AbstractEventLoop, seconds: float) -> None:
        def expire() -> None:
            self._finish(loading, f"Timed out after {loading.timeout:g}s")
            self._cancel(loading)

        loading.timer = (self._call_later or loop.call_later)(seconds, expire)

    def _run(self, loading: _Loading, loop: AbstractEventLoop) -> None:
        """In a thread of its own, because a plain function may block."""
        try:
            outcome = self._resolve(loading)
        except Exception as error:
            self._finish(loading, _words(error))
            return
        if inspect.isawaitable(outcome):
            try:
                loop.call_soon_threadsafe(self._follow, loading, loop, outcome)
            except RuntimeError:
                self._finish(loading, "Cancelled")
                _close(outcome)

    def _follow(self, loading: _Loading, loop: AbstractEventLoop, rest: Awaitable[None] | None) -> None:
        """As a task on the loop: the whole source, or the rest that a plain function gave back."""
        if loading.finished:
            _close(rest)
            return

        async def work() -> None:
            try:
                outcome = self._resolve(loading) if rest is None else rest
                if outcome is not None:
                    await outcome
            except Exception as error:
                self._finish(loading, _words(error))

        def ended(task: Task[None]) -> None:
            if task.cancelled():
                self._finish(loading, "Cancelled")

        loading.task = loop.create_task(work())
        loading.task.add_done_callback(ended)

    def _resolve(self, loading: _Loading) -> Awaitable[None] | None:
        def register(what: object, definition: Any = None, /, *, replace: bool = False) -> Handle:
            handle = None if loading.finished else loading.register(what, definition, replace=replace)
            with self._lock:
                if handle is not None and not loading.finished:
                    loading.handles.append(handle)
                    return handle
            if handle is not None:
                handle.remove()
            self._warn(f"Tool source '{loading.source.label}' registered more after it had finished: ignored.")
            return Handle()

        def done(error: object = None) -> None:
            self._finish(loading, None if error is None else _words(error))

        return loading.source.resolve(register, done)

    def _finish(self, loading: _Loading, error: str | None = None) -> None:
        with self._lock:
            if loading.finished:
                return
            loading.finished = True
        # Whoever waits for readiness must find the warning when it comes.
        if error is not None:
            self._warn(f"Tool source '{loading.source.label}': {error}")
        if loading.timer is not None:
            self._call(loading.loop, loading.timer.cancel)
        with self._lock:
            self._pending.pop(loading, None)
            told = list(self._waiting.values()) if self.ready else []
            if told:
                self._waiting.clear()
        for loop, callback in told:
            self._call(loop, callback)

    def _withdraw(self, loading: _Loading) -> None:
        self._finish(loading)
        self._cancel(loading)
        for handle in loading.handles:
            handle.remove()

    def _cancel(self, loading: _Loading) -> None:
        if loading.task is not None:
            self._call(loading.loop, loading.task.cancel)

    def _call(self, loop: AbstractEventLoop | None, callback: Callable[[], object]) -> None:
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(callback)
                return
        try:
            callback()
        except Exception as error:
            self._warn(f"A callback of the tool registry failed: {_words(error)}")


def _running_loop() -> AbstractEventLoop | None:
    # A program that never imported asyncio has no loop, and need not pay for the import to learn that.
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _close(rest: object) -> None:
    if inspect.iscoroutine(rest):
        rest.close()


def _words(error: object) -> str:
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
