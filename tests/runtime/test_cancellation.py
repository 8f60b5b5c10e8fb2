"""Timeouts and cancels: the work stops, or the result says that it may continue; there is one result either way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, Runtime, State, Tool
from holdfast.config.config import ToolsConfig
from holdfast.contract.enums import Failure
from tests.runtime.support import approving, run, runtime_in, until_pending


def _sleeper(name: str = "sleeper", *, effects: frozenset[str] | None = frozenset(), **fields: Any) -> Tool:
    async def execute(args: Any) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    return Tool(name=name, execute=execute, effects=effects).with_(**fields)


@pytest.mark.spec("X3")
def test_a_slow_read_times_out() -> None:
    result = run(Runtime(tools=[_sleeper(timeout=0.02)]).call("sleeper"))
    assert (result.state, result.failure, result.exit_code) == (State.TIMED_OUT, Failure.TIMEOUT, 5)
    assert result.error == "Tool 'sleeper' timed out after 20ms"


@pytest.mark.spec("X3")
def test_a_mutation_that_times_out_is_unknown() -> None:
    sleeper = _sleeper(effects=frozenset({"external"}), timeout=0.02)
    result = run(Runtime(tools=[sleeper], config=approving("sleeper")).call("sleeper"))
    assert (result.state, result.exit_code) == (State.UNKNOWN, 6)
    assert result.error == "Tool 'sleeper' timed out after 20ms; whether it took effect is not known"


@pytest.mark.spec("X3")
def test_the_calls_timeout_overrides_the_tools_and_the_default() -> None:
    schema = {"type": "object", "properties": {"timeout": {"type": "number"}}}
    config = Config(tools=ToolsConfig(default_timeout=0.03))
    runtime = Runtime(
        tools=[
            _sleeper("own", timeout=30.0, input_schema=schema),
            _sleeper("bare"),
            _sleeper("shell", timeout=30.0, input_schema=schema, aliases=("bash",), timeout_in_seconds=("bash",)),
        ],
        config=config,
    )
    assert run(runtime.call("own", {"timeout": 10})).error == "Tool 'own' timed out after 10ms"
    assert run(runtime.call("bare")).error == "Tool 'bare' timed out after 30ms"
    assert run(runtime.call("bash", {"timeout": 0.02})).error == "Tool 'bash' timed out after 20ms"


@pytest.mark.spec("X3")
def test_a_coroutine_that_swallows_its_cancellation_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.cancellation.GRACE_SECONDS", 0.02)
    steps: list[int] = []

    async def execute(args: Any) -> str:
        while True:
            try:
                await asyncio.sleep(0.005)
                steps.append(1)
            except BaseException:
                steps.append(0)

    async def main() -> tuple[Result, int, int]:
        stubborn = Tool(name="stubborn", execute=execute, effects=frozenset(), timeout=0.02)
        result = await Runtime(tools=[stubborn]).call("stubborn")
        count = len(steps)
        await asyncio.sleep(0.03)
        return result, count, len(steps)

    result, at_result, later = run(main())
    assert result.state is State.TIMED_OUT
    assert at_result == later


@pytest.mark.spec("X3")
def test_a_coroutine_can_clean_up_within_the_grace_period() -> None:
    cleaned: list[str] = []

    async def execute(args: Any) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            cleaned.append("yes")
        return "never"

    tidy = Tool(name="tidy", execute=execute, effects=frozenset(), timeout=0.01)
    assert run(Runtime(tools=[tidy]).call("tidy")).state is State.TIMED_OUT
    assert cleaned == ["yes"]


@pytest.mark.spec("X4")
def test_cancelling_a_call_leaves_its_siblings_running(tmp_path: Path) -> None:
    async def main() -> tuple[Result, Result, list[bool], Runtime]:
        asked: list[bool] = []
        release = asyncio.Event()

        async def waits(args: Any, ctx: Any) -> str:
            ctx.on_cancel(lambda: asked.append(ctx.cancelled))
            await release.wait()
            return "went on"

        effects = frozenset({"external"})
        runtime = runtime_in(tmp_path, Tool(name="waits", execute=waits, effects=effects), config=approving("waits"))
        with runtime.subscribe() as events:
            first = asyncio.create_task(runtime.call("waits"))
            second = asyncio.create_task(runtime.call("waits"))
            started: list[str] = []
            async for event in events:
                if type(event).__name__ == "Started":
                    started.append(event.call_id)
                if len(started) == 2:
                    break
        await asyncio.sleep(0)
        assert runtime.cancel(started[0])
        assert not runtime.cancel("no-such-call")
        one = await first
        assert not runtime.cancel(started[0])
        release.set()
        return one, await second, asked, runtime

    one, two, asked, runtime = run(main())
    assert (one.state, one.failure, one.exit_code) == (State.UNKNOWN, Failure.CANCELLED, 6)
    assert one.error == "User aborted tool execution; whether it took effect is not known"
    assert (two.state, two.output) == (State.DONE, "went on")
    assert asked == [True]
    assert runtime.ledger is not None
    assert runtime.pending.result(one.call_id) == one
    assert runtime.ledger.verify().ok


@pytest.mark.spec("X4")
def test_a_call_whose_caller_is_cancelled_still_gets_one_result(tmp_path: Path) -> None:
    async def main() -> Runtime:
        runtime = runtime_in(tmp_path, _sleeper(effects=frozenset({"external"})), config=approving("sleeper"))
        with runtime.subscribe() as events:
            task = asyncio.create_task(runtime.call("sleeper"))
            async for event in events:
                if type(event).__name__ == "Started":
                    break
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return runtime

    runtime = run(main())
    assert runtime.ledger is not None
    (record,) = runtime.ledger.calls()
    assert record.state is State.UNKNOWN
    assert runtime.ledger.verify().ok


@pytest.mark.spec("X4")
def test_a_pending_call_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> Result:
        sleeper = _sleeper(effects=frozenset({"external"}))
        runtime = runtime_in(tmp_path, sleeper, nobody="wait")
        pending, task = await until_pending(runtime, runtime.call("sleeper"))
        assert runtime.cancel(pending.call.id)
        return await task

    assert run(main()).state is State.CANCELLED


@pytest.mark.spec("X3")
def test_waiting_for_a_person_does_not_count_towards_the_timeout(tmp_path: Path) -> None:
    async def quick(args: Any) -> str:
        return "done"

    async def main() -> Result:
        slow = Tool(name="quick", execute=quick, effects=frozenset({"external"}), timeout=1.0)
        runtime = runtime_in(tmp_path, slow, nobody="wait")
        pending, task = await until_pending(runtime, runtime.call("quick"))
        loop = asyncio.get_running_loop()
        much_later = loop.create_future()
        loop.call_later(1.5, much_later.set_result, None)
        await much_later
        await runtime.approve(pending.call.id)
        return await task

    assert run(main()).output == "done"


@pytest.mark.spec("X4")
def test_a_call_cancelled_while_it_waits_for_a_path_is_recorded_as_cancelled(tmp_path: Path) -> None:
    async def main() -> Runtime:
        def touches(args: Any) -> list[str]:
            return ["same"]

        waits = _sleeper(effects=frozenset({"fs.write"}), touches=touches)
        runtime = runtime_in(tmp_path, waits, config=approving("sleeper"))
        with runtime.subscribe() as events:
            tasks = [asyncio.create_task(runtime.call("sleeper")) for _ in range(2)]
            async for event in events:
                if type(event).__name__ == "Queued":
                    break
            for task in reversed(tasks):
                task.cancel()
            await asyncio.wait(tasks)
        return runtime

    ledger = run(main()).ledger
    assert ledger is not None
    assert sorted(record.state for record in ledger.calls()) == [State.CANCELLED, State.UNKNOWN]
    assert ledger.verify().ok


@pytest.mark.spec("X4")
def test_a_cancelled_read_is_cancelled_and_not_unknown() -> None:
    async def main() -> Result:
        runtime = Runtime(tools=[_sleeper()])
        with runtime.subscribe() as events:
            task = asyncio.create_task(runtime.call("sleeper"))
            started = await anext(event async for event in events if type(event).__name__ == "Started")
        await asyncio.sleep(0)
        assert runtime.cancel(started.call_id)
        return await task

    result = run(main())
    assert (result.state, result.exit_code, result.error) == (State.CANCELLED, 130, "User aborted tool execution.")


def _seeing(state: State, *, seen: bool = True) -> Tool:
    async def execute(args: Any, ctx: Any) -> Result:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            ctx.command_ended = seen
            return Result(False, error="what was printed so far", state=state)
        return Result(True)

    return Tool(name="seeing", execute=execute, effects=frozenset({"process"}), timeout=0.02)


@pytest.mark.spec("X3")
def test_a_mutation_whose_command_was_seen_to_end_is_timed_out_and_keeps_its_output() -> None:
    result = run(Runtime(tools=[_seeing(State.TIMED_OUT)], config=approving("seeing")).call("seeing"))
    assert (result.success, result.state, result.failure) == (False, State.TIMED_OUT, Failure.TIMEOUT)
    assert result.error == "Tool 'seeing' timed out after 20ms\n\nwhat was printed so far"


@pytest.mark.spec("X3")
def test_a_mutation_that_only_swallows_its_cancellation_is_unknown() -> None:
    for seeing in (_seeing(State.DONE), _seeing(State.CANCELLED, seen=False)):
        result = run(Runtime(tools=[seeing], config=approving("seeing")).call("seeing"))
        assert result.state is State.UNKNOWN
