"""Which timeout applies to a call: units of aliases, proposals, and tools of MCP servers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Proposal, Risk, State, Tool
from holdfast.config.config import ApprovalConfig, ToolsConfig
from holdfast.contract.context import Context
from holdfast.contract.json import Args
from tests.runtime.support import approving, run, runtime_in

APPROVED = ApprovalConfig(auto_approve=("mcp:*",))
TIMED = {"type": "object", "properties": {"timeout": {"type": "number"}}}


def _shell(seen: list[float | None]) -> Tool:
    async def execute(args: Any, ctx: Any) -> str:
        seen.append(ctx.timeout)
        return "ran"

    return Tool(name="shell", execute=execute, input_schema=TIMED, aliases=("bash",), timeout_in_seconds=("bash",),
                effects=frozenset({"process"}))  # fmt: skip


@pytest.mark.spec("X3", "A13a")
@pytest.mark.parametrize(("name", "seconds"), [("bash", 5000.0), ("shell", 5.0)])
def test_a_pending_call_keeps_the_timeout_unit_of_the_alias_that_was_used(
    tmp_path: Path, name: str, seconds: float
) -> None:
    seen: list[float | None] = []

    async def work() -> State:
        async with runtime_in(tmp_path, _shell(seen), nobody="pending") as runtime:
            await runtime.call(name, {"timeout": 5000})
            return (await runtime.approve(runtime.pending.list()[0].call.id)).state

    assert run(work()) is State.DONE
    assert seen == [seconds]


@pytest.mark.spec("X3", "T5")
def test_the_timeout_argument_applies_to_apply_and_not_to_propose(tmp_path: Path) -> None:
    async def propose(args: Args, ctx: Context) -> Proposal:
        await asyncio.wait_for(asyncio.shield(asyncio.sleep(2.5)), 30)
        return Proposal(tool_name="slow", summary="slow", risk=Risk.LOW, payload={}, preview="")

    async def apply(args: Args, ctx: Context) -> str:
        return f"{ctx.timeout}"

    slow = Tool(name="slow", propose=propose, apply=apply, input_schema=TIMED, effects=frozenset({"process"}))
    result = run(runtime_in(tmp_path, slow, config=approving("slow")).call("slow", {"timeout": 2000}))
    assert (result.state, result.output) == (State.DONE, "2.0")


@pytest.mark.spec("X3", "K1")
def test_the_timeout_argument_of_an_mcp_tool_is_ignored(tmp_path: Path) -> None:
    seen: list[float | None] = []
    foreign = _shell(seen).with_(name="mcp:far:wait", aliases=(), timeout=30.0, source="mcp:far")
    runtime = runtime_in(tmp_path, foreign, config=Config(tools=ToolsConfig(profile="full"), approval=APPROVED))
    assert run(runtime.call("mcp:far:wait", {"timeout": 5})).state is State.DONE
    assert seen == [30.0]
