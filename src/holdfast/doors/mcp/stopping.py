"""Serving ends in order when the process is told to end: calls get their ends, and nothing is left half done."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def until_told(serving: Coroutine[Any, Any, None]) -> None:
    """Serve until that ends by itself or SIGTERM or SIGINT comes; a second signal does what it did before."""
    work = asyncio.create_task(serving)
    told = False

    def stop() -> None:
        nonlocal told
        told = True
        work.cancel()

    with _heard(stop):
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait((work,))
            raise
    if told:
        with suppress(asyncio.CancelledError):
            await work
    else:
        await work


@contextmanager
def _heard(stop: Callable[[], None]) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            if loop.remove_signal_handler(number) and handler is not None:
                signal.signal(number, handler)

    def heard() -> None:
        restore()
        stop()

    for number in _SIGNALS:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        restore()
