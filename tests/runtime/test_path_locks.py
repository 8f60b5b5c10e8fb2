"""Concurrent and nested calls: batches, path locks, nesting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Caller, Config, Request, Result, Runtime, State, Tool
from holdfast.config.config import PolicyLayer, ToolsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.event import Output, Received, Started
from tests.runtime.support import add, approving, recorder, run, runtime_in


@pytest.mark.spec("X5")
def test_a_batch_runs_concurrently_up_to_the_limit_and_keeps_its_order() -> None:
    now, most = 0, 0

    async def execute(args: Any) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(args["turns"]):
            await asyncio.sleep(0)
        now -= 1
        return str(args["turns"])

    busy = Tool(name="busy", execute=execute, effects=frozenset())
    runtime = Runtime(tools=[busy], config=Config(tools=ToolsConfig(max_concurrent=3)))
    turns = [9, 1, 5, 0, 7, 2]
    results = run(runtime.call_many([Request("busy", {"turns": count}) for count in turns]))
    assert [result.output for result in results] == [str(count) for count in turns]
    assert most == 3


@pytest.mark.spec("X5")
def test_a_failing_call_of_a_batch_does_not_affect_the_others() -> None:
    results = run(Runtime(tools=[add]).call_many([("add", {"a": 1}), ("nope", None), ("add", {"a": 2})]))
    assert [result.state for result in results] == [State.DONE, State.INVALID, State.DONE]


def _path_tool(name: str, log: list[str], *, effects: frozenset[str]) -> Tool:
    async def execute(args: Any) -> str:
        log.append(f"+{args['id']}")
        for _ in range(3):
            await asyncio.sleep(0)
        log.append(f"-{args['id']}")
        return "ok"

    def touches(args: Any) -> list[str]:
        return [args["path"]]

    return Tool(name=name, execute=execute, effects=effects, touches=touches)


def _overlaps(log: list[str]) -> bool:
    return any(log[index][0] == log[index + 1][0] for index in range(len(log) - 1))


@pytest.mark.spec("X5")
def test_calls_that_touch_the_same_path_take_turns(tmp_path: Path) -> None:
    log: list[str] = []
    writer = _path_tool("writer", log, effects=frozenset({"fs.write"}))
    reader = _path_tool("reader", log, effects=frozenset({"fs.read"}))
    root = tmp_path.resolve()
    (root / "link").symlink_to(root / "a")

    def together(*calls: tuple[str, str]) -> list[str]:
        log.clear()
        runtime = Runtime(tools=[writer, reader], root=root, config=approving("writer", "reader"))
        results = run(
            runtime.call_many([Request(name, {"id": str(n), "path": path}) for n, (name, path) in enumerate(calls)])
        )
        assert all(result.success for result in results), results
        return log

    assert not _overlaps(together(("writer", "a"), ("writer", "a"), ("writer", "a")))
    assert not _overlaps(together(("writer", "a"), ("writer", "./b/../a")))
    assert not _overlaps(together(("writer", "a"), ("writer", "link")))
    assert not _overlaps(together(("writer", "folder"), ("writer", "folder/inside")))
    assert not _overlaps(together(("writer", "a"), ("reader", "a")))
    assert _overlaps(together(("reader", "a"), ("reader", "a")))
    assert _overlaps(together(("writer", "a"), ("writer", "b")))


@pytest.mark.spec("X5", "X6")
def test_a_nested_call_is_not_blocked_by_its_parents_path_lock(tmp_path: Path) -> None:
    log: list[str] = []
    writer = _path_tool("writer", log, effects=frozenset({"fs.write"}))

    async def outer(args: Any, ctx: Any) -> Result:
        return await ctx.call("writer", {"id": "inner", "path": "a"})

    wraps = Tool(name="outer", execute=outer, effects=frozenset({"fs.write"}), touches=lambda args: ["a"])
    runtime = Runtime(tools=[writer, wraps], root=tmp_path, config=approving("writer", "outer"))
    assert run(runtime.call("outer")).success
    assert log == ["+inner", "-inner"]


def _calling(name: str, *, effects: frozenset[str] = frozenset()) -> Tool:
    """Calls the tool that its argument names."""

    async def execute(args: Any, ctx: Any) -> Result:
        return await ctx.call(args["tool"], args.get("args"))

    return Tool(name=name, execute=execute, effects=effects)


@pytest.mark.spec("X6")
def test_the_approval_of_a_call_does_not_cover_its_nested_calls(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, _calling("outer"), note)
    result = run(runtime.call("outer", {"tool": "note", "args": {"text": "x"}}))
    assert not result.success
    assert "nobody is there to ask" in (result.error or "")
    assert seen == []
    assert runtime.ledger is not None
    inner = next(record for record in runtime.ledger.calls() if record.call.tool == "note")
    outer = next(record for record in runtime.ledger.calls() if record.call.tool == "outer")
    assert (inner.call.parent, inner.call.group, inner.state) == (outer.call.id, outer.call.id, State.DENIED)


@pytest.mark.spec("X6", "P4")
def test_a_nested_call_has_no_more_rights_than_its_caller() -> None:
    config = Config(tools=ToolsConfig(agents={"fast": PolicyLayer(deny=("add",))}))
    runtime = Runtime(tools=[_calling("outer"), add], config=config)
    asked = {"tool": "add", "args": {"a": 1}}
    assert run(runtime.call("outer", asked)).output == "1"
    assert "not allowed by tool policy" in (run(runtime.call("outer", asked, caller=Caller(agent="fast"))).error or "")


@pytest.mark.spec("X6")
def test_nesting_and_cycles_are_bounded() -> None:
    runtime = Runtime(tools=[_calling("again")], config=Config(tools=ToolsConfig(max_depth=4)))
    asked: Any = {"tool": "again"}
    asked["args"] = {"tool": "again", "args": {"tool": "again", "args": {"tool": "again", "args": {"tool": "again"}}}}
    result = run(runtime.call("again", asked))
    assert "nested deeper than 4" in (result.error or "")

    inner: list[Result] = []

    async def forever(args: Any, ctx: Any) -> str:
        inner.append(await ctx.call("forever"))
        return "came back"

    endless = Runtime(tools=[Tool(name="forever", execute=forever, effects=frozenset())])
    assert run(endless.call("forever")).output == "came back"
    assert len(inner) == 9
    assert (inner[0].failure, inner[0].state) == (Failure.TOO_DEEP, State.DENIED)


@pytest.mark.spec("X6", "X9")
def test_streamed_output_of_nested_calls_is_grouped_under_the_outermost() -> None:
    async def leaf(args: Any, ctx: Any) -> str:
        ctx.stream("from the leaf")
        return "ok"

    async def main() -> list[Any]:
        innermost = Tool(name="leaf", execute=leaf, effects=frozenset())
        runtime = Runtime(tools=[_calling("outer"), _calling("middle"), innermost])
        with runtime.subscribe() as events:
            await runtime.call("outer", {"tool": "middle", "args": {"tool": "leaf"}})
            return events.take()

    events = run(main())
    outermost = next(event.call_id for event in events if isinstance(event, Received))
    (output,) = [event for event in events if isinstance(event, Output)]
    assert output.group == outermost
    assert output.call_id != outermost
    assert [event.tool for event in events if isinstance(event, Started)] == ["outer", "middle", "leaf"]


@pytest.mark.spec("X6")
def test_a_tool_in_a_thread_can_make_nested_calls() -> None:
    def blocking(args: Any, ctx: Any) -> str:
        return "got " + ctx.call_blocking("add", {"a": 20, "b": 1}).output

    runtime = Runtime(tools=[add, Tool(name="blocking", execute=blocking, effects=frozenset())])
    assert run(runtime.call("blocking")).output == "got 21"
