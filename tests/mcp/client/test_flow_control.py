"""The streams of a transport, watched."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from holdfast.mcp.client import flow_control
from holdfast.mcp.client.flow_control import AS_LARGE, BURST, MAX_OWED, MAX_OWED_BYTES, RATE, flow_controlled
from tests.mcp.client.memory_transport import Streams
from tests.runtime.support import run

pytestmark = pytest.mark.spec("K1")


def _ask(number: int | str, **params: Any) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=number, method="ping", params=params)


def _answer(number: int | str, **result: Any) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=number, result=result)


def _note(method: str = "notifications/message", **params: Any) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=method, params=params)


def _through(*messages: Any) -> tuple[list[Any], list[str]]:
    lost: list[str] = []

    async def work() -> list[Any]:
        streams = Streams()
        async with flow_controlled(streams, lost.append) as (reading, writing), reading, writing:
            streams.put(*messages)
            streams.to_us.close()
            return [item.message async for item in reading]

    return run(work()), lost


def test_an_answer_that_does_not_say_so_is_complete() -> None:
    got, _ = _through(_answer(1, content=[]), _answer(2, resultType="input_required"))
    assert [message.result["resultType"] for message in got] == ["complete", "input_required"]


def test_the_end_is_told_once_it_is_seen() -> None:
    assert _through() == ([], [""])


def test_a_request_under_the_id_of_one_that_is_still_open_is_left_out() -> None:
    got, _ = _through(*map(_ask, (7, "7", 8, 7)))
    assert [message.id for message in got] == [7, 8]


@pytest.mark.parametrize(
    ("each", "most"),
    [({}, MAX_OWED), ({"text": "x" * 1024**2}, MAX_OWED_BYTES // 1024**2), ({"list": [0] * 50_000}, 6)],
)
def test_a_server_that_is_owed_much_is_not_read_before_something_is_answered(each: Any, most: int) -> None:
    async def work() -> None:
        streams = Streams()
        async with flow_controlled(streams, lambda reason: None) as (reading, writing), reading, writing:
            streams.put(*(_ask(number, **each) for number in range(most + 2)))
            for number in range(most):
                assert (await reading.receive()).message.id == number
            more = asyncio.create_task(reading.receive())
            await anyio.wait_all_tasks_blocked()
            assert not more.done()
            assert streams.to_us.statistics().current_buffer_used == 2
            await writing.send(SessionMessage(_answer(str(most - 1))))
            assert (await more).message.id == most
            more = asyncio.create_task(reading.receive())
            await anyio.wait_all_tasks_blocked()
            assert not more.done()
            refusal = JSONRPCError(jsonrpc="2.0", id=0, error=ErrorData(code=-1, message="no"))
            await writing.send(SessionMessage(refusal))
            assert (await more).message.id == most + 1

    run(work())


def test_requests_that_are_answered_or_taken_back_do_not_count() -> None:
    async def work() -> None:
        lost: list[str] = []
        streams = Streams()
        async with flow_controlled(streams, lost.append) as (reading, writing), reading, writing:
            for number in range(5 * MAX_OWED):
                streams.put(_ask(number))
                await reading.receive()
                if number % 2:
                    await writing.send(SessionMessage(_answer(number)))
                else:
                    streams.put(_note("notifications/cancelled", requestId=str(number)))
                    await reading.receive()
            assert lost == []

    run(work())


def test_an_answer_that_could_not_be_sent_is_owed_no_more() -> None:
    async def work() -> None:
        streams = Streams()
        async with flow_controlled(streams, lambda reason: None) as (reading, writing), reading, writing:
            streams.put(*map(_ask, range(MAX_OWED + 1)))
            for _ in range(MAX_OWED):
                await reading.receive()
            streams.from_us.close()
            with pytest.raises(anyio.BrokenResourceError):
                await writing.send(SessionMessage(_answer(3)))
            assert (await reading.receive()).message.id == MAX_OWED

    run(work())


def test_a_server_that_asks_and_takes_no_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_control, "PATIENCE", 0)
    got, [reason, *_] = _through(*map(_ask, range(MAX_OWED + 1)))
    assert len(got) == MAX_OWED and "is not reading responses" in reason


class Slowed:
    """Messages through streams that nobody has to wait for, and how long would have been waited."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._slept: list[float] = []
        self._now = 0.0
        monkeypatch.setattr(flow_control, "monotonic", lambda: self._now)
        monkeypatch.setattr(flow_control.asyncio, "sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self._slept.append(seconds)
        self._now += seconds

    def seconds(self, message: Any, count: int, *, asked: bool = False) -> float:
        async def work() -> None:
            streams = Streams()
            async with flow_controlled(streams, lambda reason: None) as (reading, writing), reading, writing:
                for _ in range(count):
                    if asked:
                        await writing.send(SessionMessage(_ask("1")))
                        streams.from_us.receive_nowait()
                    streams.put(message)
                    await reading.receive()

        self._slept.clear()
        asyncio.run(work())
        return sum(self._slept)


def test_a_flood_is_read_no_faster_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed = Slowed(monkeypatch)
    assert slowed.seconds(_note(), int(0.9 * BURST)) == 0
    assert slowed.seconds(_note(), 9000) == pytest.approx((9000 - BURST) / RATE, rel=0.1)  # pyright: ignore


def test_large_messages_that_nobody_asked_for_count_by_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed = Slowed(monkeypatch)
    size = 100 * AS_LARGE
    for message in (_note(text="x" * size), _note(list=[0] * (size // 64)), _answer(5, text="x" * size)):
        assert slowed.seconds(message, 100) == pytest.approx((100 * 101 - BURST) / RATE, rel=0.1)  # pyright: ignore


def test_answers_hold_up_nobody_if_they_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slowed = Slowed(monkeypatch)
    assert slowed.seconds(_answer(1, text="x" * AS_LARGE), 9000, asked=True) == 0
    assert slowed.seconds(_answer(1), 9000) > 5
