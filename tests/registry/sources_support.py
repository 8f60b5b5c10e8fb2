"""What the tests of sources share: a clock that obeys, and a source that waits for its cue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 10))


class Clock:
    """Timers that go off when the test says so."""

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


class Held:
    """A source that keeps what it was given and finishes when the test says so."""

    def __init__(self) -> None:
        self.register: Any = None
        self.done: Any = None
        self.started = asyncio.Event()

    async def resolve(self, register: Any, done: Any) -> None:
        self.register, self.done = register, done
        self.started.set()
