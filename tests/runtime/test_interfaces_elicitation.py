"""Elicitation: questions of a running tool to the person behind an interface."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Config, Context, Runtime, Tool
from holdfast.contract.elicitation import CANCELLED, Elicitation, ElicitationReply, Elicitor, FormRequest, RootsRequest
from holdfast.contract.enums import State
from holdfast.contract.event import ElicitationStarted
from holdfast.contract.json import Args
from tests.attached import attached
from tests.runtime.support import run

pytestmark = pytest.mark.spec("T7")

COLOUR = FormRequest(message="Which colour?", schema={"type": "object", "properties": {"colour": {"type": "string"}}})


async def _paint(args: Args, ctx: Context) -> str:
    colour, roots = await ctx.elicit(COLOUR, RootsRequest())
    return f"{colour.action} {colour.content} {roots.action}"


PAINT = Tool(name="paint", execute=_paint, effects=frozenset(), timeout=2.0)


def _runtime(elicitor: Elicitor | None) -> Runtime:
    return attached(Runtime([PAINT], config=Config()), elicitor=elicitor)


def test_a_person_gets_all_questions_at_once_and_the_tool_gets_the_replies() -> None:
    asked: list[Elicitation] = []

    async def person(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        asked.append(elicitation)
        return ElicitationReply(action="accept", content={"colour": "red"}), ElicitationReply(action="decline")

    async def work() -> str:
        async with _runtime(person) as runtime:
            events = runtime.subscribe()
            result = await runtime.call("paint", call_id=(own := runtime.pipeline.new_call_id()))
            told = [event.elicitation for event in events.take() if isinstance(event, ElicitationStarted)]
            assert told == asked
            assert (asked[0].call_id, asked[0].group, asked[0].asked_by) == (own, own, "paint")
            return result.output

    assert run(work()) == "accept {'colour': 'red'} decline"
    assert asked[0].questions == (COLOUR, RootsRequest())


def test_without_an_elicitor_each_question_is_cancelled() -> None:
    async def work() -> str:
        async with _runtime(None) as runtime:
            return (await runtime.call("paint")).output

    assert run(work()) == "cancel None cancel"


def test_a_failing_elicitor_is_skipped() -> None:
    async def broken(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        raise OSError("the terminal is gone")

    async def work() -> str:
        async with _runtime(broken) as runtime:
            return (await runtime.call("paint")).output

    assert run(work()) == "cancel None cancel"


@pytest.mark.spec("X3")
def test_waiting_for_a_reply_pauses_the_timeouts_of_the_call_and_its_parent() -> None:
    async def outer(args: Args, ctx: Context) -> str:
        return (await ctx.call("paint")).output

    async def slow(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        await asyncio.wait_for(asyncio.shield(asyncio.sleep(2.5)), 30)  # longer than the timeout of either call
        return CANCELLED, CANCELLED

    async def work() -> State:
        runtime = _runtime(slow)
        runtime.register(Tool(name="outer", execute=outer, effects=frozenset(), timeout=2.0))
        async with runtime:
            return (await runtime.call("outer")).state

    assert run(work()) is State.DONE


def test_async_closers_are_awaited_before_anything_else_closes() -> None:
    order: list[str] = []

    async def work() -> None:
        async with Runtime() as runtime:
            runtime.on_close(lambda: order.append("closed"))

            async def leave() -> None:
                order.append("left")

            runtime.on_close(leave)

    run(work())
    assert order == ["left", "closed"]
