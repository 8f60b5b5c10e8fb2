"""Sources and event loops: start, stop, and sources that outlive their loop."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest

from holdfast.registry.registry import Registry
from tests.registry.controlled_sources import ControlledSource, run


@pytest.mark.spec("R4")
def test_sources_registered_without_an_event_loop_begin_with_start() -> None:
    registry = Registry()
    began: list[str] = []

    async def source(register: Any, done: Any) -> None:
        began.append("yes")
        done()

    registry.register(source)
    assert began == [] and not registry.ready

    async def scene() -> None:
        await registry.start()
        await registry.start()
        await registry.wait_ready()

    run(scene())
    assert began == ["yes"]


@pytest.mark.spec("R4")
def test_sources_registered_inside_an_event_loop_begin_immediately() -> None:
    async def scene() -> None:
        registry, held = Registry(), ControlledSource()
        registry.register(held)
        await asyncio.wait_for(held.started.wait(), 50)
        held.done()
        assert registry.ready

    run(scene())


@pytest.mark.spec("R4")
def test_a_source_can_register_another_source() -> None:
    async def inner(register: Any, done: Any) -> None:
        register("inner", {})
        done()

    async def outer(register: Any, done: Any) -> None:
        register(inner)
        done()

    registry = Registry()
    handle = registry.register(outer)
    run(registry.wait_ready())
    assert registry.names() == ("inner",)
    handle.remove()
    assert registry.names() == ()


@pytest.mark.spec("R2", "R5")
def test_removing_a_pending_source_stops_it_and_removes_its_tools() -> None:
    async def scene() -> None:
        registry = Registry()
        register: list[Any] = []
        began, stopped = asyncio.Event(), asyncio.Event()

        async def source(give: Any, done: Any) -> None:
            register.append(give)
            give("a", {})
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

        handle = registry.register({"resolve": source})
        await began.wait()
        assert registry.has("a")
        assert handle.remove()
        await stopped.wait()
        assert registry.ready and registry.names() == () and registry.warnings == []
        register[0]("b", {})
        assert registry.names() == ()

    run(scene())


@pytest.mark.spec("R5")
def test_cancelling_the_wait_does_not_stop_the_sources() -> None:
    async def scene() -> None:
        registry, held = Registry(), ControlledSource()
        registry.register(held)
        waiting = asyncio.create_task(registry.wait_ready())
        await held.started.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not registry.ready
        held.register("a", {})
        held.done()
        await registry.wait_ready()
        assert registry.names() == ("a",)

    run(scene())


@pytest.mark.spec("R5")
def test_stop_abandons_pending_sources_and_keeps_registered_tools() -> None:
    async def scene() -> None:
        registry, held = Registry(), ControlledSource()
        registry.register(held)
        await held.started.wait()
        held.register("a", {})
        registry.stop()
        await registry.wait_ready()
        held.register("b", {})
        assert registry.names() == ("a",)

    run(scene())


@pytest.mark.spec("R5")
def test_the_end_of_a_loop_cancels_its_sources() -> None:
    async def hangs(register: Any, done: Any) -> None:
        await asyncio.Event().wait()

    registry = Registry()
    registry.register(hangs)
    run(registry.start())
    assert registry.ready
    assert [line.split(": ")[1] for line in registry.warnings] == ["Cancelled"]
    run(registry.wait_ready())


@pytest.mark.spec("R5")
def test_a_source_whose_loop_has_ended_still_times_out() -> None:
    release = Event()
    registry = Registry(default_timeout=0.05)

    def blocks(register: Any, done: Any) -> None:
        release.wait(60)

    registry.register(blocks)
    run(registry.start())
    assert not registry.ready
    run(registry.wait_ready())
    release.set()
    assert registry.warnings[0].endswith("Timed out after 0.05s")


@pytest.mark.spec("R5")
def test_a_source_that_returns_a_coroutine_after_its_loop_ended_is_cancelled() -> None:
    release, ready = Event(), Event()

    async def rest() -> None: ...

    def source(register: Any, done: Any) -> Any:
        release.wait(60)
        return rest()

    registry = Registry()
    registry.register(source)
    run(registry.start())
    registry.on_ready(ready.set)
    release.set()
    assert ready.wait(60)
    assert [line.split(": ")[1] for line in registry.warnings] == ["Cancelled"]


@pytest.mark.spec("R4")
def test_a_failing_ready_callback_gives_a_warning() -> None:
    registry = Registry()

    def fail() -> None:
        raise ValueError("oops")

    registry.on_ready(fail)
    assert registry.warnings == ["A callback of the tool registry failed: ValueError: oops"]
