"""Middleware changes, refuses and replaces; middleware that fails denies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import Config, Deny, Result, Runtime, State, Tool, tool
from holdfast.config.config import ToolsConfig
from holdfast.contract.enums import Failure
from tests.runtime.support import add, approving, recorder, run, text_of


@pytest.mark.spec("X2")
def test_before_middleware_is_chained_and_its_arguments_are_validated() -> None:
    note, seen = recorder()
    runtime = Runtime(tools=[note], config=approving("note"))
    runtime.middleware_for("", before=lambda args, ctx: {"text": text_of(args) + "1"})
    runtime.middleware_for("note", before=lambda args, ctx: {"text": text_of(args) + "2"})
    assert run(runtime.call("note", {"text": "x"})).output == "noted x12"
    broken = runtime.middleware_for("note", before=lambda args, ctx: {"text": 5})
    refused = run(runtime.call("note", {"text": "x"}))
    assert (refused.state, refused.failure) == (State.DENIED, Failure.DENIED_BY_MIDDLEWARE)
    assert seen == [{"text": "x12"}]
    assert (broken.remove(), broken.remove()) == (True, False)
    assert run(runtime.call("note", {"text": "y"})).success


@pytest.mark.spec("X2")
def test_middleware_can_deny_with_a_reason_and_denies_if_it_fails() -> None:
    note, seen = recorder()

    def raises(args: Any, ctx: Any) -> None:
        raise RuntimeError("hook broke")

    async def hangs(args: Any, ctx: Any) -> None:
        await asyncio.get_running_loop().create_future()

    impatient = Config(tools=ToolsConfig(default_timeout=0.05), approval=approving("note").approval)

    def denies(args: Any, ctx: Any) -> Deny:
        return Deny("not on Sundays")

    def junk(args: Any, ctx: Any) -> str:
        return "junk"

    hooks = [(denies, "not on Sundays"), (raises, "hook broke"), (hangs, "did not return"), (junk, "returned str")]
    for hook, words in hooks:
        runtime = Runtime(tools=[note], config=impatient if hook is hangs else approving("note"))
        runtime.middleware_for("note", before=hook)
        result = run(runtime.call("note", {"text": "x"}))
        assert result.state is State.DENIED
        assert words in (result.error or "")
    assert seen == []


@pytest.mark.spec("X2")
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ({"deny": True, "reason": "not on Sundays"}, "not on Sundays"),
        ({"deny": True}, "tool `t` denied by middleware"),
        ({"deny": True, "reason": "no", "code": 5}, "no"),
        ({"deny": False}, "Return None to change nothing"),
        ({"deny": "yes"}, "Return None to change nothing"),
        (True, "returned bool. Return None to change nothing, a dict to replace the arguments, or Deny(reason)"),
        ("no", "returned str. Return None to change nothing"),
    ],
)
def test_before_middleware_can_deny_with_a_dict_and_any_other_value_denies(returned: Any, words: str) -> None:
    seen: list[Any] = []

    async def execute(args: Any) -> str:
        seen.append(args)
        return "ran"

    runtime = Runtime(tools=[Tool(name="t", execute=execute, effects=frozenset())])
    runtime.middleware_for("t", before=lambda args, ctx: returned)
    result = run(runtime.call("t"))
    assert (result.state, result.failure) == (State.DENIED, Failure.DENIED_BY_MIDDLEWARE)
    assert words in (result.error or "")
    assert seen == []


@pytest.mark.spec("X2")
def test_a_tool_can_have_an_argument_called_deny() -> None:
    @tool(effects=())
    def firewall(deny: bool, port: int) -> str:
        return f"{deny} {port}"

    runtime = Runtime(tools=[firewall])
    runtime.middleware_for("firewall", before=lambda args, ctx: {"deny": True, "port": 22})
    assert run(runtime.call("firewall", {"deny": False, "port": 1})).output == "True 22"
    runtime.middleware_for("firewall", before=lambda args, ctx: {"deny": True, "reason": "closed"})
    assert run(runtime.call("firewall", {"deny": False, "port": 1})).error == "closed"


@pytest.mark.spec("X2")
def test_after_middleware_replaces_results_of_sync_async_and_nested_calls() -> None:
    @tool(effects=())
    async def inner() -> str:
        await asyncio.sleep(0)
        return "inner"

    @tool(effects=(), runs="thread")
    def blocking() -> str:
        return "blocking"

    async def outer(args: Any, ctx: Any) -> str:
        return (await ctx.call("inner")).output

    runtime = Runtime(tools=[inner, blocking, Tool(name="outer", execute=outer, effects=frozenset())])
    runtime.middleware_for("inner", after=lambda args, ctx, result: Result(True, result.output.upper()))
    runtime.middleware_for("blocking", after=lambda args, ctx, result: Result(False, error="no"))
    assert run(runtime.call("inner")).output == "INNER"
    assert run(runtime.call("outer")).output == "INNER"
    refused = run(runtime.call("blocking"))
    assert (refused.success, refused.error, refused.state) == (False, "no", State.FAILED)
    runtime.middleware_for("outer", after=lambda args, ctx, result: {"content": "hidden", "is_error": True})
    refused = run(runtime.call("outer"))
    assert (refused.success, refused.error, refused.state) == (False, "hidden", State.FAILED)


@pytest.mark.spec("X2")
def test_the_output_is_withheld_if_after_middleware_fails() -> None:
    def raises(args: Any, ctx: Any, result: Result) -> None:
        raise RuntimeError("redactor broke")

    runtime = Runtime(tools=[add])
    runtime.middleware_for("", after=raises)
    result = run(runtime.call("add", {"a": 1}))
    assert not result.success
    assert "output is withheld" in (result.error or "")
    assert result.output == ""


@pytest.mark.spec("X2")
def test_middleware_that_returns_values_that_are_not_json_denies() -> None:
    note, seen = recorder(input_schema={"type": "object"})
    runtime = Runtime(tools=[note], config=approving("note"))

    def junk(args: Any, ctx: Any) -> Any:
        return {"text": [object()]}

    runtime.middleware_for("note", before=junk)
    assert run(runtime.call("note", {})).failure is Failure.DENIED_BY_MIDDLEWARE
    assert seen == []
