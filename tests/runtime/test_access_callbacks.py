"""`execute(args, ctx, callback)`: a tool that finishes later and returns a function that cancels its work."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast import Config, Runtime, State, Tool, define
from holdfast.config.config import ToolsConfig
from holdfast.contract.errors import ToolError
from holdfast.contract.event import Started
from tests.runtime.support import run

PURE: frozenset[str] = frozenset()


def result_of(execute: Any, **fields: Any) -> Any:
    return run(Runtime(tools=[define(name="later", execute=execute, effects=PURE, **fields)]).call("later"))


@pytest.mark.spec("T4")
@pytest.mark.parametrize("runs", ["thread", "inline"])
def test_the_first_callback_from_any_thread_is_the_result(runs: str) -> None:
    def execute(args: Any, ctx: Any, callback: Any) -> Any:
        def work() -> None:
            callback({"success": True, "output": "first"})
            callback("second")

        threading.Thread(target=work).start()
        return lambda: None

    assert result_of(execute, runs=runs).output == "first"
    assert result_of(execute, runs=runs, **{"async": True}).output == "first"


@pytest.mark.spec("T4")
def test_a_coroutine_function_may_use_the_callback_or_return_the_result() -> None:
    async def later(args: Any, ctx: Any, callback: Any) -> None:
        asyncio.get_running_loop().call_soon(callback, {"content": "no such host", "is_error": True})

    def at_once(args: Any, ctx: Any, callback: Any) -> str:
        return "at once"

    failed = result_of(later)
    assert (failed.success, failed.error, failed.state) == (False, "no such host", State.FAILED)
    assert result_of(at_once).output == "at once"


@pytest.mark.spec("T4", "X4")
def test_the_cancel_function_is_called_once_on_cancel_and_on_timeout() -> None:
    cancelled: list[str] = []
    each = threading.Semaphore(0)

    def execute(args: Any, ctx: Any, callback: Any) -> Any:
        def cancel() -> None:
            cancelled.append(ctx.call_id)
            each.release()

        return cancel

    later = Tool(name="later", execute=execute, effects=PURE)

    async def scene() -> list[Any]:
        runtime = Runtime(tools=[later], config=Config(tools=ToolsConfig(default_timeout=0.05)))
        late = await runtime.call("later")
        patient = Runtime(tools=[later])
        with patient.subscribe() as events:
            call = asyncio.create_task(patient.call("later", call_id="mine"))
            async for event in events:
                if isinstance(event, Started):
                    break
            assert patient.cancel("mine")
        return [late, await call]

    late, stopped = run(scene())
    assert (late.state, stopped.state) == (State.TIMED_OUT, State.CANCELLED)
    assert each.acquire(timeout=30) and each.acquire(timeout=30)
    assert sorted(cancelled) == sorted([late.call_id, "mine"])


@pytest.mark.spec("T4", "X4")
@pytest.mark.parametrize("cancels", [True, False])
def test_cancelling_the_callers_task_calls_the_cancel_function(cancels: bool) -> None:
    begun, ended = threading.Event(), threading.Event()

    def with_function(args: Any, ctx: Any, callback: Any) -> Any:
        begun.set()
        return ended.set

    def looking(args: Any, ctx: Any) -> None:
        ctx.on_cancel(ended.set)
        begun.set()
        assert ended.wait(30) and ctx.cancelled

    async def scene() -> None:
        runtime = Runtime(tools=[define(name="later", execute=with_function if cancels else looking, effects=PURE)])
        call = asyncio.create_task(runtime.call("later"))
        await asyncio.to_thread(begun.wait, 30)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await asyncio.to_thread(ended.wait, 30)

    run(scene())


@pytest.mark.spec("T4", "X4")
def test_work_that_starts_after_the_call_was_stopped_is_cancelled() -> None:
    gate, cancelled = threading.Event(), threading.Event()

    def execute(args: Any, ctx: Any, callback: Any) -> Any:
        gate.wait(30)
        return cancelled.set

    runtime = Runtime(tools=[Tool(name="later", execute=execute, effects=PURE, timeout=0.05)])
    assert run(runtime.call("later")).state is State.TIMED_OUT
    gate.set()
    assert cancelled.wait(30)


@pytest.mark.spec("T4", "T3")
def test_a_definition_can_declare_whether_it_is_async() -> None:
    def plain(args: Any, ctx: Any) -> dict[str, Any]:
        return {"success": True, "output": "done"}

    def optional(args: Any, ctx: Any, callback: Any = None) -> str:
        return f"callback={callback}"

    assert result_of(plain, **{"async": False}).output == "done"
    assert result_of(optional, **{"async": False}).output == "callback=None"
    with pytest.raises(ToolError, match=r"takes no callback: use execute\(args, ctx, callback\)"):
        define({"name": "x", "execute": plain, "async": True})
    with pytest.raises(ToolError, match="must be true or false, not 'no'"):
        define({"name": "x", "execute": plain, "async": "no"})
    with pytest.raises(ToolError, match="cannot take a callback"):
        define(name="x", execute=optional, runs="process")
