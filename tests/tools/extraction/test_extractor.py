"""Extraction processes: bounded in time, replaced after a crash, and ended with the runtime."""

from __future__ import annotations

import asyncio
import os
import select
from threading import Event

import pytest

from holdfast.tools.extraction.extractor import ExtractionFailed, Extractor
from tests.runtime.support import run

pytestmark = pytest.mark.spec("B6d")

PAGE = {"do": "render", "kind": "html", "mode": "text", "content_type": "text/html", "url": "http://a/", "find": None}


def test_a_process_is_reused_and_ended() -> None:
    async def work() -> list[str]:
        extractor = Extractor()
        try:
            return [(await extractor.ask(PAGE, body, 60))["text"] for body in (b"<p>one", b"<p>two")]
        finally:
            [pid] = extractor.pids
            extractor.close()
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

    assert run(work()) == ["one", "two"]


def test_what_takes_too_long_is_killed_and_the_next_page_is_read() -> None:
    async def work() -> str:
        extractor = Extractor()
        try:
            await extractor.ask(PAGE, b"<p>warm", 60)
            with pytest.raises(ExtractionFailed, match="takes too long"):
                await extractor.ask({**PAGE, "mode": "readable"}, b"<p>x</p>" * 1_000_000, 0.05)
            assert not extractor.pids
            return (await extractor.ask(PAGE, b"<p>next", 60))["text"]
        finally:
            extractor.close()

    assert run(work()) == "next"


def test_a_crash_of_the_parser_is_one_result() -> None:
    async def work() -> str:
        extractor = Extractor()
        try:
            await extractor.ask(PAGE, b"<p>warm", 60)
            [pid] = extractor.pids
            task = asyncio.create_task(extractor.ask({**PAGE, "mode": "readable"}, b"<p>x</p>" * 3_000_000, 60))
            await asyncio.sleep(0)
            os.kill(pid, 9)
            with pytest.raises(ExtractionFailed, match="crashed or exceeded a limit"):
                await task
            return (await extractor.ask(PAGE, b"<p>next", 60))["text"]
        finally:
            extractor.close()

    assert run(work()) == "next"


def test_a_page_of_ten_megabytes_has_an_answer_and_a_larger_answer_is_refused() -> None:
    async def work() -> int:
        extractor = Extractor()
        source = {**PAGE, "kind": "text", "mode": "raw", "content_type": "text/plain; charset=latin-1"}
        try:
            with pytest.raises(ExtractionFailed, match="its text is too long"):
                await extractor.ask(source, b"\xe9" * 11_500_000, 60)
            return len((await extractor.ask(source, b"\xe9" * 10 * 1024 * 1024, 60))["text"])
        finally:
            extractor.close()

    assert run(work()) == 10 * 1024 * 1024


def test_a_cancelled_page_leaves_no_process() -> None:
    async def work() -> None:
        extractor = Extractor()
        await extractor.ask(PAGE, b"<p>warm", 60)
        [pid] = extractor.pids
        task = asyncio.create_task(extractor.ask({**PAGE, "mode": "readable"}, b"<p>x</p>" * 3_000_000, 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        extractor.close()

    run(work())


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
    monkeypatch.setattr("holdfast.tools.extraction.extractor.select.poll", HeldPoll)
    run(work())


def _inode(descriptor: int) -> int | None:
    try:
        return os.fstat(descriptor).st_ino
    except OSError:
        return None
