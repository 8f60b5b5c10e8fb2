"""Asking again: what may pass is tried again with growing pauses, what cannot is not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdfast.contract.message import Text
from holdfast.models.port import ModelError, ModelEvent, ModelFault, ReplyEnded, Retrying, Settings
from tests.models.servers.apis import ANTHROPIC, APIS, CHAT, OPENAI, Api
from tests.models.servers.http import Answer, error, serving
from tests.models.servers.script import Say, Script, Use
from tests.models.support import HELLO, TOOLS, hear, parts, run

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
BUSY = error(429, {"error": {"message": "slow down"}})
GOOD = Script((Say("At last."),))


class Asked:
    """A model whose pauses are noted instead of taken."""

    def __init__(self, api: Api, answers: list[Answer], retries: int = 4, chance: float = 1.0) -> None:
        self.pauses: list[float] = []
        self.events: list[ModelEvent] = []
        self.error: ModelError | None = None
        self.requests = run(self._ask(api, answers, retries, chance))

    async def _ask(self, api: Api, answers: list[Answer], retries: int, chance: float) -> int:
        async def pause(seconds: float) -> None:
            self.pauses.append(seconds)

        async with serving(*answers) as server:
            model = replace(api.open(server), sleep=pause, jitter=lambda: chance)
            try:
                async for event in model.stream(HELLO, TOOLS, Settings(retries=retries)):
                    self.events.append(event)
            except ModelError as error:
                self.error = error
            return len(server.asked)

    @property
    def tried_again(self) -> list[Retrying]:
        return [event for event in self.events if isinstance(event, Retrying)]


@EACH
@pytest.mark.spec("M1")
def test_a_busy_provider_is_asked_again_with_growing_pauses(api: Api) -> None:
    asked = Asked(api, [BUSY, BUSY, error(503, {}), Answer(api.events(GOOD))])
    assert asked.error is None and isinstance(asked.events[-1], ReplyEnded)
    assert asked.requests == 4
    assert asked.pauses == [1, 2, 4]
    assert [(one.attempt, one.delay) for one in asked.tried_again] == [(1, 1), (2, 2), (3, 4)]
    assert "429" in asked.tried_again[0].reason


@pytest.mark.spec("M1")
def test_pauses_are_spread_and_have_a_longest() -> None:
    asked = Asked(CHAT, [BUSY] * 9, retries=8, chance=0.0)
    assert asked.pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert asked.error is not None and asked.error.fault is ModelFault.RATE_LIMIT


@EACH
@pytest.mark.spec("M1")
def test_a_pause_the_provider_asks_for_is_taken_and_one_that_is_too_long_is_told(api: Api) -> None:
    asked = Asked(api, [error(429, {}, retry_after="11"), Answer(api.events(GOOD))])
    assert asked.pauses == [11]
    asked = Asked(api, [error(429, {}, retry_after="3600")])
    assert asked.error is not None and asked.error.retry_after == 3600
    assert (asked.requests, asked.pauses) == (1, [])


@EACH
@pytest.mark.spec("M1")
def test_a_dropped_stream_is_asked_for_again_and_what_came_before_is_void(api: Api) -> None:
    long = Script((Say("This was going to be a very long sentence."),))
    asked = Asked(api, [Answer(api.events(long)[:4], then="cut"), Answer(api.events(GOOD))])
    assert asked.requests == 2
    again = asked.events.index(asked.tried_again[0])
    assert parts(asked.events[again:]) == [Text("At last.")]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
@EACH
@pytest.mark.spec("M1")
def test_what_will_not_pass_is_asked_once(api: Api, status: int) -> None:
    asked = Asked(api, [error(status, {"error": {"message": "no"}})])
    assert (asked.requests, asked.pauses) == (1, [])


@EACH
@pytest.mark.spec("M1")
def test_after_the_last_attempt_the_complete_parts_are_there_and_the_cut_is_told(api: Api) -> None:
    """The loop writes them down as a turn that was stopped."""
    calls = (Use("a", "file--read", '{"path": "a"}'), Use("b", "shell--run", '{"x": "y y y y y"}'))
    events = api.events(Script((Say("Well."), *calls)))
    # Everything up to and into the last call; Gemini sends calls in one piece.
    begun = next(place for place, chunk in enumerate(events) if b"shell--run" in chunk)
    until = begun if api.name in ("google", "vertex") else begun + 1
    asked = Asked(api, [Answer(events[:until], then="cut")] * 3, retries=2)
    assert asked.requests == 3
    assert asked.error is not None and asked.error.fault is ModelFault.CUT
    last = asked.events[asked.events.index(asked.tried_again[-1]) :]
    assert parts(last)[0] == Text("Well.")
    assert all("shell" not in str(part) for part in parts(last))


@EACH
@pytest.mark.spec("M1")
def test_no_retries_means_one_request(api: Api) -> None:
    assert Asked(api, [BUSY], retries=0).requests == 1


@pytest.mark.spec("M1")
def test_a_server_that_cannot_be_reached_is_tried_again() -> None:
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    async def ask() -> None:
        model = replace(OPENAI.open("http://127.0.0.1:1"), sleep=pause)
        with pytest.raises(ModelError, match="running"):
            await hear(model, settings=Settings(retries=2))

    run(ask())
    assert paused == [1, 2]


@pytest.mark.spec("M1")
def test_a_pause_can_be_cancelled() -> None:
    async def ask() -> Any:
        async with serving(BUSY) as server:
            model = replace(ANTHROPIC.open(server), sleep=asyncio.sleep, jitter=lambda: 1.0)
            stream = model.stream(HELLO, TOOLS, Settings())
            assert isinstance(await anext(stream), Retrying)
            waiting = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            return len(server.asked)

    assert run(ask(), 5) == 1
