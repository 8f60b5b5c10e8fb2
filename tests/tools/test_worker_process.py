"""A worker process whose call is cancelled is killed, and its pipes are closed when no thread uses them any more."""

from __future__ import annotations

import asyncio
import os
import select
from threading import Event

import pytest

from holdfast.tools.extraction.extractor import Extractor
from tests.runtime.support import run
from tests.tools.extraction.test_extractor import PAGE

pytestmark = pytest.mark.spec("B6d", "B11e")


def test_a_cancelled_page_closes_its_pipes_only_when_no_thread_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, may_read = Event(), Event()
    used: dict[int, int] = {}
    """The inode of each pipe: another file can get the number of a closed one."""

    class HeldPoll:
        """Stops the thread between the choice of a descriptor and its use."""

        def __init__(self) -> None:
            self._poll = real_poll()

        def register(self, descriptor: int, event: int) -> None:
            used[descriptor] = os.fstat(descriptor).st_ino
            self._poll.register(descriptor, event)
            if event == select.POLLIN:
                waits.set()
                assert may_read.wait(60)

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            return self._poll.poll(milliseconds)

    def still_open() -> list[bool]:
        return [_inode(descriptor) == inode for descriptor, inode in used.items()]

    async def work() -> None:
        extractor = Extractor()
        task = asyncio.create_task(extractor.ask(PAGE, b"<p>x", 60))
        assert await asyncio.to_thread(waits.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        try:
            assert still_open() == [True, True]
        finally:
            may_read.set()
        async with asyncio.timeout(60):
            await asyncio.get_running_loop().shutdown_default_executor()  # joins the thread
        assert still_open() == [False, False]
        extractor.close()

    real_poll = select.poll
    monkeypatch.setattr("holdfast.tools.worker_process.select.poll", HeldPoll)
    run(work())


def _inode(descriptor: int) -> int | None:
    try:
        return os.fstat(descriptor).st_ino
    except OSError:
        return None
