"""Whatever a tool, a hook, a cap or a disk raises, a call ends with a result and nothing comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Result, Runtime, State, Tool
from holdfast.contract.vocabulary import Failure
from holdfast.rules.gate import Cap, Gate
from holdfast.runtime.runtime import Rules
from tests.runtime.support import add, approving, recorder, run, runtime_in


@pytest.mark.spec("X7", "X10")
def test_an_output_that_cannot_be_kept_is_still_a_result(tmp_path: Path) -> None:
    note, _ = recorder()

    async def long(args: Any) -> str:
        return "line\n" * 5000

    printing = note.with_(name="printing", execute=long, input_schema={"type": "object"})
    runtime = runtime_in(tmp_path, printing, config=approving("printing"))
    (tmp_path / "state" / "blobs").write_text("not a folder")
    result = run(runtime.call("printing"))
    assert result.success
    assert "could not be kept" in result.output
    assert runtime.ledger is not None
    assert runtime.ledger.call(result.call_id).state is State.DONE


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.spec("T4", "X10")
def test_no_tool_brings_an_exception_out_of_the_runtime(tmp_path: Path) -> None:
    async def huge(args: Any) -> int:
        return 10**5000

    async def unspeakable(args: Any) -> str:
        raise _Unspeakable

    note, _ = recorder()
    tools = [note.with_(name=one.__name__, execute=one, input_schema={"type": "object"}) for one in (huge, unspeakable)]
    runtime = runtime_in(tmp_path, *tools, config=approving("huge", "unspeakable"))
    states = [run(runtime.call(one.name)).state for one in tools]
    assert states == [State.FAILED, State.FAILED]
    assert runtime.ledger is not None
    assert [record.state for record in runtime.ledger.calls()] == [State.FAILED, State.FAILED]


@pytest.mark.spec("X2", "X3", "S5")
def test_no_hook_cap_name_or_argument_brings_an_exception_out_of_the_runtime(tmp_path: Path) -> None:
    def odd_result(args: Any, ctx: Any, result: Result) -> Any:
        values: dict[str, Any] = {"success": True, "output": None}
        return Result(**values)

    def unspeakable(args: Any, ctx: Any) -> None:
        raise _Unspeakable

    def raises(tool: Tool) -> bool:
        raise RuntimeError("cap")

    deep: Any = []
    for _ in range(3000):
        deep = [deep]
    runtime = runtime_in(tmp_path, add)
    names: list[Any] = [None, [], 5]
    for name in names:
        assert run(runtime.call(name, {})).exit_code == 2
    assert run(runtime.call("add", {"a": deep})).failure is Failure.INVALID_ARGUMENTS
    assert run(runtime.call("add", {"a": "x", "b": 10**5000})).failure is Failure.INVALID_ARGUMENTS
    hooked = runtime.middleware_for("add", after=odd_result)
    assert "withheld" in (run(runtime.call("add", {"a": 1})).error or "")
    hooked.remove()
    hooked = runtime.middleware_for("add", before=unspeakable)
    assert run(runtime.call("add", {"a": 1})).failure is Failure.DENIED_BY_MIDDLEWARE
    hooked.remove()
    slow = Tool(name="slow", execute=add.execute, effects=frozenset(), input_schema={
        "type": "object", "properties": {"a": {"type": "integer"}, "timeout": {"type": "number"}}})  # fmt: skip
    assert run(Runtime(tools=[slow]).call("slow", {"a": 1, "timeout": 10**400})).state in (State.DONE, State.FAILED)
    gate = Gate(runtime.approvals.chain, [Cap("odd", lambda question: None, applies=raises)])
    assert run(Runtime(tools=[add], rules=Rules(gate=gate)).call("add", {"a": 1})).failure is Failure.NOBODY_TO_ASK


@pytest.mark.spec("X1", "X10")
def test_a_fault_of_our_own_ends_the_call_and_is_not_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fault(*_: Any) -> Any:
        raise ZeroDivisionError("a bug")

    note, _ = recorder()
    runtime = runtime_in(tmp_path, note, config=approving("note"))
    monkeypatch.setattr("holdfast.runtime.pipeline.to_result", fault)
    result = run(runtime.call("note", {"text": "x"}))
    assert (result.state, result.failure) == (State.UNKNOWN, Failure.INTERNAL)
    assert "please report this" in caplog.text
    assert runtime.ledger is not None
    assert runtime.ledger.call(result.call_id).state is State.UNKNOWN
