"""Plan mode: calls that would change something are proposed and not run, whatever approves them."""

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
def test_plan_mode_shows_the_diff_of_a_write_and_writes_nothing(tmp_path: Path) -> None:
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
def test_plan_mode_runs_tools_that_only_read(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("eggs\n")

    async def session() -> None:
        async with Runtime(builtin_tools(), config=ALL, root=tmp_path, rules=Rules(plan=True)) as runtime:
            assert "eggs" in (await runtime.call("file.read", {"path": "list.txt"})).output
            assert (await runtime.call("calculator", {"expression": "6 * 7"})).output == "42"

    run(session())


@pytest.mark.spec("X17")
@settings(max_examples=60, deadline=None)
@given(effects=st.none() | st.frozensets(st.sampled_from(sorted(EFFECTS))))
def test_plan_mode_runs_only_tools_with_reading_effects(effects: frozenset[str] | None) -> None:
    made, seen = recorder(effects=effects)

    async def session() -> None:
        async with Runtime([made], config=ALL, rules=Rules(plan=True)) as runtime:
            await runtime.call("note", {"text": "x"})

    run(session())
    reads_only = effects is not None and effects <= {"fs.read", "person"}
    assert len(seen) == (1 if reads_only else 0)


@pytest.mark.spec("X17")
def test_plan_mode_applies_to_nested_calls() -> None:
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
def test_a_planned_call_is_recorded_and_uses_no_grant(tmp_path: Path) -> None:
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
def test_judge_reports_plan_mode() -> None:
    made, seen = recorder()

    async def session() -> None:
        async with Runtime([made], config=ALL, rules=Rules(plan=True)) as runtime:
            decision = await runtime.judge("note", {"text": "x"})
            assert decision is not None and decision.source == "plan"

    run(session())
    assert seen == []
