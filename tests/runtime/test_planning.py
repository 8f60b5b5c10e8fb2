"""A session that only plans: what would change something is proposed and not run, whoever would have approved it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Config, Context, Runtime, State, Tool, Verdict
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import EFFECTS, Failure
from holdfast.contract.json import Args
from holdfast.runtime.runtime import Rules
from holdfast.store.ledger import Ledger
from holdfast.tools import builtin_tools
from tests.runtime.support import recorder, run

ALL = Config(approval=ApprovalConfig(auto_approve=("*",), require_approval=False))


@pytest.mark.spec("X17")
def test_a_planning_session_proposes_a_write_with_its_diff_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("eggs\n")

    async def session() -> None:
        async with Runtime(builtin_tools(), config=ALL, root=tmp_path, rules=Rules(plan=True)) as runtime:
            result = await runtime.call("file.write", {"path": "list.txt", "content": "milk\n"})
            assert result.state is State.DENIED and result.failure is Failure.PLANNED
            assert "nothing was run or changed" in result.text and "-eggs" in result.text and "+milk" in result.text
            ran = await runtime.call("shell.exec", {"command": "touch planted"})
            assert ran.failure is Failure.PLANNED and "touch planted" in ran.text
            assert not runtime.pending.list()

    run(session())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["list.txt"]
    assert (tmp_path / "list.txt").read_text() == "eggs\n"


@pytest.mark.spec("X17")
def test_a_planning_session_still_reads_and_calculates(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("eggs\n")

    async def session() -> None:
        async with Runtime(builtin_tools(), config=ALL, root=tmp_path, rules=Rules(plan=True)) as runtime:
            assert "eggs" in (await runtime.call("file.read", {"path": "list.txt"})).output
            assert (await runtime.call("calculator", {"expression": "6 * 7"})).output == "42"

    run(session())


@pytest.mark.spec("X17")
@settings(max_examples=60, deadline=None)
@given(effects=st.none() | st.frozensets(st.sampled_from(sorted(EFFECTS))))
def test_whatever_a_tool_declares_only_reading_runs_in_a_plan(effects: frozenset[str] | None) -> None:
    made, seen = recorder(effects=effects)

    async def session() -> None:
        async with Runtime([made], config=ALL, rules=Rules(plan=True)) as runtime:
            await runtime.call("note", {"text": "x"})

    run(session())
    reads_only = effects is not None and effects <= {"fs.read", "person"}
    assert len(seen) == (1 if reads_only else 0)


@pytest.mark.spec("X17")
def test_a_tool_that_runs_in_a_plan_cannot_change_things_through_a_nested_call() -> None:
    made, seen = recorder()

    async def ask_for_it(args: Args, ctx: Context) -> str:
        result = await ctx.call("note", {"text": "x"})
        return str(result.failure)

    outer = Tool(name="outer", execute=ask_for_it, effects=frozenset({"fs.read"}))

    async def session() -> None:
        async with Runtime([made, outer], config=ALL, rules=Rules(plan=True)) as runtime:
            assert (await runtime.call("outer")).output == "planned"

    run(session())
    assert seen == []


@pytest.mark.spec("X17")
def test_what_was_planned_is_in_the_ledger_and_uses_up_no_grant(tmp_path: Path) -> None:
    made, _ = recorder()

    async def session() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([made], ledger=ledger, rules=Rules(plan=True)) as runtime:
                result = await runtime.call("note", {"text": "x"})
            (record,) = ledger.calls()
            assert record.call.id == result.call_id
            assert record.decisions[0].source == "plan" and record.decisions[0].verdict is Verdict.DENY

    run(session())


@pytest.mark.spec("X17")
def test_judging_ahead_says_that_a_planning_session_runs_no_change() -> None:
    made, seen = recorder()

    async def session() -> None:
        async with Runtime([made], config=ALL, rules=Rules(plan=True)) as runtime:
            decision = await runtime.judge("note", {"text": "x"})
            assert decision is not None and decision.source == "plan"

    run(session())
    assert seen == []
