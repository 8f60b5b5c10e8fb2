"""Loads tools from asynchronous sources, each with a timeout, and signals when all sources have finished."""

from __future__ import annotations

import inspect
import sys
from asyncio import get_running_loop
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
        """Undo the registration. True the first time, then False."""
        undo, self._undo = self._undo, None
        if undo is None:
            return False
        undo()
        return True

    @staticmethod
    def compose(*handles: Handle | None) -> Handle:
        """Return one handle for several; they are removed in the given order."""

        def undo() -> None:
            for handle in handles:
                if handle is not None:
                    handle.remove()

        return Handle(undo)


class Register(Protocol):
    """The `register` function that a source receives; it accepts the same forms as `Registry.register`."""

    def __call__(self, what: object, definition: Any = None, /, *, replace: bool = False) -> Handle: ...


class Timer(Protocol):
    def cancel(self) -> object: ...


CallLater = Callable[[float, Callback], Timer]


class _PendingSource:
    """A source that has not finished."""

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
    """Runs sources with timeouts and notifies when all have finished. Thread-safe."""

    def __init__(
        self, warn: Callable[[str], None], *, default_timeout: float, call_later: CallLater | None = None
    ) -> None:
        self._warn = warn
        self._default_timeout = default_timeout
        self._call_later = call_later
        self._lock = RLock()
        self._pending: dict[_PendingSource, None] = {}
        self._waiting: dict[object, tuple[AbstractEventLoop | None, Callback]] = {}

    @property
    def pending(self) -> int:
        return len(self._pending)

    @property
    def ready(self) -> bool:
        return not self._pending

    def add(self, source: ToolSource, register: Register) -> Handle:
        """Add a source. It starts now if an event loop runs, otherwise with `start` or the first wait.

        The handle stops an unfinished source and removes all that it registered.
        """
        pending = _PendingSource(source, register, source.timeout or self._default_timeout)
        with self._lock:
            self._pending[pending] = None
        if (loop := _running_loop()) is not None:
            self._begin(pending, loop)
        return Handle(lambda: self._withdraw(pending))

    def start(self) -> None:
        """Start the sources that were added without an event loop. The current loop times those of an ended one."""
        loop = _running_loop()
        if loop is None:
            raise RuntimeError("Tool sources start inside a running event loop; await `start()` or `wait_ready()`.")
        for pending in tuple(self._pending):
            if pending.loop is None:
                self._begin(pending, loop)
            elif pending.loop is not loop:
                pending.loop = loop
                self._arm(pending, loop, max(0.0, pending.deadline - monotonic()))

    async def wait_ready(self) -> None:
        """Wait until no source is pending. Cancelling the wait does not stop the sources."""
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
        """Call once when no source is pending: on the current event loop, or directly if there is none."""
        loop = _running_loop()
        key = object()
        with self._lock:
            if not self.ready:
                self._waiting[key] = (loop, callback)
                return Handle(lambda: self._waiting.pop(key, None))
        self._call(loop, callback)
        return Handle()

    def stop(self) -> None:
        """Abandon every pending source. The tools that they have registered stay."""
        for pending in tuple(self._pending):
            self._finish(pending)
            self._cancel(pending)

    def _begin(self, pending: _PendingSource, loop: AbstractEventLoop) -> None:
        with self._lock:
            if pending.loop is not None or pending.finished:
                return
            pending.loop = loop
        pending.deadline = monotonic() + pending.timeout
        self._arm(pending, loop, pending.timeout)
        if inspect.iscoroutinefunction(pending.source.resolve):
            self._follow(pending, loop, None)
        else:
            Thread(target=self._run, args=(pending, loop), name=f"source {pending.source.label}", daemon=True).start()

    def _arm(self, pending: _PendingSource, loop: AbstractEventLoop, seconds: float) -> None:
        def expire() -> None:
            self._finish(pending, f"Timed out after {pending.timeout:g}s")
            self._cancel(pending)

        pending.timer = (self._call_later or loop.call_later)(seconds, expire)

    def _run(self, pending: _PendingSource, loop: AbstractEventLoop) -> None:
        """Run a synchronous source in a thread of its own, because it may block."""
        try:
            outcome = self._resolve(pending)
        except Exception as error:
            self._finish(pending, _describe(error))
            return
        if inspect.isawaitable(outcome):
            try:
                loop.call_soon_threadsafe(self._follow, pending, loop, outcome)
            except RuntimeError:
                self._finish(pending, "Cancelled")
                _close(outcome)

    def _follow(self, pending: _PendingSource, loop: AbstractEventLoop, rest: Awaitable[None] | None) -> None:
        """Run a coroutine source, or the awaitable that a synchronous source returned, as a task."""
        if pending.finished:
            _close(rest)
            return

        async def work() -> None:
            try:
                outcome = self._resolve(pending) if rest is None else rest
                if outcome is not None:
                    await outcome
            except Exception as error:
                self._finish(pending, _describe(error))

        def ended(task: Task[None]) -> None:
            if task.cancelled():
                self._finish(pending, "Cancelled")

        pending.task = loop.create_task(work())
        pending.task.add_done_callback(ended)

    def _resolve(self, pending: _PendingSource) -> Awaitable[None] | None:
        def register(what: object, definition: Any = None, /, *, replace: bool = False) -> Handle:
            handle = None if pending.finished else pending.register(what, definition, replace=replace)
            with self._lock:
                if handle is not None and not pending.finished:
                    pending.handles.append(handle)
                    return handle
            if handle is not None:
                handle.remove()
            self._warn(f"Tool source '{pending.source.label}' registered a tool after it had finished; ignored.")
            return Handle()

        def done(error: object = None) -> None:
            self._finish(pending, None if error is None else _describe(error))

        return pending.source.resolve(register, done)

    def _finish(self, pending: _PendingSource, error: str | None = None) -> None:
        with self._lock:
            if pending.finished:
                return
            pending.finished = True
        # The warning comes before readiness, so that callers waiting for `ready` can already read it.
        if error is not None:
            self._warn(f"Tool source '{pending.source.label}': {error}")
        if pending.timer is not None:
            self._call(pending.loop, pending.timer.cancel)
        with self._lock:
            self._pending.pop(pending, None)
            callbacks = list(self._waiting.values()) if self.ready else []
            if callbacks:
                self._waiting.clear()
        for loop, callback in callbacks:
            self._call(loop, callback)

    def _withdraw(self, pending: _PendingSource) -> None:
        self._finish(pending)
        self._cancel(pending)
        for handle in pending.handles:
            handle.remove()

    def _cancel(self, pending: _PendingSource) -> None:
        if pending.task is not None:
            self._call(pending.loop, pending.task.cancel)

    def _call(self, loop: AbstractEventLoop | None, callback: Callable[[], object]) -> None:
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(callback)
                return
        try:
            callback()
        except Exception as error:
            self._warn(f"A callback of the tool registry failed: {_describe(error)}")


def _running_loop() -> AbstractEventLoop | None:
    # A program that never imported asyncio has no loop; do not pay for the import to find out.
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


def _describe(error: object) -> str:
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
