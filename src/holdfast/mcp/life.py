"""Time, as connections see it: clocks, one life of a server, and how long its start may take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from holdfast.contract.errors import HoldfastError

if TYPE_CHECKING:
    from mcp import Client


class Clock(Protocol):
    """Time, as the restarts see it."""

    def now(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class LoopClock:
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Life:
    """From one start of a server to its end."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.gone = False
        self.reason = ""
        self.stale = False
        self.wake = asyncio.Event()
        self.over = asyncio.Event()
        self.loop = asyncio.get_running_loop()

    def lose(self, reason: str) -> None:
        """Nothing more will come from the server."""
        self.reason = self.reason or reason
        self.gone = True
        self.over.set()
        self.wake.set()

    def refresh(self) -> None:
        """The list of tools is not what it was."""
        self.stale = True
        self.wake.set()

    async def rest(self, clock: Clock, seconds: float) -> None:
        """Sleep, unless the server is gone before that."""
        waits = [asyncio.ensure_future(wait) for wait in (clock.sleep(seconds), self.over.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class Start:
    """How long a server may take to be ready: while a person logs in, that time does not run."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._limit: asyncio.Timeout | None = None
        self._left = 0.0
        self._waiting = 0

    @property
    def ends_at(self) -> float | None:
        """By the clock of the loop; None while it does not run."""
        return None if self._limit is None else self._limit.when()

    @asynccontextmanager
    async def bounded(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(self._seconds) as self._limit:
                yield
        except TimeoutError:
            raise HoldfastError(f"it was not ready after {self._seconds:g} s") from None
        finally:
            self._limit = None

    def hold(self, waiting: bool) -> None:
        """A person is waited for, or not any more."""
        limit, self._waiting = self._limit, self._waiting + (1 if waiting else -1)
        if limit is None:
            return
        now = asyncio.get_running_loop().time()
        with suppress(RuntimeError):  # it is over already
            if waiting and (when := limit.when()) is not None:
                self._left = max(0.0, when - now)
                limit.reschedule(None)
            elif not self._waiting:
                limit.reschedule(now + self._left)
