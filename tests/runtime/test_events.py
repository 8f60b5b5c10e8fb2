"""Events, telemetry, and slow subscribers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdfast import Event, Runtime, Tool
from holdfast.runtime.events import Telemetry
from tests.runtime.support import add, approving, recorder, run, runtime_in, yes


def _names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


@pytest.mark.spec("X9")
def test_a_call_emits_its_events_in_order(tmp_path: Path) -> None:
    note, _ = recorder()

    async def main() -> tuple[list[Event], list[Event], list[Event]]:
        runtime = runtime_in(tmp_path, add, note, asker=yes())
        with runtime.subscribe() as events:
            await runtime.call("add", {"a": 1})
            pure = events.take()
            await runtime.call("note", {"text": "x"})
            asked = events.take()
            await runtime.call("nope")
            return pure, asked, events.take()

    pure, asked, unknown = run(main())
    assert _names(pure) == ["Received", "Decided", "Started", "Finished"]
    assert _names(asked) == ["Received", "Decided", "Pending", "Approved", "Decided", "Started", "Finished"]
    assert _names(unknown) == ["Received", "Finished"]
    assert len({event.call_id for event in pure}) == 1


@pytest.mark.spec("X9")
def test_events_are_a_typed_union_that_survives_json(tmp_path: Path) -> None:
    async def chatty(args: Any, ctx: Any) -> str:
        ctx.progress("half way", 1, 2)
        ctx.stream("some output")
        return "done"

    async def main() -> list[Event]:
        runtime = Runtime(tools=[Tool(name="chatty", execute=chatty, effects=frozenset())])
        with runtime.subscribe() as events:
            await runtime.call("chatty")
            return events.take()

    events = run(main())
    assert "Progress" in _names(events)
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[Event]) == events


@pytest.mark.spec("X9")
def test_a_slow_subscriber_drops_the_oldest_events_and_counts_them() -> None:
    async def main() -> None:
        runtime = Runtime(tools=[add])
        lazy, keen = runtime.subscribe(limit=10), runtime.subscribe(limit=1000)
        for _ in range(50):
            await runtime.call("add", {"a": 1})
        assert len(keen.take()) == 200
        assert (lazy.dropped, keen.dropped) == (190, 0)
        assert len(lazy.take()) == 10

    run(main())


@pytest.mark.spec("X9")
def test_a_failing_listener_does_not_affect_the_call() -> None:
    def breaks(event: Event) -> None:
        raise RuntimeError("listener")

    runtime = Runtime(tools=[add])
    stop = runtime.events.listen(breaks)
    assert run(runtime.call("add", {"a": 1})).success
    stop()
    assert runtime.events.idle


@pytest.mark.spec("X9")
def test_events_from_a_tools_thread_arrive_in_the_event_loop() -> None:
    def blocking(args: Any, ctx: Any) -> str:
        ctx.stream("from a thread")
        return "ok"

    async def main() -> list[str]:
        runtime = Runtime(tools=[Tool(name="blocking", execute=blocking, effects=frozenset())])
        with runtime.subscribe() as events:
            await runtime.call("blocking")
            await asyncio.sleep(0)
            return _names(events.take())

    assert "Output" in run(main())


@pytest.mark.spec("X9")
def test_closing_a_subscription_ends_its_iteration() -> None:
    async def main() -> int:
        runtime = Runtime(tools=[add])
        events = runtime.subscribe()

        async def count() -> int:
            return sum([1 async for _ in events])

        counting = asyncio.create_task(count())
        await runtime.call("add", {"a": 1})
        await asyncio.sleep(0)
        events.close()
        return await counting

    assert run(main()) == 4


@pytest.mark.spec("X9")
def test_spans_follow_the_genai_conventions_without_arguments() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    note, _ = recorder()
    runtime = Runtime(tools=[add, note], config=approving())
    assert Telemetry.find() is not None
    runtime.telemetry = Telemetry(provider.get_tracer("test"))
    run(runtime.call("add", {"a": 41, "b": 1}, given_id="toolu_9"))
    run(runtime.call("note", {"text": "private"}))
    good, bad = exporter.get_finished_spans()
    assert good.name == "execute_tool add"
    assert dict(good.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "toolu_9",
        "gen_ai.tool.type": "function",
        "holdfast.state": "done",
    }
    assert (bad.attributes or {})["error.type"] == "nobody_to_ask"
    assert bad.status.status_code is trace.StatusCode.ERROR
    assert "private" not in good.to_json() + bad.to_json()
