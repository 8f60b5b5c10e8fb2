"""Tool access by caller, call ids, and calls of documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast import Config, Context, Runtime, State, Tool, Verdict
from holdfast.contract.enums import Failure
from holdfast.contract.errors import CallError
from holdfast.contract.json import Args
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger
from holdfast.tools import builtin_tools
from tests.runtime.support import add, approving, recorder, run


@pytest.mark.spec("U1")
@pytest.mark.parametrize(
    ("listed", "verdict"), [(("note",), Verdict.APPROVE), (("other",), Verdict.ASK)], ids=["listed", "not listed"]
)
def test_judge_returns_the_decision_without_running_or_recording(
    tmp_path: Path, listed: tuple[str, ...], verdict: Verdict
) -> None:
    made, seen = recorder()

    async def session() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([made], config=approving(*listed), ledger=ledger, nobody="pending") as runtime:
                decision = await runtime.judge("note", {"text": "x"})
                assert decision is not None and decision.verdict is verdict
                assert not runtime.pending.list() and not ledger.calls()

    run(session())
    assert seen == []


@pytest.mark.spec("U1")
@pytest.mark.parametrize(
    ("name", "args", "stage"),
    [
        ("nope", {}, "find"),
        ("note", {"txt": 1}, "validate"),
        ("note", "{broken", "validate"),
        ("hidden", {"text": "x"}, "policy"),
    ],
    ids=["unknown tool", "bad arguments", "broken JSON", "not allowed"],
)
def test_judge_names_the_stage_that_refuses_the_call(name: str, args: object, stage: str) -> None:
    made, _ = recorder()
    hidden, _ = recorder("hidden")

    async def session() -> None:
        async with Runtime([made, hidden]) as runtime:
            only = replace(runtime.caller, only=frozenset({"note"}))
            told = await runtime.judge(name, args, caller=only)  # type: ignore[arg-type]
            assert (told.verdict, told.source) == (Verdict.DENY, stage)

    run(session())


@pytest.mark.spec("P6")
def test_a_caller_limited_to_some_tools_sees_and_runs_only_those() -> None:
    made, seen = recorder()

    async def session() -> None:
        async with Runtime([add, made], config=approving("*")) as runtime:
            only = replace(runtime.caller, only=frozenset({"add"}))
            assert [tool.name for tool in runtime.visible(only)] == ["add"]
            assert [entry["name"] for entry in runtime.tool_list("openai", only)] == ["add"]
            refused = await runtime.call("note", {"text": "x"}, caller=only)
            assert refused.error == "Tool 'note' is not allowed by tool policy"
            assert refused.failure is Failure.NOT_ALLOWED
            assert (await runtime.call("add", {"a": 1, "b": 2}, caller=only)).output == "3"
            assert (await runtime.call("note", {"text": "x"})).success

    run(session())
    assert len(seen) == 1


@pytest.mark.spec("P6")
def test_the_limit_applies_to_nested_calls_and_adds_no_tools() -> None:
    made, seen = recorder()

    async def ask_for_it(args: Args, ctx: Context) -> str:
        return str((await ctx.call("note", {"text": "x"})).failure)

    outer = Tool(name="outer", execute=ask_for_it, effects=frozenset())

    async def session() -> None:
        async with Runtime([outer, made, *builtin_tools()], config=approving("*")) as runtime:
            only = replace(runtime.caller, only=frozenset({"outer", "not.there"}))
            assert (await runtime.call("outer", caller=only)).output == "not_allowed"
            assert [tool.name for tool in runtime.visible(only)] == ["outer"]

    run(session())
    assert seen == []


@pytest.mark.spec("R8")
def test_a_disabled_tool_is_available_to_a_caller_that_names_it() -> None:
    async def session() -> None:
        async with Runtime(builtin_tools()) as runtime:
            assert (await runtime.call("calculator_async", {"expression": "1+1"})).failure is Failure.UNKNOWN_TOOL
            only = replace(runtime.caller, only=frozenset({"calculator_async"}))
            result = await runtime.call("calculator_async", {"expression": "1+1"}, caller=only)
            assert result.output == "2"

    run(session())


@pytest.mark.spec("A13")
def test_a_caller_can_choose_the_call_id_before_the_call(tmp_path: Path) -> None:
    made, _ = recorder()

    async def session() -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([made], config=approving("note"), ledger=ledger) as runtime:
                call_id = runtime.pipeline.new_call_id()
                assert runtime.pending.result(call_id) is None
                result = await runtime.call("note", {"text": "x"}, call_id=call_id)
                assert result.call_id == call_id and result.state is State.DONE
                assert runtime.pending.result(call_id) == result
                again = await runtime.call("note", {"text": "y"}, call_id=call_id)
                assert not again.success and again.failure is Failure.INVALID_ARGUMENTS

    run(session())


@pytest.mark.spec("A13")
def test_a_call_of_a_document_runs_only_in_a_runtime_of_that_document(tmp_path: Path) -> None:
    made, seen = recorder()
    chat = tmp_path / "a b.chat"

    async def held_for_the_document() -> str:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([made], ledger=ledger, nobody="pending", workspace=Workspace(document=chat)) as runtime:
                caller = replace(runtime.caller, interface="chat", document=str(chat))
                return (await runtime.call("note", {"text": "x"}, caller=caller)).call_id

    async def approved_elsewhere(call_id: str) -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([made], ledger=ledger, nobody="pending") as runtime:
                with pytest.raises(CallError, match="only where its document is open"):
                    await runtime.approve(call_id, args={"text": "y"})
                result = await runtime.approve(call_id)
                assert result.state is State.APPROVED and f"holdfast chat '{chat}'" in result.text
                assert await runtime.lifecycle.resume_all() == []

    async def opened(document: Path) -> None:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime(
                [made], ledger=ledger, nobody="pending", workspace=Workspace(document=document)
            ) as runtime:
                (pending,) = runtime.pending.list()
                await runtime.lifecycle.resume(pending)

    call_id = run(held_for_the_document())
    run(approved_elsewhere(call_id))
    run(opened(tmp_path / "other.chat"))
    assert seen == []
    run(opened(chat))
    assert seen == [{"text": "x"}]


@pytest.mark.spec("B6a", "P5")
def test_a_tool_that_lacks_something_here_is_not_shown_and_a_call_says_what_is_missing() -> None:
    missing = add.with_(name="far", unavailable=lambda: "it needs a far thing. Install it: pip install far")
    present = add.with_(name="near", unavailable=lambda: None)
    runtime = Runtime([missing, present])
    assert [tool.name for tool in runtime.visible()] == ["near"]
    assert [(tool.name, reason[:8]) for tool, reason in runtime.access.unavailable(runtime.caller)] == [
        ("far", "it needs")
    ]
    result = run(runtime.call("far", {"a": 1}))
    assert (result.state, result.failure) == (State.INVALID, Failure.UNAVAILABLE)
    assert result.error == "Tool 'far' cannot be used here: it needs a far thing. Install it: pip install far"
    assert runtime.access.usable("far", runtime.caller) is None


@pytest.mark.spec("P5", "B6a")
def test_what_policy_hides_is_not_described_by_what_it_lacks() -> None:
    config = Config.from_dict({"tools": {"deny": ["far"]}})
    runtime = Runtime([add.with_(name="far", unavailable=lambda: "it needs a far thing.")], config=config)
    assert runtime.access.unavailable(runtime.caller) == []
    assert run(runtime.call("far", {"a": 1})).error == "Tool 'far' is not allowed by tool policy"
