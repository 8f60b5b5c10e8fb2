"""Whatever a tool, middleware, a cap or a disk raises, a call ends with a result and the runtime does not raise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import HoldfastError, Result, Runtime, State, Tool, tool
from holdfast.contract.enums import Failure
from holdfast.rules.decider import Cap, Decider
from holdfast.runtime.runtime import Rules
from tests.runtime.support import add, approving, recorder, run, runtime_in


@pytest.mark.spec("X7", "X10")
def test_a_result_whose_output_cannot_be_stored_is_still_returned(tmp_path: Path) -> None:
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
def test_no_tool_makes_the_runtime_raise(tmp_path: Path) -> None:
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


@tool(effects=(), runs="process")
def away(key: str) -> str:
    """Looks into an empty dict, in a process of its own."""
    return dict[str, str]()[key]


@pytest.mark.spec("T4")
@pytest.mark.parametrize("runs", ["inline", "thread", "process"])
def test_the_model_gets_the_exception_and_the_log_the_traceback(
    tmp_path: Path, runs: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def look(key: str) -> str:
        return dict[str, str]()[key]

    made = away if runs == "process" else tool(effects=(), runs=runs)(look)
    runtime = runtime_in(tmp_path, made)
    result = run(runtime.call(made.name, {"key": "zz"}))
    assert (result.error, result.failure) == ("KeyError: 'zz'", Failure.TOOL_ERROR)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("holdfast", "ERROR")
    assert "return dict[str, str]()[key]" in caplog.text
    assert f"Tool '{made.name}' raised" in record.message and result.call_id in record.message
    assert runtime.ledger is not None
    stored = runtime.ledger.result(result.call_id)
    assert stored == result and stored is not None and stored.exception is None
    if runs == "process":
        assert str(result.exception) == "KeyError: 'zz'"
    else:
        assert isinstance(result.exception, KeyError) and result.exception.__traceback__ is not None


@pytest.mark.spec("T4")
def test_an_exception_is_neither_stored_nor_sent(caplog: pytest.LogCaptureFixture) -> None:
    @tool(effects=())
    def leak() -> str:
        raise ValueError("the key is correct-horse-battery")

    runtime = Runtime(tools=[leak])
    runtime.redactor.add("password", "correct-horse-battery")
    result = run(runtime.call("leak"))
    assert result.error == "ValueError: the key is [secret password]"
    assert "correct-horse-battery" not in caplog.text and "raise ValueError" in caplog.text
    assert "exception" not in msgspec.to_builtins(result) and "exception" not in msgspec.structs.asdict(result)
    assert isinstance(result.exception, ValueError)


@pytest.mark.spec("T4")
def test_a_holdfast_error_that_a_tool_passes_on_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def execute(args: Any, ctx: Any) -> str:
        return str(ctx.path.confine("/etc/passwd"))

    result = run(Runtime(tools=[Tool(name="reads", execute=execute, effects=frozenset())]).call("reads"))
    assert (result.error or "").startswith("There is no project root here")
    assert isinstance(result.exception, HoldfastError)
    assert caplog.records == []


@pytest.mark.spec("X2", "X3", "S5")
def test_no_middleware_cap_name_or_argument_makes_the_runtime_raise(tmp_path: Path) -> None:
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
    decider = Decider(runtime.approvals.chain, [Cap("odd", lambda request: None, applies=raises)])
    assert (
        run(Runtime(tools=[add], rules=Rules(decider=decider)).call("add", {"a": 1})).failure is Failure.NOBODY_TO_ASK
    )


@pytest.mark.spec("X1", "X10")
def test_an_internal_error_ends_the_call_and_is_not_raised(
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


@pytest.mark.spec("T4")
def test_a_traceback_with_a_lone_surrogate_can_be_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool(effects=())
    def halves() -> str:
        """Fails."""
        raise ValueError("half \ud800")

    run(Runtime(tools=[halves]).call("halves"))
    assert r"half \ud800" in caplog.text
    caplog.text.encode()
