"""Transient failures are retried with backoff; permanent ones are not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdfast.contract.message import Text
from holdfast.models.port import ModelError, ModelEvent, ModelFault, ReplyEnded, Retrying, Settings
from tests.models.exchanges import HELLO, TOOLS, hear, parts, run
from tests.models.servers.apis import ANTHROPIC, APIS, CHAT, OPENAI, Api
from tests.models.servers.http import Answer, error, serving
from tests.models.servers.script import Say, Script, Use

EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
BUSY = error(429, {"error": {"message": "slow down"}})
GOOD = Script((Say("At last."),))


class Asked:
    """A model whose retry delays are recorded instead of slept."""

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
def test_an_overloaded_provider_is_retried_with_exponential_backoff(api: Api) -> None:
    asked = Asked(api, [BUSY, BUSY, error(503, {}), Answer(api.events(GOOD))])
    assert asked.error is None and isinstance(asked.events[-1], ReplyEnded)
    assert asked.requests == 4
    assert asked.pauses == [1, 2, 4]
    assert [(one.attempt, one.delay) for one in asked.tried_again] == [(1, 1), (2, 2), (3, 4)]
    assert "429" in asked.tried_again[0].reason


@pytest.mark.spec("M1")
def test_retry_delays_have_jitter_and_a_maximum() -> None:
    asked = Asked(CHAT, [BUSY] * 9, retries=8, chance=0.0)
    assert asked.pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert asked.error is not None and asked.error.fault is ModelFault.RATE_LIMIT


@EACH
@pytest.mark.spec("M1")
def test_retry_after_is_respected_and_an_overlong_one_is_an_error(api: Api) -> None:
    asked = Asked(api, [error(429, {}, retry_after="11"), Answer(api.events(GOOD))])
    assert asked.pauses == [11]
    asked = Asked(api, [error(429, {}, retry_after="3600")])
    assert asked.error is not None and asked.error.retry_after == 3600
    assert (asked.requests, asked.pauses) == (1, [])


@EACH
@pytest.mark.spec("M1")
def test_a_dropped_stream_is_retried_and_its_events_are_void(api: Api) -> None:
    long = Script((Say("This was going to be a very long sentence."),))
    asked = Asked(api, [Answer(api.events(long)[:4], then="cut"), Answer(api.events(GOOD))])
    assert asked.requests == 2
    again = asked.events.index(asked.tried_again[0])
    assert parts(asked.events[again:]) == [Text("At last.")]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
@EACH
@pytest.mark.spec("M1")
def test_permanent_failures_are_not_retried(api: Api, status: int) -> None:
    asked = Asked(api, [error(status, {"error": {"message": "no"}})])
    assert (asked.requests, asked.pauses) == (1, [])


@EACH
@pytest.mark.spec("M1")
def test_after_the_last_attempt_complete_parts_are_kept_and_the_cut_is_reported(api: Api) -> None:
    """The loop records them as an aborted turn."""
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
def test_an_unreachable_server_is_retried() -> None:
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
def test_a_retry_delay_can_be_cancelled() -> None:
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
