"""A pending call passes every stage again before it runs, whichever way it comes to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Config, PendingCall, Result, Runtime, State, Tool
from holdfast.config.config import ToolsConfig
from holdfast.contract.call import Caller
from holdfast.contract.enums import Failure
from holdfast.contract.event import Finished, Pending
from holdfast.runtime.middleware import Deny
from tests.runtime.support import recorder, run, runtime_in, until_pending

Way = Callable[[Path, Tool, "Change", Caller | None], tuple[Result, Runtime]]


class Change:
    """What changes before the approved call runs: the tool, the configuration, or the middleware."""

    def __init__(
        self,
        *,
        tool: Tool | None = None,
        config: Config | None = None,
        before: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        self.tool = tool
        self.config = config
        self.before = before

    def apply(self, runtime: Runtime) -> None:
        if self.before is not None:
            runtime.middleware_for("note", before=self.before)


def _pending(folder: Path, tool: Tool, caller: Caller | None) -> PendingCall:
    first = runtime_in(folder, tool, nobody="pending")
    result = run(first.call("note", {"text": "hello"}, caller=caller))
    assert result.state is State.PENDING
    (pending,) = first.pending.list()
    return pending


def approved_in_another_process(
    folder: Path, tool: Tool, change: Change, caller: Caller | None
) -> tuple[Result, Runtime]:
    pending = _pending(folder, tool, caller)
    second = runtime_in(folder, change.tool or tool, config=change.config)
    change.apply(second)
    return run(second.approve(pending.call.id)), second


def approved_while_its_program_was_away(
    folder: Path, tool: Tool, change: Change, caller: Caller | None
) -> tuple[Result, Runtime]:
    pending = _pending(folder, tool, caller)
    absent = runtime_in(folder)
    run(absent.approve(pending.call.id))
    second = runtime_in(folder, change.tool or tool, config=change.config)
    change.apply(second)
    (result,) = run(second.lifecycle.resume_all())
    return result, second


def approved_while_its_caller_waits(
    folder: Path, tool: Tool, change: Change, caller: Caller | None
) -> tuple[Result, Runtime]:
    runtime = runtime_in(folder, tool, nobody="wait")

    async def session() -> Result:
        pending, task = await until_pending(runtime, runtime.call("note", {"text": "hello"}, caller=caller))
        if change.tool is not None:
            runtime.register(change.tool, replace=True)
        change.apply(runtime)
        with runtime.subscribe() as events:
            await runtime.lifecycle.answer(pending.call.id, Answer(kind="approve", by="ann"), digest=pending.digest)
            async for event in events:
                if isinstance(event, Finished):
                    return await task
                if isinstance(event, Pending):
                    break
        task.cancel()
        return Result(False, state=State.PENDING, failure=Failure.STALE)

    return run(session()), runtime


WAYS: list[Way] = [
    approved_in_another_process,
    approved_while_its_program_was_away,
    approved_while_its_caller_waits,
]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def deny(args: Any, ctx: Any) -> Deny:
    return Deny("not today")


def fail(args: Any, ctx: Any) -> None:
    raise RuntimeError("broken")


def nonsense(args: Any, ctx: Any) -> dict[str, Any]:
    return {"text": 5}


def shout(args: Any, ctx: Any) -> dict[str, Any]:
    return {"text": args["text"] + "!"}


@pytest.mark.spec("A12", "X2")
@every_way
@pytest.mark.parametrize("hook", [deny, fail, nonsense])
def test_middleware_that_now_denies_refuses_the_call(tmp_path: Path, way: Way, hook: Callable[[Any, Any], Any]) -> None:
    note, seen = recorder()
    result, runtime = way(tmp_path, note, Change(before=hook), None)
    assert (result.state, result.failure) == (State.DENIED, Failure.DENIED_BY_MIDDLEWARE)
    assert seen == []
    assert runtime.pending.list() == []


@pytest.mark.spec("A12", "X2")
@every_way
def test_middleware_that_now_changes_the_arguments_makes_the_call_pending_again(tmp_path: Path, way: Way) -> None:
    note, seen = recorder()
    result, runtime = way(tmp_path, note, Change(before=shout), None)
    assert (result.state, result.failure) == (State.PENDING, Failure.STALE)
    assert seen == []
    if way is not approved_while_its_caller_waits:  # there the caller withdraws it
        assert runtime.pending.list()[0].call.args == {"text": "hello!"}


@pytest.mark.spec("A12", "X2")
def test_middleware_gets_the_original_arguments_again(tmp_path: Path) -> None:
    note, seen = recorder()
    for number in range(2):
        runtime = runtime_in(tmp_path, note, nobody="pending")
        runtime.middleware_for("note", before=shout)
        pending = run(runtime.call("note", {"text": f"hello {number}"}))
        again = runtime_in(tmp_path, note)
        again.middleware_for("note", before=shout)
        assert run(again.approve(pending.call_id)).success
    assert seen == [{"text": "hello 0!"}, {"text": "hello 1!"}]


@pytest.mark.spec("S1", "A12")
@every_way
def test_arguments_that_the_schema_now_refuses_do_not_run(tmp_path: Path, way: Way) -> None:
    note, seen = recorder()
    stricter = note.with_(
        input_schema={
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": 2}},
            "required": ["text"],
            "additionalProperties": False,
        }
    )
    result, runtime = way(tmp_path, note, Change(tool=stricter), None)
    assert (result.state, result.failure) == (State.INVALID, Failure.INVALID_ARGUMENTS)
    assert seen == []
    assert runtime.pending.list() == []


@pytest.mark.spec("S1", "A12")
def test_a_second_approval_does_not_run_arguments_that_the_schema_refuses(tmp_path: Path) -> None:
    """The definition changes first, then the schema; each approval is checked against the present one."""
    note, seen = recorder()
    pending = _pending(tmp_path, note, None)
    described = note.with_(description="Write a note, and mail it.")
    assert run(runtime_in(tmp_path, described).approve(pending.call.id)).failure is Failure.STALE
    schema = {"type": "object", "properties": {"text": {"type": "integer"}}, "required": ["text"]}
    result = run(runtime_in(tmp_path, described.with_(input_schema=schema)).approve(pending.call.id))
    assert result.state is State.INVALID
    assert seen == []


@pytest.mark.spec("A12")
@every_way
def test_a_secret_scope_that_is_now_missing_refuses_the_call(tmp_path: Path, way: Way) -> None:
    note, seen = recorder()
    wants = note.with_(required_secret_scopes=("github",))
    result, runtime = way(tmp_path, note, Change(tool=wants), Caller(session="s"))
    assert (result.state, result.failure) == (State.DENIED, Failure.SECRET_UNAVAILABLE)
    assert seen == []
    assert runtime.pending.list() == []


@pytest.mark.spec("A12")
@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way.__name__)
def test_a_tool_that_the_policy_now_forbids_is_denied(tmp_path: Path, way: Way) -> None:
    note, seen = recorder()
    result, runtime = way(tmp_path, note, Change(config=Config(tools=ToolsConfig(deny=("note",)))), None)
    assert (result.state, result.failure) == (State.DENIED, Failure.NOT_ALLOWED)
    assert seen == []
    assert runtime.pending.list() == []


@pytest.mark.spec("A12")
def test_a_tool_that_was_removed_meanwhile_does_not_run(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, nobody="wait")
    handle = runtime.register(note)

    async def session() -> Result:
        pending, task = await until_pending(runtime, runtime.call("note", {"text": "hello"}))
        handle.remove()
        await runtime.lifecycle.answer(pending.call.id, Answer(kind="approve", by="ann"), digest=pending.digest)
        return await task

    result = run(session())
    assert (result.state, result.failure) == (State.INVALID, Failure.UNKNOWN_TOOL)
    assert seen == []


@pytest.mark.spec("A12")
@every_way
def test_a_tool_that_now_has_no_code_makes_the_call_wait_for_a_result(tmp_path: Path, way: Way) -> None:
    note, seen = recorder()
    result, runtime = way(tmp_path, note, Change(tool=note.with_(execute=None)), None)
    assert result.state is State.PENDING
    assert seen == []
    if way is not approved_while_its_caller_waits:
        assert runtime.pending.list()[0].definition_only


@pytest.mark.spec("A12", "A13a")
@every_way
def test_an_unchanged_pending_call_runs_once_with_its_middleware(tmp_path: Path, way: Way) -> None:
    note, seen = recorder()
    saw: list[Any] = []
    result, _ = way(tmp_path, note, Change(before=lambda args, ctx: saw.append(dict(args))), None)
    assert result.output == "noted hello"
    assert seen == saw == [{"text": "hello"}]
