"""A controlled clock and a controlled source for the tests of sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


class Clock:
    """Timers that fire when the test says so."""

    def __init__(self) -> None:
        self.timers: list[FakeTimer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(seconds, callback)
        self.timers.append(timer)
        return timer


class FakeTimer:
    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds = seconds
        self.fire = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ControlledSource:
    """A source that stores `register` and `done` and finishes when the test says so."""

    def __init__(self) -> None:
        self.register: Any = None
        self.done: Any = None
        self.started = asyncio.Event()

    async def resolve(self, register: Any, done: Any) -> None:
        self.register, self.done = register, done
        self.started.set()
