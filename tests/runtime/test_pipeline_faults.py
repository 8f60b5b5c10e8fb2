"""Faults between the stages: cancels at every await, deadlocks, and failing tools, middleware and disks."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Caller, Config, Deny, PendingCall, Result, Runtime, State, Tool
from holdfast.config.config import ToolsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.errors import CallError
from holdfast.contract.event import Queued, WarningRaised
from tests.runtime.support import add, approving, recorder, run, runtime_in, until_pending


def _path_tool(name: str, execute: Any, *effects: str) -> Tool:
    def touches(args: Any) -> list[str]:
        return ["same"]

    return Tool(name=name, execute=execute, effects=frozenset(effects or ("fs.write",)), touches=touches)


async def _until_queued(runtime: Runtime, work: Any) -> tuple[str, asyncio.Task[Result]]:
    with runtime.subscribe() as events:
        task = asyncio.create_task(work)
        async for event in events:
            if isinstance(event, Queued):
                return event.call_id, task
    raise AssertionError


@pytest.mark.spec("X4", "A12")
def test_an_approved_call_whose_caller_was_cancelled_in_the_queue_never_runs(tmp_path: Path) -> None:
    seen: list[str] = []

    async def main() -> None:
        release = asyncio.Event()

        async def busy(args: Any) -> str:
            await release.wait()
            return "ok"

        async def write(args: Any) -> str:
            seen.append("ran")
            return "ok"

        asked = _path_tool("asked", write)
        runtime = runtime_in(tmp_path, _path_tool("busy", busy), asked, config=approving("busy"), nobody="wait")
        first = asyncio.create_task(runtime.call("busy"))
        pending, task = await until_pending(runtime, runtime.call("asked"))
        with runtime.subscribe() as events:
            await runtime.approve(pending.call.id)
            async for event in events:
                if isinstance(event, Queued):
                    break
        task.cancel()
        await asyncio.wait({task})
        release.set()
        await first
        async with runtime_in(tmp_path, asked) as again:
            result = again.pending.result(pending.call.id)
        assert result is not None
        assert result.state is State.CANCELLED

    run(main())
    assert seen == []


@pytest.mark.spec("X4")
def test_a_call_that_waits_for_a_path_can_be_cancelled(tmp_path: Path) -> None:
    async def main() -> Result:
        release = asyncio.Event()

        async def busy(args: Any) -> str:
            await release.wait()
            return "ok"

        runtime = runtime_in(tmp_path, _path_tool("busy", busy), config=approving("busy"))
        first = asyncio.create_task(runtime.call("busy"))
        call_id, second = await _until_queued(runtime, runtime.call("busy"))
        assert runtime.cancel(call_id)
        result = await second
        release.set()
        assert (await first).success
        assert runtime.pending.result(call_id) == result
        return result

    assert run(main()).state is State.CANCELLED


@pytest.mark.spec("X3", "X4")
def test_a_thread_whose_caller_was_cancelled_is_recorded_as_unknown(tmp_path: Path) -> None:
    release = threading.Event()

    def execute(args: Any) -> str:
        release.wait(20)
        return "late"

    async def main() -> Runtime:
        stuck = Tool(name="stuck", execute=execute, effects=frozenset({"external"}))
        runtime = runtime_in(tmp_path, stuck, config=approving("stuck"))
        with runtime.subscribe() as events:
            task = asyncio.create_task(runtime.call("stuck"))
            async for event in events:
                if type(event).__name__ == "Started":
                    break
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return runtime

    try:
        ledger = run(main()).ledger
    finally:
        release.set()
    assert ledger is not None
    assert [record.state for record in ledger.calls()] == [State.UNKNOWN]


@pytest.mark.spec("A13a", "A15a")
def test_a_call_whose_asker_gave_up_can_be_approved_and_runs(tmp_path: Path) -> None:
    note, seen = recorder()

    async def shrugs(pending: PendingCall) -> None:
        return None

    async def main() -> Result:
        runtime = runtime_in(tmp_path, note, asker=shrugs)
        pending = await runtime.call("note", {"text": "x"})
        assert pending.state is State.PENDING
        assert runtime.pending.list()[0].waiter is None
        return await runtime.approve(pending.call_id)

    assert run(main()).output == "noted x"
    assert len(seen) == 1


@pytest.mark.spec("X5", "X6")
def test_a_nested_call_overtakes_an_unrelated_call_that_waits_for_its_parent(tmp_path: Path) -> None:
    async def main() -> list[Result]:
        queued = asyncio.Event()

        async def child(args: Any) -> str:
            return "child"

        async def parent(args: Any, ctx: Any) -> Result:
            await queued.wait()
            return await ctx.call("child")

        tools = [_path_tool("child", child), _path_tool("parent", parent)]
        runtime = runtime_in(tmp_path, *tools, config=approving("child", "parent"))
        first = asyncio.create_task(runtime.call("parent"))
        _, second = await _until_queued(runtime, runtime.call("child"))
        queued.set()
        return [await first, await second]

    assert [result.output for result in run(main())] == ["child", "child"]


@pytest.mark.spec("X5", "X6")
def test_a_deadlock_of_path_locks_is_refused(tmp_path: Path) -> None:
    async def main() -> list[Result]:
        both = asyncio.Barrier(2)

        async def write(args: Any) -> str:
            return "wrote"

        async def reads_then_writes(args: Any, ctx: Any) -> str:
            await both.wait()
            inner = await ctx.call("write")
            return inner.output or inner.error

        reader = _path_tool("reader", reads_then_writes, "fs.read")
        runtime = runtime_in(tmp_path, reader, _path_tool("write", write), config=approving("reader", "write"))
        return await runtime.call_many([("reader", None), ("reader", None)])

    outputs = sorted(result.output for result in run(main()))
    assert outputs[1] == "wrote"
    assert "waits for this one" in outputs[0]


@pytest.mark.spec("A12")
def test_an_approved_call_whose_touches_raises_ends_instead_of_hanging(tmp_path: Path) -> None:
    broken: list[bool] = []

    def touches(args: Any) -> list[str]:
        if broken:
            raise RuntimeError("gone")
        return ["same"]

    note, seen = recorder(touches=touches, effects=frozenset({"fs.write"}))
    runtime = runtime_in(tmp_path, note, nobody="pending")
    pending = run(runtime.call("note", {"text": "x"}))
    broken.append(True)
    result = run(runtime.approve(pending.call_id), 20)
    assert result.state in (State.INVALID, State.DENIED)
    assert runtime.pending.list() == []
    assert seen == []


@pytest.mark.spec("X3")
def test_waiting_for_a_person_in_a_nested_call_pauses_the_outer_timeout(tmp_path: Path) -> None:
    note, _ = recorder()

    async def slow_yes(pending: PendingCall) -> Answer:
        later = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(2.5, later.set_result, None)
        await later
        return Answer(kind="approve", by="ann")

    async def outer(args: Any, ctx: Any) -> Result:
        return await ctx.call("note", {"text": "x"})

    outside = Tool(name="outer", execute=outer, effects=frozenset(), timeout=2.0)
    result = run(runtime_in(tmp_path, note, outside, asker=slow_yes).call("outer"))
    assert result.output == "noted x"


@pytest.mark.spec("A14", "X2")
def test_edited_arguments_pass_the_middleware(tmp_path: Path) -> None:
    note, seen = recorder()

    def no_evil(args: Any, ctx: Any) -> Deny | None:
        return Deny("no evil") if args["text"] == "evil" else None

    runtime = runtime_in(tmp_path, note, nobody="pending")
    runtime.middleware_for("note", before=no_evil)
    pending = run(runtime.call("note", {"text": "x"}))
    with pytest.raises(CallError, match="no evil"):
        run(runtime.approve(pending.call_id, args={"text": "evil"}))
    assert seen == []


@pytest.mark.spec("A12")
def test_an_approved_call_that_is_now_denied_does_not_run(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    pending = run(runtime.call("note", {"text": "x"}))

    def deny(name: str, args: Any, ctx: Any) -> str:
        return "deny"

    runtime.approvals.chain.register("too-late", deny, priority=200)
    result = run(runtime.approve(pending.call_id))
    assert (result.state, result.failure) == (State.DENIED, Failure.DENIED_BY_POLICY)
    assert seen == []


@pytest.mark.spec("X4", "X6")
def test_a_stopped_call_cannot_make_nested_calls() -> None:
    note, seen = recorder()
    timed_out = threading.Event()
    done: list[Result] = []

    def stubborn(args: Any, ctx: Any) -> str:
        timed_out.wait(20)
        done.append(ctx.call_blocking("note", {"text": "after the end"}))
        return "late"

    async def main() -> None:
        late = Tool(name="late", execute=stubborn, effects=frozenset(), timeout=0.02)
        runtime = Runtime(tools=[late, note], config=approving("note", "late"))
        assert (await runtime.call("late")).state is State.TIMED_OUT
        timed_out.set()
        for _ in range(6000):
            if done:
                break
            await asyncio.sleep(0.005)
        assert done[0].state is State.CANCELLED

    run(main())
    assert seen == []


@pytest.mark.spec("A12")
def test_a_session_grant_is_for_the_session_of_its_caller(tmp_path: Path) -> None:
    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    one, other = Caller(session="one"), Caller(session="other")
    run(runtime.call("note", {"text": "x"}, caller=one))
    run(runtime.allow(runtime.pending.list()[0], "session"))
    assert run(runtime.call("note", {"text": "x"}, caller=one)).state is State.DONE
    assert run(runtime.call("note", {"text": "x"}, caller=other)).state is State.PENDING


@pytest.mark.spec("X2")
def test_middleware_that_swallows_its_cancellation_is_abandoned(tmp_path: Path) -> None:
    async def main() -> Result:
        leave = asyncio.Event()

        async def deaf(args: Any, ctx: Any) -> None:
            while not leave.is_set():
                try:
                    await leave.wait()
                except asyncio.CancelledError:
                    continue

        runtime = Runtime(tools=[add], config=Config(tools=ToolsConfig(default_timeout=0.05)))
        runtime.middleware_for("add", before=deaf)
        result = await runtime.call("add", {"a": 1})
        leave.set()
        return result

    assert run(main()).failure is Failure.DENIED_BY_MIDDLEWARE


@pytest.mark.spec("P7")
def test_warnings_are_redacted(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        runtime = Runtime(tools=[add])
        runtime.redactor.add("api", "hunter2-secret")
        with runtime.subscribe() as events:
            runtime.events.warn("the value is hunter2-secret")
            return events.take()

    (event,) = run(main())
    assert isinstance(event, WarningRaised)
    assert event.message == "the value is [secret api]"


@pytest.mark.spec("X2")
def test_middleware_can_name_its_tool_by_the_api_name() -> None:
    dotted = Tool(name="my.tool", execute=add.execute, input_schema=add.input_schema, effects=frozenset())
    runtime = Runtime(tools=[dotted])
    runtime.middleware_for("my--tool", before=lambda args, ctx: Deny("seen"))
    assert run(runtime.call("my.tool", {"a": 1})).error == "seen"


@pytest.mark.spec("X10")
def test_a_call_that_cannot_be_recorded_is_not_run_and_an_unrecorded_result_is_not_acknowledged(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, add, config=approving("note"), nobody="pending")
    assert runtime.ledger is not None
    runtime.ledger.run(lambda tx: None)
    full = sqlite3.connect(runtime.ledger.path, timeout=0.01)
    full.execute("BEGIN IMMEDIATE")
    try:
        refused = run(runtime.call("note", {"text": "x"}))
        pure = run(runtime.call("add", {"a": 1}))
    finally:
        full.rollback()
        full.close()
    assert (refused.success, refused.failure) == (False, Failure.LEDGER)
    assert (pure.success, pure.failure) == (False, Failure.LEDGER)
    assert seen == []
    assert run(runtime.call("note", {"text": "y"})).output == "noted y"
    assert runtime.ledger.verify().ok
