"""Events for subscribers, log messages, warnings, and OpenTelemetry spans.

There is no back-pressure: a subscriber that does not keep up loses its oldest events, which are counted.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from holdfast.contract.event import Event, WarningRaised
from holdfast.contract.result import Result
from holdfast.store.redact import Redactor

QUEUE_LIMIT: Final = 256
_LOG: Final = logging.getLogger("holdfast")


class Subscription:
    """An async iterator over events. It queues up to `limit` and then drops the oldest; `dropped` counts those."""

    __slots__ = ("_closed", "_events", "_queue", "_waiter", "dropped", "limit")

    def __init__(self, events: Events, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._events = events
        self._queue: deque[Event] = deque(maxlen=limit)
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def put(self, event: Event) -> None:
        if len(self._queue) == self.limit:
            self.dropped += 1
        self._queue.append(event)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def take(self) -> list[Event]:
        """Return and remove all queued events."""
        events = list(self._queue)
        self._queue.clear()
        return events

    def close(self) -> None:
        self._closed = True
        self._events.remove(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Event:
        while not self._queue:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._queue.popleft()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Events:
    """Passes every event to every subscriber, in the thread of the event loop."""

    __slots__ = ("_redactor", "_thread", "idle", "listeners", "loop", "subscriptions")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that calls run in. A plain attribute for speed, like `idle`."""
        self._thread = 0
        self.subscriptions: tuple[Subscription, ...] = ()
        self.listeners: tuple[Callable[[Event], None], ...] = ()
        self.idle = True
        """There are no subscribers, so events need not be created. A plain attribute: read many times per call."""

    def use_running_loop(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def subscribe(self, limit: int = QUEUE_LIMIT) -> Subscription:
        subscription = Subscription(self, limit)
        self._set((*self.subscriptions, subscription), self.listeners)
        return subscription

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a function for each event; it must not block. Returns a function that removes it."""
        self._set(self.subscriptions, (*self.listeners, listener))

        def stop() -> None:
            self._set(self.subscriptions, tuple(item for item in self.listeners if item is not listener))

        return stop

    def remove(self, subscription: Subscription) -> None:
        self._set(tuple(item for item in self.subscriptions if item is not subscription), self.listeners)

    def close(self) -> None:
        """End every subscription."""
        for subscription in self.subscriptions:
            subscription.close()

    def _set(self, subscriptions: tuple[Subscription, ...], listeners: tuple[Callable[[Event], None], ...]) -> None:
        self.subscriptions, self.listeners = subscriptions, listeners
        self.idle = not subscriptions and not listeners

    def emit(self, event: Event) -> None:
        for subscription in self.subscriptions:
            subscription.put(event)
        for listener in self.listeners:
            try:
                listener(event)
            except Exception:
                _LOG.exception("An event listener failed.")

    def emit_from_anywhere(self, event: Event) -> None:
        """Emit from the loop's thread or from a tool's thread."""
        if threading.get_ident() == self._thread or self.loop is None:
            self.emit(event)
        else:
            self.loop.call_soon_threadsafe(self.emit, event)

    def log(self, message: str) -> None:
        _LOG.info("%s", self._redactor(message))

    def warn(self, message: str) -> None:
        """Warn in the log and as an event."""
        clean = self._redactor(message)
        _LOG.warning("%s", clean)
        self.emit_from_anywhere(WarningRaised("", clean))

    def notice(self, message: str) -> None:
        """Send a message to subscribers, but not to the log."""
        self.emit(WarningRaised("", message))

    def tool_raised(self, tool: str, call_id: str, error: BaseException) -> None:
        """Log an exception of a tool with its traceback; the log record has an attribute `call_id`."""
        lines = "".join(traceback.format_exception(error))
        # Lone surrogates are escaped: a log file could not be written with them.
        clean = self._redactor(lines).encode("utf-8", "backslashreplace").decode()
        message = f"Tool '{tool}' raised {type(error).__name__} in call {call_id}."
        if clean == lines:
            _LOG.error("%s", message, exc_info=error, extra={"call_id": call_id})
        else:
            _LOG.error("%s\n%s", message, clean, extra={"call_id": call_id})

    def internal_error(self, error: Exception) -> None:
        """Log an exception of holdfast itself with its traceback."""
        _LOG.error("A call failed inside holdfast; please report this.", exc_info=error)


class Telemetry:
    """Wraps calls in OpenTelemetry spans with the GenAI semantic conventions.

    Arguments and outputs are not recorded, because they may be private.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @classmethod
    def find(cls) -> Telemetry | None:
        """Return an instance if the program has imported the OpenTelemetry SDK."""
        if "opentelemetry.sdk.trace" not in sys.modules:
            return None
        from opentelemetry import trace  # pyright: ignore[reportMissingImports]

        return cls(trace.get_tracer("holdfast"))  # pyright: ignore

    async def span(self, name: str, call_id: str, work: Awaitable[Result]) -> Result:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call_id,
            "gen_ai.tool.type": "function",
        }
        with self._tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes) as span:
            result = await work
            span.set_attribute("holdfast.state", result.state.value)
            if not result.success:
                from opentelemetry.trace import Status, StatusCode  # pyright: ignore[reportMissingImports]

                kind = result.failure.value if result.failure else "failed"
                span.set_attribute("error.type", kind)
                span.set_status(Status(StatusCode.ERROR, kind))  # pyright: ignore
            return result
