"""Deadlines and cancels: the work stops, or the result says that it may go on; there is one result either way."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, Runtime, State, Tool, tool
from holdfast.config.config import ToolsConfig
from holdfast.contract.enums import Failure
from tests.runtime.support import approving, run, runtime_in, until_held


def _sleeper(name: str = "sleeper", *, effects: frozenset[str] | None = frozenset(), **fields: Any) -> Tool:
    async def execute(args: Any) -> str:
        await asyncio.get_running_loop().create_future()
        return "never"

    return Tool(name=name, execute=execute, effects=effects).with_(**fields)


@pytest.mark.spec("X3")
def test_a_read_that_takes_too_long_is_timed_out() -> None:
    result = run(Runtime(tools=[_sleeper(timeout=0.02)]).call("sleeper"))
    assert (result.state, result.failure, result.exit_code) == (State.TIMED_OUT, Failure.TIMEOUT, 5)
    assert result.error == "Tool 'sleeper' timed out after 20ms"


@pytest.mark.spec("X3")
def test_a_mutation_that_takes_too_long_is_unknown() -> None:
    sleeper = _sleeper(effects=frozenset({"external"}), timeout=0.02)
    result = run(Runtime(tools=[sleeper], config=approving("sleeper")).call("sleeper"))
    assert (result.state, result.exit_code) == (State.UNKNOWN, 6)
    assert result.error == "Tool 'sleeper' timed out after 20ms; whether it took effect is not known"


@pytest.mark.spec("X3")
def test_the_calls_own_timeout_counts_before_the_tools_and_the_default() -> None:
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
def test_a_coroutine_that_swallows_its_cancellation_is_stopped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_a_coroutine_may_clean_up_within_the_grace() -> None:
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


@pytest.mark.spec("X3")
def test_a_thread_that_cannot_be_stopped_is_reported_as_maybe_still_running() -> None:
    release = threading.Event()

    def execute(args: Any) -> str:
        release.wait(20)
        return "late"

    stuck = Tool(name="stuck", execute=execute, effects=frozenset({"external"}), timeout=0.02)
    try:
        result = run(Runtime(tools=[stuck], config=approving("stuck")).call("stuck"))
        assert result.state is State.UNKNOWN
        assert "may still be running" in (result.error or "")
    finally:
        release.set()


@pytest.mark.spec("X3")
def test_a_tool_that_never_returns_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import asyncio, threading\n"
        "from holdfast import Runtime, tool\n"
        "@tool(effects=(), timeout=0.05)\n"
        "def forever() -> str:\n"
        "    threading.Event().wait()\n"
        "    return 'never'\n"
        "print(asyncio.run(Runtime(tools=[forever]).call('forever')).state)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout.strip(), done.returncode) == ("timed_out", 0)


@tool(effects=("external",), runs="process", timeout=2.0)
def spawning(pids: str) -> str:
    """Starts children that try to get away: a session of their own, a double fork, deaf to SIGTERM."""
    script = (
        f"trap '' TERM; echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; exec sleep 300' & "
        f"(setsid sh -c 'echo $$ >> {pids}; sleep 300 & echo $! >> {pids}; wait' &) ; sleep 300"
    )
    subprocess.run(["sh", "-c", script], check=False)
    return "never"


@tool(effects=(), runs="process")
def doubled(number: int) -> int:
    print("this must not be taken for the result")  # noqa: T201 - what the test is about
    return number * 2


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.spec("X3")
def test_a_process_that_is_timed_out_dies_with_everything_it_forked(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    result = run(Runtime(tools=[spawning], config=approving("spawning")).call("spawning", {"pids": str(pids)}))
    assert result.state is State.UNKNOWN
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) == 4
    deadline = time.monotonic() + 10
    while not all(map(_gone, started)) and time.monotonic() < deadline:
        os.sched_yield()
    assert [pid for pid in started if not _gone(pid)] == []


@pytest.mark.spec("X3")
def test_a_function_in_a_process_gives_its_value_and_its_prints_do_not_disturb() -> None:
    result = run(Runtime(tools=[doubled]).call("doubled", {"number": 21}))
    assert (result.structured, result.output) == (42, "42")


@pytest.mark.spec("X4")
def test_a_running_call_is_cancelled_and_its_siblings_go_on(tmp_path: Path) -> None:
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
def test_a_call_whose_caller_is_cancelled_still_gets_its_one_result(tmp_path: Path) -> None:
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
def test_a_call_waiting_for_a_person_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> Result:
        sleeper = _sleeper(effects=frozenset({"external"}))
        runtime = runtime_in(tmp_path, sleeper, nobody="wait")
        held, task = await until_held(runtime, runtime.call("sleeper"))
        assert runtime.cancel(held.call.id)
        return await task

    assert run(main()).state is State.CANCELLED


@pytest.mark.spec("X3")
def test_waiting_for_a_person_does_not_use_up_the_timeout(tmp_path: Path) -> None:
    async def quick(args: Any) -> str:
        return "done"

    async def main() -> Result:
        slow = Tool(name="quick", execute=quick, effects=frozenset({"external"}), timeout=0.01)
        runtime = runtime_in(tmp_path, slow, nobody="wait")
        held, task = await until_held(runtime, runtime.call("quick"))
        loop = asyncio.get_running_loop()
        much_later = loop.create_future()
        loop.call_later(0.05, much_later.set_result, None)
        await much_later
        await runtime.approve(held.call.id)
        return await task

    assert run(main()).output == "done"


@pytest.mark.spec("X4")
def test_a_call_cancelled_while_it_waits_for_its_turn_is_recorded_as_cancelled(tmp_path: Path) -> None:
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
def test_closing_the_coroutine_of_a_call_closes_the_tool() -> None:
    closed: list[str] = []

    async def execute(args: Any) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            closed.append("yes")
        return "never"

    async def main() -> None:
        work = Runtime(tools=[Tool(name="open", execute=execute, effects=frozenset())]).call("open")
        work.send(None)
        work.close()

    run(main())
    assert closed == ["yes"]


@pytest.mark.parametrize("state", [State.UNKNOWN, State.CANCELLED, State.TIMED_OUT, State.DENIED])
@pytest.mark.spec("T4")
def test_a_tool_cannot_pretend_to_have_been_stopped(state: State) -> None:
    async def execute(args: Any) -> Result:
        return Result(False, error="I was stopped", state=state, failure=Failure.DENIED_BY_POLICY)

    result = run(Runtime(tools=[Tool(name="liar", execute=execute, effects=frozenset())]).call("liar"))
    assert (result.state, result.failure) == (State.FAILED, Failure.TOOL_ERROR)


@pytest.mark.spec("X4")
def test_a_cancelled_read_is_cancelled_and_nothing_is_unknown() -> None:
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
def test_a_mutation_that_saw_its_own_end_is_timed_out_and_keeps_what_it_says() -> None:
    result = run(Runtime(tools=[_seeing(State.TIMED_OUT)], config=approving("seeing")).call("seeing"))
    assert (result.success, result.state, result.failure) == (False, State.TIMED_OUT, Failure.TIMEOUT)
    assert result.error == "Tool 'seeing' timed out after 20ms\n\nwhat was printed so far"


@pytest.mark.spec("X3")
def test_a_mutation_that_only_swallows_its_cancellation_stays_unknown() -> None:
    for seeing in (_seeing(State.DONE), _seeing(State.CANCELLED, seen=False)):
        result = run(Runtime(tools=[seeing], config=approving("seeing")).call("seeing"))
        assert result.state is State.UNKNOWN


@pytest.mark.spec("X3")
@pytest.mark.parametrize("first", [True, False])
def test_a_tool_that_blocks_the_event_loop_past_its_timeout_is_reported(
    first: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def execute(args: Any) -> str:
        if not first:
            await asyncio.sleep(0)
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass
        return "late"

    run(Runtime(tools=[Tool(name="busy", execute=execute, effects=frozenset(), timeout=0.01)]).call("busy"))
    assert re.search(r"Tool 'busy' blocked the event loop for \d+\.\d s; its timeout is 0\.01 s\.", caplog.text)
    assert "make it a plain function: those run in a thread" in caplog.text
