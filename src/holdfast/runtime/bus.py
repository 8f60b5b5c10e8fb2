"""The event bus. A subscriber that does not keep up loses events, counted; it never slows a call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.contract.event import Event

QUEUE_LIMIT: Final = 256


class Subscription:
    """An async iterator over events. The oldest are dropped when `limit` are waiting; `dropped` counts them."""

    __slots__ = ("_bus", "_closed", "_queue", "_waiter", "dropped", "limit")

    def __init__(self, bus: Bus, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._bus = bus
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
        """Everything that is waiting now."""
        events = list(self._queue)
        self._queue.clear()
        return events

    def close(self) -> None:
        self._closed = True
        self._bus.remove(self)
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


class Bus:
    """Hands every event to every subscriber, in the thread of the event loop."""

    __slots__ = ("idle", "listeners", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions: tuple[Subscription, ...] = ()
        self.listeners: tuple[Callable[[Event], None], ...] = ()
        self.idle = True
        """Nobody is watching, so that events need not be made. A plain attribute: it is read many times a call."""

    def subscribe(self, limit: int = QUEUE_LIMIT) -> Subscription:
        subscription = Subscription(self, limit)
        self._set((*self.subscriptions, subscription), self.listeners)
        return subscription

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call a quick function for each event; returns the function that stops it."""
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
                import logging

                logging.getLogger("holdfast").exception("An event listener failed and was skipped.")
