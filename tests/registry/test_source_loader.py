"""Sources: completion, errors, timeouts, readiness."""

from __future__ import annotations

import asyncio
from threading import Event, Thread
from typing import Any

import pytest

from holdfast.contract.tool import Tool
from holdfast.registry.registry import Registry
from holdfast.registry.source_loader import WAITING_FOR_SOURCES
from tests.registry.controlled_sources import Clock, ControlledSource, run


@pytest.mark.spec("R4")
def test_a_request_waits_while_sources_load_and_then_proceeds() -> None:
    async def scene() -> None:
        registry, held = Registry(), ControlledSource()
        log: list[str] = []

        async def send() -> None:
            if not registry.ready:
                log.append(WAITING_FOR_SOURCES)
                await registry.wait_ready()
            log.append(f"sent with {registry.names()}")

        registry.register(held)
        sending = asyncio.create_task(send())
        await held.started.wait()
        held.register("one", {})
        await asyncio.sleep(0)
        assert log == ["Waiting for tool definitions to load..."] and not sending.done()
        held.register("two", {})
        held.done()
        await sending
        assert log == [WAITING_FOR_SOURCES, "sent with ('one', 'two')"]

    run(scene())


@pytest.mark.spec("R4")
def test_without_sources_nothing_waits() -> None:
    registry = Registry()
    assert registry.ready and registry.pending == 0
    run(registry.wait_ready())


@pytest.mark.spec("R4")
def test_ready_requires_every_source() -> None:
    async def scene() -> None:
        registry, first, second = Registry(), ControlledSource(), ControlledSource()
        ready: list[int] = []
        registry.register([first, second])
        registry.on_ready(lambda: ready.append(registry.pending))
        await first.started.wait()
        await second.started.wait()
        assert registry.pending == 2
        first.done()
        await asyncio.sleep(0)
        assert registry.pending == 1 and ready == []
        second.done()
        assert registry.ready and ready == [], "callbacks are scheduled, not called from inside `done`"
        await registry.wait_ready()
        await asyncio.sleep(0)
        assert ready == [0]

    run(scene())


@pytest.mark.spec("R4")
def test_on_ready_calls_once_and_immediately_if_nothing_is_pending() -> None:
    registry = Registry()
    calls: list[str] = []
    registry.on_ready(lambda: calls.append("now"))
    assert calls == ["now"]

    async def scene() -> None:
        held, removed = ControlledSource(), ControlledSource()
        registry.register(held)
        registry.on_ready(lambda: calls.append("later"))
        registry.on_ready(lambda: calls.append("never")).remove()
        await held.started.wait()
        held.done()
        await asyncio.sleep(0)
        registry.register(removed)
        await removed.started.wait()
        removed.done()
        await asyncio.sleep(0)
        assert calls == ["now", "later"]

    run(scene())


@pytest.mark.spec("R5")
def test_registrations_take_effect_immediately_and_a_second_done_is_harmless() -> None:
    async def scene() -> None:
        registry, held, other = Registry(), ControlledSource(), ControlledSource()
        registry.register([held, other])
        await held.started.wait()
        await other.started.wait()
        held.register("a", {})
        assert registry.has("a") and not registry.ready
        held.register([Tool(name="b"), {"name": "c"}])
        assert registry.names() == ("a", "b", "c")
        held.done()
        held.done("too late to complain")
        held.done()
        assert registry.pending == 1, "a second done does not count for the other source"
        other.done()
        await registry.wait_ready()
        assert registry.warnings == []

    run(scene())


@pytest.mark.spec("R5")
@pytest.mark.parametrize("error", ["server is down", OSError("server is down")])
def test_an_error_gives_a_warning_and_keeps_the_registered_tools(error: object) -> None:
    def source(register: Any, done: Any) -> None:
        register("kept", {})
        done(error)

    registry = Registry()
    registry.register(source)
    run(registry.wait_ready())
    assert registry.names() == ("kept",)
    assert len(registry.warnings) == 1
    assert "source'" in registry.warnings[0] and "server is down" in registry.warnings[0]


@pytest.mark.spec("R5")
@pytest.mark.parametrize("is_async", [True, False])
def test_a_source_that_raises_finishes_with_that_error(is_async: bool) -> None:
    def plain(register: Any, done: Any) -> None:
        raise ValueError("no answer")

    async def coroutine(register: Any, done: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError("no answer")

    registry = Registry()
    registry.register(coroutine if is_async else plain)
    run(registry.wait_ready())
    assert registry.ready
    assert [line.split(": ", 1)[1] for line in registry.warnings] == ["ValueError: no answer"]


@pytest.mark.spec("R5")
def test_raising_after_done_changes_nothing() -> None:
    async def source(register: Any, done: Any) -> None:
        done()
        raise ValueError("afterwards")

    registry = Registry()
    registry.register(source)
    run(registry.wait_ready())
    assert registry.warnings == []


@pytest.mark.spec("R5")
def test_a_refused_registration_raises_in_the_source_and_ends_it() -> None:
    registry = Registry()
    registry.register({"name": "taken"})

    def source(register: Any, done: Any) -> None:
        register("taken", {})

    registry.register(source)
    run(registry.wait_ready())
    assert len(registry.warnings) == 1 and "already a tool 'taken'" in registry.warnings[0]


@pytest.mark.spec("R5")
def test_a_source_without_done_times_out_and_later_registrations_are_ignored() -> None:
    async def scene() -> None:
        clock, held = Clock(), ControlledSource()
        registry = Registry(call_later=clock.call_later)
        registry.register(held)
        await held.started.wait()
        held.register("early", {})
        (timer,) = clock.timers
        assert timer.seconds == 30.0
        assert not registry.ready
        timer.fire()
        await registry.wait_ready()
        assert len(registry.warnings) == 1 and registry.warnings[0].endswith(": Timed out after 30s")
        revision = registry.revision
        late = held.register("late", {})
        assert registry.revision == revision
        held.done()
        held.done("err")
        assert registry.names() == ("early",)
        assert late.remove() is False
        assert registry.warnings[1:] == [
            "Tool source 'ControlledSource' registered a tool after it had finished; ignored."
        ]

    run(scene())


@pytest.mark.spec("R5")
def test_registrations_after_done_are_ignored() -> None:
    async def scene() -> None:
        registry, held = Registry(), ControlledSource()
        registry.register(held)
        await held.started.wait()
        held.done()
        held.register("late", {})
        assert registry.names() == ()
        assert len(registry.warnings) == 1

    run(scene())


@pytest.mark.spec("R5")
def test_a_sources_own_timeout_overrides_the_default_and_is_cancelled_by_done() -> None:
    async def scene() -> None:
        clock, own, default = Clock(), ControlledSource(), ControlledSource()
        registry = Registry(default_timeout=7, call_later=clock.call_later)
        registry.register([{"resolve": own.resolve, "timeout": 60}, default])
        await own.started.wait()
        await default.started.wait()
        assert [timer.seconds for timer in clock.timers] == [60, 7]
        own.done()
        await asyncio.sleep(0)
        assert [timer.cancelled for timer in clock.timers] == [True, False]
        default.done()

    run(scene())


@pytest.mark.spec("R5")
def test_a_real_timeout_cancels_a_coroutine_and_releases_the_waiter() -> None:
    stopped: list[str] = []

    async def hangs(register: Any, done: Any) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("yes")

    registry = Registry(default_timeout=0.01)
    registry.register(hangs)

    async def scene() -> None:
        await registry.wait_ready()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert stopped == ["yes"]

    run(scene())
    assert len(registry.warnings) == 1 and registry.warnings[0].endswith("Timed out after 0.01s")


@pytest.mark.spec("R5")
def test_a_blocking_source_blocks_neither_the_event_loop_nor_the_exit() -> None:
    release = Event()
    tried: list[str] = []
    over = Event()

    def blocks(register: Any, done: Any) -> None:
        release.wait(60)
        register("late", {})
        tried.append("late")
        done()
        over.set()

    registry = Registry(default_timeout=0.01)
    registry.register(blocks)
    run(registry.wait_ready())
    assert registry.warnings[0].endswith("Timed out after 0.01s")
    release.set()
    assert over.wait(60)
    assert tried == ["late"] and registry.names() == ()


@pytest.mark.spec("R5")
def test_a_source_can_finish_from_another_thread() -> None:
    def source(register: Any, done: Any) -> None:
        def work() -> None:
            register("threaded", {})
            done()

        Thread(target=work, daemon=True).start()

    registry = Registry()
    registry.register(source)
    run(registry.wait_ready())
    assert registry.names() == ("threaded",)
