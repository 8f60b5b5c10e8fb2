"""Ctrl-C while a document advances: the first stops the turn and has it written, the second stops everything."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.doors.cli import screen
from holdfast.doors.cli.failures import INTERRUPTED
from holdfast.doors.cli.typing_in import show_typing

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Whether somebody wants us to stop, and what stops the work that runs now."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.cancel: Callable[[], object] | None = None
        """Set while a turn runs."""

    @property
    def pressed(self) -> bool:
        return self.wanted.is_set()

    def press(self) -> None:
        if self.pressed:
            show_typing()
            screen.note()
            os._exit(INTERRUPTED)  # the ledger is made for processes that end like this
        self.wanted.set()
        if self.cancel is not None:
            screen.note("\nStopping; Ctrl-C again stops at once.")
            self.cancel()

    async def ends(self, work: Coroutine[Any, Any, object]) -> None:
        """Until it is done, or somebody wants us to stop."""
        task, stop = asyncio.ensure_future(work), asyncio.ensure_future(self.wanted.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        finally:
            task.cancel()
            stop.cancel()
            await asyncio.gather(task, stop, return_exceptions=True)

    def forget(self) -> None:
        """The turn has stopped, and whoever waits for the next one may be stopped anew."""
        self.wanted.clear()

    @contextmanager
    def stops(self, cancel: Callable[[], object]) -> Generator[None]:
        """While this runs, the first press calls `cancel`."""
        self.cancel = cancel
        try:
            yield
        finally:
            self.cancel = None


@contextmanager
def interrupts() -> Generator[Interrupt]:
    """Takes the signals that ask us to stop, in the running loop."""
    loop = asyncio.get_running_loop()
    found = Interrupt()
    for number in _SIGNALS:
        loop.add_signal_handler(number, found.press)
    try:
        yield found
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
