"""The end of the output of each running call is kept, and a reader is told what it missed."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.enums import State
from holdfast.contract.event import Finished, Output, Progress, Started
from holdfast.contract.result import ok
from holdfast.runtime.runtime import Runtime
from holdfast.serve import live_output
from holdfast.serve.live_output import MAX_ENDED, TAIL_CHARS, LiveOutput, Tail


@given(st.lists(st.integers(0, TAIL_CHARS * 2), max_size=20), st.integers(0, TAIL_CHARS * 3))
def test_a_tail_has_the_last_characters_and_counts_the_others(sizes: list[int], position: int) -> None:
    tail, printed = Tail(), ""
    for number, size in enumerate(sizes):
        tail.add(chr(65 + number) * size)
        printed += chr(65 + number) * size
    assert tail.end == len(printed)
    assert printed[tail.start :] == tail.since(0)[0]
    assert len(tail.since(0)[0]) >= min(len(printed), TAIL_CHARS)
    assert len(tail.since(0)[0]) < TAIL_CHARS * 3
    text, dropped = tail.since(min(position, len(printed)))
    assert text == printed[min(position, len(printed)) + dropped :]


def test_output_progress_and_the_end_of_calls_are_followed() -> None:
    async def body() -> None:
        output = LiveOutput()
        async with Runtime() as runtime:
            output.listen("p", runtime)
            emit = runtime.events.emit
            emit(Output("never started", "text", "g"))
            emit(Started("c", "shell.exec"))
            waiting = asyncio.create_task(output.wait(output.count, 30))
            await asyncio.sleep(0)
            emit(Output("c", "one ", "c"))
            assert await waiting == output.count
            emit(Output("c", "two", "c"))
            emit(Progress("c", "half"))
            tail = output.tail(("p", "c"))
            assert tail is not None
            assert (tail.since(4), tail.progress, tail.state) == (("two", 0), "half", "")
            emit(Finished("c", ok("done"), State.DONE))
            assert tail.state == "done"
            assert list(output.tails()) == [("p", "c")]

    asyncio.run(body())


def test_what_is_kept_of_ended_calls_is_bounded() -> None:
    async def body() -> None:
        output = LiveOutput()
        async with Runtime() as runtime:
            output.listen("p", runtime)
            for number in range(MAX_ENDED * 2):
                runtime.events.emit(Started(f"c{number}", "t"))
                runtime.events.emit(Finished(f"c{number}", ok(""), State.DONE))
        assert len(output.tails()) == live_output.MAX_ENDED

    asyncio.run(body())
