"""What a tool asks the person behind the interface while it runs."""

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


PAINT = Tool(name="paint", execute=_paint, effects=frozenset(), timeout=0.2)


def _runtime(elicitor: Elicitor | None) -> Runtime:
    return attached(Runtime([PAINT], config=Config()), elicitor=elicitor)


def test_the_person_gets_all_questions_at_once_and_the_tool_gets_the_replies() -> None:
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


def test_where_nobody_is_each_question_is_cancelled() -> None:
    async def work() -> str:
        async with _runtime(None) as runtime:
            return (await runtime.call("paint")).output

    assert run(work()) == "cancel None cancel"


def test_an_elicitor_that_fails_is_nobody() -> None:
    async def broken(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        raise OSError("the terminal is gone")

    async def work() -> str:
        async with _runtime(broken) as runtime:
            return (await runtime.call("paint")).output

    assert run(work()) == "cancel None cancel"


@pytest.mark.spec("X3")
def test_waiting_for_the_person_does_not_use_up_the_time_of_the_call_or_of_the_call_above_it() -> None:
    async def outer(args: Args, ctx: Context) -> str:
        return (await ctx.call("paint")).output

    async def slow(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
        await asyncio.wait_for(asyncio.shield(asyncio.sleep(0.5)), 5)  # longer than either call has
        return CANCELLED, CANCELLED

    async def work() -> State:
        runtime = _runtime(slow)
        runtime.register(Tool(name="outer", execute=outer, effects=frozenset(), timeout=0.2))
        async with runtime:
            return (await runtime.call("outer")).state

    assert run(work()) is State.DONE


def test_what_must_be_awaited_when_the_runtime_is_left_is_awaited_before_anything_is_closed() -> None:
    order: list[str] = []

    async def work() -> None:
        async with Runtime() as runtime:
            runtime.on_close(lambda: order.append("closed"))

            async def leave() -> None:
                order.append("left")

            runtime.on_close(leave)

    run(work())
    assert order == ["left", "closed"]
