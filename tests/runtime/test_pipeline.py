"""The pipeline: its order, its refusals, and one result whatever a tool does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast import Caller, Config, Proposal, Result, Risk, Runtime, State, Tool, tool
from holdfast.config.config import PolicyLayer, ToolsConfig
from holdfast.contract.enums import Failure
from holdfast.contract.json import MAX_ARGUMENT_BYTES
from tests.runtime.support import add, approving, recorder, run, runtime_in


@pytest.mark.spec("T4", "X1")
def test_a_pure_tool_runs_and_its_value_is_the_output() -> None:
    result = run(Runtime(tools=[add]).call("add", '{"a": 2, "b": 3}'))
    assert (result.success, result.output, result.structured, result.state) == (True, "5", 5, State.DONE)
    assert result.exit_code == 0


@pytest.mark.spec("X1", "P5")
def test_a_tool_hidden_by_policy_is_refused_before_validation() -> None:
    secret, seen = recorder("secret_tool")
    runtime = Runtime(tools=[secret], config=Config(tools=ToolsConfig(deny=("secret_tool",))))
    result = run(runtime.call("secret_tool", {"wrong": 1}))
    assert result.error == "Tool 'secret_tool' is not allowed by tool policy"
    assert result.exit_code == 3
    assert "text" not in result.error
    assert runtime.visible() == []
    assert seen == []


@pytest.mark.spec("P4", "P5")
def test_an_agent_with_fewer_tools_neither_sees_nor_runs_the_others() -> None:
    config = Config(tools=ToolsConfig(agents={"fast": PolicyLayer(deny=("add",))}))
    runtime = Runtime(tools=[add], config=config)
    fast = Caller(agent="fast")
    assert [item.name for item in runtime.visible()] == ["add"]
    assert runtime.visible(fast) == []
    assert run(runtime.call("add", {"a": 1})).success
    assert run(runtime.call("add", {"a": 1}, caller=fast)).failure is Failure.NOT_ALLOWED


@pytest.mark.spec("R6")
def test_a_misspelt_tool_gets_a_suggestion_the_caller_may_see() -> None:
    hidden, _ = recorder("addd")
    runtime = Runtime(tools=[add, hidden], config=Config(tools=ToolsConfig(deny=("addd",))))
    result = run(runtime.call("adddd", {"a": 1}))
    assert result.error == "There is no tool 'adddd'. Did you mean 'add'?"
    assert result.exit_code == 2


@pytest.mark.spec("S1", "X1")
def test_arguments_are_validated_before_the_tool_runs() -> None:
    note, seen = recorder()
    proposed: list[Any] = []
    runtime = Runtime(tools=[note], config=approving("note"))
    runtime.middleware_for("note", before=lambda args, ctx: proposed.append(args))
    result = run(runtime.call("note", {"txet": "x"}))
    assert result.failure is Failure.INVALID_ARGUMENTS
    assert result.error is not None
    assert "text is missing" in result.error
    assert "did you mean text?" in result.error
    assert (seen, proposed) == ([], [])


@pytest.mark.spec("S4", "S6")
def test_harmless_mistakes_are_corrected_on_a_copy() -> None:
    given = {"a": "2"}
    assert run(Runtime(tools=[add]).call("add", given)).output == "2"
    assert given == {"a": "2"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("[1]", "must be a JSON object, not a list"),
        ("null", "not null"),
        ("{", "not valid JSON"),
        ('{"a": 1, "a": 2}', "duplicate"),
        ('{"a": NaN}', "not valid JSON"),
        ("[" * 10_000, "not valid JSON"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        (3, "not int"),
        (b"\xff{}", "not valid JSON"),
    ],
)
@pytest.mark.spec("S5")
def test_invalid_json_has_its_own_failure(arguments: Any, words: str) -> None:
    result = run(Runtime(tools=[add]).call("add", arguments))
    assert result.failure is Failure.BAD_JSON
    assert result.error is not None
    assert words in result.error
    assert result.exit_code == 2


class _Odd(BaseException):
    pass


RAISED = [ValueError("no luck"), _Odd("odd"), SystemExit(3), KeyboardInterrupt(), StopIteration(5)]


@pytest.mark.parametrize("error", RAISED)
@pytest.mark.parametrize("runs", ["inline", "thread"])
@pytest.mark.spec("T4")
def test_any_exception_of_a_tool_is_an_error_result(error: BaseException, runs: Any) -> None:
    def execute(args: Any) -> str:
        raise error

    broken = Tool(name="broken", execute=execute, effects=frozenset(), runs=runs)
    result = run(Runtime(tools=[broken, add]).call("broken"))
    assert (result.success, result.state, result.failure) == (False, State.FAILED, Failure.TOOL_ERROR)
    name = type(error).__name__
    assert result.error == (f"{name}: {error}" if str(error) else name)


@pytest.mark.spec("T4")
def test_an_async_tool_that_cancels_itself_does_not_cancel_its_caller() -> None:
    @tool(effects=())
    async def gives_up() -> str:
        await asyncio.sleep(0)
        raise asyncio.CancelledError

    result = run(Runtime(tools=[gives_up]).call("gives_up"))
    assert result.error == "CancelledError"


@pytest.mark.parametrize("junk", [object(), {1, object()}, lambda: 1, {"a": object()}])
@pytest.mark.spec("T4")
def test_an_unusable_return_value_is_an_error_that_names_its_type(junk: object) -> None:
    def execute(args: Any) -> Any:
        return junk

    broken = Tool(name="broken", execute=execute, effects=frozenset(), runs="inline")
    result = run(Runtime(tools=[broken]).call("broken"))
    assert result.failure is Failure.INVALID_OUTPUT
    assert result.error is not None
    assert type(junk).__name__ in result.error


@pytest.mark.spec("T4")
def test_a_tool_cannot_set_the_state_of_its_result() -> None:
    def execute(args: Any) -> Result:
        return Result(False, error="denied, honest", state=State.DENIED, call_id="forged")

    liar = Tool(name="liar", execute=execute, effects=frozenset(), runs="inline")
    result = run(Runtime(tools=[liar]).call("liar"))
    assert result.state is State.FAILED
    assert result.call_id != "forged"


@pytest.mark.spec("T9", "T11")
def test_structured_output_is_kept_and_validated() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def returning(name: str, value: Any) -> Tool:
        def execute(args: Any) -> Any:
            return value

        return Tool(name=name, execute=execute, output_schema=schema, effects=frozenset(), runs="inline")

    good, bad = returning("good", {"n": 1}), returning("bad", {"n": "x"})
    runtime = Runtime(tools=[good, bad])
    assert run(runtime.call("good")).structured == {"n": 1}
    assert run(runtime.call("good")).output == '{"n":1}'
    refused = run(runtime.call("bad"))
    assert refused.failure is Failure.INVALID_OUTPUT
    assert refused.error is not None
    assert "n is 'x' but must be integer" in refused.error


@pytest.mark.spec("T1")
def test_a_tool_needs_only_a_name_and_execute() -> None:
    def execute(args: Any) -> str:
        return "hi"

    runtime = Runtime(tools=[{"name": "hello", "execute": execute, "effects": ()}])
    assert run(runtime.call("hello")).output == "hi"
    found = runtime.registry.get("hello")
    assert found is not None
    assert (found.description, found.input_schema) == ("", {"type": "object", "properties": {}})


@pytest.mark.spec("R4")
def test_a_call_waits_for_sources_that_are_still_loading() -> None:
    async def source(register: Any, done: Any) -> None:
        await asyncio.sleep(0)
        register("late", {"execute": add.execute, "effects": ()})
        done()

    async def main() -> tuple[Result, list[Any]]:
        runtime = Runtime(tools=[source])
        with runtime.subscribe() as events:
            async with runtime:
                return await runtime.call("late", {"a": 7}), events.take()

    result, events = run(main())
    assert result.output == "7"
    assert "Waiting for tool definitions to load..." in [getattr(event, "message", "") for event in events]


@pytest.mark.spec("P4")
def test_a_skill_has_only_the_tools_of_its_manifest(tmp_path: Path) -> None:
    note, _ = recorder(effects=frozenset())
    (tmp_path / "summing").mkdir()
    (tmp_path / "summing" / "manifest.json").write_text('{"permissions": {"tools": ["add"]}}')
    (tmp_path / "silent").mkdir()
    skills = {name: str(tmp_path / name) for name in ("summing", "silent")}
    runtime = Runtime(tools=[add, note], config=Config(tools=ToolsConfig(skills=skills)))
    summing, silent, unheard = (Caller(skill=name) for name in ("summing", "silent", "unheard"))
    assert run(runtime.call("add", {"a": 1}, caller=summing)).success
    assert run(runtime.call("note", {"text": "x"}, caller=summing)).failure is Failure.NOT_ALLOWED
    assert run(runtime.call("add", {"a": 1}, caller=silent)).failure is Failure.NOT_ALLOWED
    assert run(runtime.call("add", {"a": 1}, caller=unheard)).failure is Failure.NOT_ALLOWED


@pytest.mark.spec("R6")
def test_a_misspelt_name_in_the_configuration_is_a_warning_with_a_suggestion(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runtime = Runtime(tools=[add], config=Config(tools=ToolsConfig(deny=("adda",))))
    assert runtime.warnings() == ["tools.deny names 'adda', but there is no such tool or group. Did you mean 'add'?"]

    async def enter() -> None:
        async with runtime:
            pass

    run(enter())
    assert [record.getMessage() for record in caplog.records if record.name == "holdfast"] == runtime.warnings()


@pytest.mark.parametrize("effects", [frozenset[str](), frozenset({"external"})])
@pytest.mark.spec("S4")
def test_the_ledger_stores_the_original_arguments(tmp_path: Path, effects: frozenset[str]) -> None:
    numbers = Tool(
        name="numbers",
        execute=add.execute,
        input_schema=add.input_schema,
        effects=effects,
    )
    runtime = runtime_in(tmp_path, numbers, config=approving("numbers"))
    slipped = run(runtime.call("numbers", '{"a": "2"}'))
    plain = run(runtime.call("numbers", {"a": 2}))
    assert runtime.ledger is not None
    first, second = runtime.ledger.call(slipped.call_id).call, runtime.ledger.call(plain.call_id).call
    assert (first.args, first.original) == ({"a": 2}, {"a": "2"})
    assert (second.args, second.original) == ({"a": 2}, None)


class _View(Mapping[str, Any]):
    """A mapping that is not a dict."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@pytest.mark.spec("S5")
def test_values_that_are_not_json_are_refused_in_any_mapping() -> None:
    async def execute(args: Any) -> str:
        raise AssertionError

    open_schema = Tool(name="open", execute=execute, effects=frozenset())
    runtime = Runtime(tools=[open_schema])
    for value in (float("nan"), float("inf"), object(), "\ud800", {1: 2}):
        for given in ({"x": value}, _View({"x": value}), {"x": [value]}):
            assert run(runtime.call("open", given)).failure is Failure.INVALID_ARGUMENTS, repr(value)


@pytest.mark.parametrize(
    "fields",
    [
        {"output": 5},
        {"output": None},
        {"error": 5},
        {"structured": object()},
        {"metadata": None},
        {"metadata": {"a": object()}},
        {"attachments": ["not one"]},
        {"success": "yes"},
    ],
)
@pytest.mark.spec("T4")
def test_a_result_with_invalid_fields_is_an_error(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def execute(args: Any) -> Result:
        values: dict[str, Any] = {"success": True, **fields}
        return Result(**values)

    junk = Tool(name="junk", execute=execute, effects=frozenset())
    result = run(runtime_in(tmp_path, junk).call("junk"))
    assert (result.state, result.failure) == (State.FAILED, Failure.INVALID_OUTPUT)


@pytest.mark.parametrize(
    "fields",
    [{"payload": {"a": object()}}, {"payload": None}, {"summary": 5}, {"risk": "enormous"}, {"preconditions": [1]}],
)
@pytest.mark.spec("T5")
def test_a_proposal_with_invalid_fields_is_an_error(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def propose(args: Any, ctx: Any) -> Proposal:
        values: dict[str, Any] = {"tool_name": "junk", "summary": "s", "risk": Risk.LOW, "payload": {}, **fields}
        return Proposal(**values)

    async def apply(payload: Any, ctx: Any) -> str:
        raise AssertionError

    junk = Tool(name="junk", propose=propose, apply=apply)
    result = run(runtime_in(tmp_path, junk, nobody="pending").call("junk"))
    assert (result.state, result.failure) == (State.FAILED, Failure.INVALID_OUTPUT)


@pytest.mark.spec("S5")
def test_arguments_that_are_too_long_are_refused_at_any_depth(tmp_path: Path) -> None:
    note, seen = recorder(input_schema={"type": "object"})
    runtime = runtime_in(tmp_path, note, config=approving("note"))
    long = "x" * (MAX_ARGUMENT_BYTES + 1)
    for args in ({"text": long}, {"text": [long]}, {"text": {"deep": [long]}}, f'{{"text": "{long}"}}'):
        result = run(runtime.call("note", args))
        assert result.failure is Failure.BAD_JSON
        assert len(result.error or "") < 300
    assert seen == []


@pytest.mark.spec("R10")
def test_a_tool_that_needs_a_project_says_so_unless_it_is_denied() -> None:
    rooted, _ = recorder(needs_root=True)
    runtime = Runtime(tools=[rooted])
    told = "Tool 'note' needs a project, and there is none here. Give the runtime one: Runtime(root=...)."
    assert run(runtime.call("note")).error == told
    denied = Runtime(tools=[rooted], config=Config(tools=ToolsConfig(deny=("note",))))
    assert "There is no tool 'note'." in (run(denied.call("note")).error or "")


@pytest.mark.spec("P5", "S3")
def test_the_tool_list_is_cached_until_a_change_and_respects_the_policy() -> None:
    hidden, _ = recorder("hidden")
    runtime = Runtime(tools=[add, hidden], config=Config(tools=ToolsConfig(deny=("hidden",))))
    listed = runtime.tool_list("anthropic")
    assert [item["name"] for item in listed] == ["add"]
    assert runtime.tool_list("anthropic") is listed
    handle = runtime.register(recorder("more")[0])
    assert [item["name"] for item in runtime.tool_list("anthropic")] == ["add", "more"]
    handle.remove()
    assert [item["name"] for item in runtime.tool_list("openai")] == ["add"]


@pytest.mark.spec("R4")
def test_a_failing_closer_does_not_prevent_the_others() -> None:
    order: list[str] = []

    def leaving(name: str, error: BaseException | None = None) -> Callable[[], Awaitable[None]]:
        async def leave() -> None:
            order.append(name)
            if error is not None:
                raise error

        return leave

    async def never(register: Any, done: Any) -> None:
        await asyncio.Event().wait()

    runtime = Runtime([never])

    async def work() -> None:
        async with runtime:
            events = runtime.subscribe()
            runtime.on_close(lambda: order.append("closed"))
            for name, error in (("a", None), ("b", OSError("broken")), ("c", asyncio.CancelledError())):
                runtime.on_close(leaving(name, error))
            assert not runtime.registry.ready
        async for _ in events:
            pass

    with pytest.raises((OSError, asyncio.CancelledError)):
        run(work())
    assert order == ["c", "b", "a", "closed"]
    assert runtime.registry.ready, "the sources are given up too"


@pytest.mark.spec("T1", "B6a")
def test_results_from_an_untrusted_source_are_marked_and_a_tool_cannot_remove_the_mark() -> None:
    async def execute(args: Any) -> Result:
        return Result(True, "page", metadata={"untrusted": []})

    page = Tool(name="page", execute=execute, effects=frozenset(), sources=("web",))
    result = run(Runtime([page]).call("page"))
    assert result.metadata["untrusted"] == ["web"]


@pytest.mark.spec("T1", "B9h")
@pytest.mark.parametrize("success", [True, False])
def test_a_result_of_propose_is_marked_like_one_of_a_call_that_ran(success: bool) -> None:
    async def propose(args: Any, ctx: Any) -> Result:
        return Result(success, "a list of a stranger", None if success else "words of a stranger", metadata={})

    async def apply(payload: Any, ctx: Any) -> Result:
        raise AssertionError

    page = Tool(name="page", propose=propose, apply=apply, effects=frozenset({"external"}), sources=("web",))
    result = run(Runtime([page]).call("page"))
    assert (result.success, result.metadata["untrusted"]) == (success, ["web"])
