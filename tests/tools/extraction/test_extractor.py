"""Extraction processes: bounded in time, replaced after a crash, and ended with the runtime."""

from __future__ import annotations

import asyncio
import os

import pytest

from holdfast.tools.extraction.extractor import Extractor
from holdfast.tools.worker_process import WorkerFailed
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
            with pytest.raises(WorkerFailed, match="takes too long"):
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
            with pytest.raises(WorkerFailed, match="crashed or exceeded a limit"):
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
            with pytest.raises(WorkerFailed, match="its content is too long"):
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
