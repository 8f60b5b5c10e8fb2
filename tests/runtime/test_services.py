"""Services for tools, found by their protocol."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from holdfast import Runtime, Tool
from holdfast.contract.errors import CallError, HoldfastError
from holdfast.contract.processes import Processes
from holdfast.contract.tool_finder import ToolFinder
from tests.runtime.support import add, run


class Clock(Protocol):
    def now(self) -> float: ...


class FixedClock:
    def now(self) -> float:
        return 42.0


@pytest.mark.spec("T7")
def test_a_tool_gets_the_service_that_the_program_offers() -> None:
    async def execute(args: Any, ctx: Any) -> float:
        return ctx.service(Clock).now()

    runtime = Runtime(tools=[Tool(name="clock", execute=execute, effects=frozenset())])
    missing = run(runtime.call("clock"))
    assert missing.error == "This runtime has no Clock; add one with runtime.services.offer."
    runtime.services.offer(Clock, FixedClock())
    assert run(runtime.call("clock")).structured == 42.0


@pytest.mark.spec("T7")
def test_the_runtimes_own_services_are_created_once() -> None:
    services = Runtime().services
    assert services.get(Processes) is services.get(Processes)
    assert services.get(ToolFinder) is services.get(ToolFinder)
    with pytest.raises(HoldfastError, match="has no Clock"):
        services.get(Clock)


@pytest.mark.spec("T7")
def test_tools_can_be_searched_only_with_a_runtimes_context() -> None:
    runtime = Runtime(tools=[add])
    context: Any = object()
    with pytest.raises(CallError, match="pass the context the tool received"):
        runtime.services.get(ToolFinder).find(context, "add", 5)


@pytest.mark.spec("T7")
def test_a_provided_service_is_made_once_and_only_when_a_tool_asks_for_it() -> None:
    made: list[FixedClock] = []

    def make() -> Clock:
        made.append(FixedClock())
        return made[-1]

    services = Runtime().services
    services.provide(Clock, make)
    assert made == []
    assert services.get(Clock) is services.get(Clock) is made[0]
    assert len(made) == 1
