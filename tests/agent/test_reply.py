"""Complete and partial replies: what is written and what is reported."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from holdfast import Config, Tool
from holdfast.agent.conversation import Status
from holdfast.agent.reply import calls_without_result, with_unique_ids
from holdfast.config.config import ApprovalConfig, ToolsConfig
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import Aborted, Message, Text, Thinking, ToolResult, ToolUse
from holdfast.models.port import (
    CallBegun,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    ReplyEnded,
    Retrying,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from tests.agent.scripted_model import USAGE, LoopHarness, ScriptedModel, fixed_tool, scripted_reply, use

CUT = ModelError(ModelFault.CUT, "The stream ended early.")
WHOLE = [TextDelta("Half"), TextDelta(" of it"), PartEnded(Text("Half of it")), CallBegun("a1", "note")]


def last(harness: LoopHarness) -> Message:
    return [message for message in harness.conversation.messages() if message.role == "assistant"][-1]


@pytest.mark.spec("U1")
@pytest.mark.parametrize("how", ["raises", "stops"])
@pytest.mark.parametrize("at", range(7))
def test_a_stream_cut_anywhere_leaves_an_aborted_turn_or_nothing_and_no_partial_call(
    tmp_path: Path, at: int, how: str
) -> None:
    events = [*WHOLE, PartEnded(use("a1")), TextDelta("and th")]
    harness = LoopHarness(tmp_path, [*events[:at], CUT] if how == "raises" else events[:at])
    outcome = harness.advance()
    cut = "The model's stream ended before the reply was complete. Retry."
    why = "The stream ended early." if how == "raises" else cut
    assert (outcome.kind, outcome.message, outcome.exit_code) == ("failed", why, 1)
    assert harness.notes == []
    messages = harness.conversation.messages()
    if at == 0:
        assert len(messages) == 1
        return
    expected: list[Any] = [Text(("Half", "Half of it")[at > 1])]
    expected += [use("a1")] if at > 4 else []
    expected += [Text("and th")] if at > 5 else []
    assert last(harness).parts == (*expected, Aborted(why))
    assert harness.advance().kind == "done"
    assert harness.notes == []
    assert [result.output for result in harness.results()] == [why] * (at > 4)


@pytest.mark.spec("U1")
def test_a_cut_reply_with_only_thinking_is_dropped(tmp_path: Path) -> None:
    harness = LoopHarness(
        tmp_path, [ThinkingDelta("hm"), PartEnded(Thinking("hm", "scripted", "sig")), CUT], scripted_reply("Yes.")
    )
    assert harness.advance().kind == "failed"
    assert len(harness.conversation.messages()) == 1
    assert harness.advance().kind == "done"
    assert last(harness).text == "Yes."


@pytest.mark.spec("U1")
def test_output_before_a_retry_is_discarded(tmp_path: Path) -> None:
    retry = Retrying(1, 0.5, "overloaded")
    harness = LoopHarness(
        tmp_path,
        [TextDelta("Wro"), PartEnded(use("a0")), retry, *scripted_reply("Right.", use("a1"))],
        scripted_reply("End."),
    )
    assert harness.advance().kind == "done"
    assert (len(harness.notes), retry in harness.events) == (1, True)
    assert harness.conversation.messages()[1].parts == (Text("Right."), use("a1"))


@pytest.mark.spec("U1")
@pytest.mark.parametrize("fault", list(ModelFault))
def test_a_model_that_does_not_answer_changes_nothing(tmp_path: Path, fault: ModelFault) -> None:
    harness = LoopHarness(tmp_path, [ModelError(fault, "No answer; try again.")])
    before = json.encode(harness.conversation.store)
    outcome = harness.advance()
    kind = "stopped" if fault is ModelFault.MALFORMED else "failed"
    assert (outcome.kind, outcome.message) == (kind, "No answer; try again.")
    assert json.encode(harness.conversation.store) == before
    assert harness.model.closed == 1


@pytest.mark.spec("U1")
def test_an_exception_of_the_model_is_reported_in_one_sentence(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, [ZeroDivisionError("1/0")])
    outcome = harness.advance()
    assert (outcome.kind, outcome.message) == ("failed", "The model could not be asked: 1/0")


@pytest.mark.spec("U1")
def test_a_refusal_and_a_truncated_reply_are_reported(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, [ReplyEnded("refusal", USAGE)])
    outcome = harness.advance()
    assert (outcome.kind, outcome.usage) == ("failed", USAGE)
    assert outcome.message == "The model refused to answer. Rephrase your message."
    harness = LoopHarness(tmp_path, [PartEnded(Text("So lo")), ReplyEnded("max_tokens", USAGE)])
    assert harness.advance().kind == "done"
    assert any(isinstance(event, WarningRaised) and "max_tokens" in event.message for event in harness.events)


@pytest.mark.spec("U1")
def test_an_empty_reply_is_not_written(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, [ReplyEnded("end", Usage())])
    assert harness.advance().message == "The model returned an empty reply."
    assert len(harness.conversation.messages()) == 1


@pytest.mark.spec("U1", "D5")
def test_calls_with_the_same_id_both_run_and_both_get_a_result(tmp_path: Path) -> None:
    twins = (use("a", arguments='{"text": "1"}'), use("a", arguments='{"text": "2"}'), use(""), use("a-2"), use(""))
    harness = LoopHarness(tmp_path, scripted_reply(*twins))
    assert harness.advance().kind == "done"
    assert [result.id for result in harness.results()] == ["a", "a-3", "call-2", "a-2", "call-3"]
    assert [result.output for result in harness.results()][:2] == ["noted 1", "noted 2"]


@pytest.mark.spec("U1")
def test_unique_ids_stay_unchanged() -> None:
    parts = (Text("x"), ToolUse("b", "n"), ToolUse("a", "n"))
    assert with_unique_ids(parts) == parts


@pytest.mark.spec("U1", "D5")
def test_the_same_id_in_another_turn_is_another_call(tmp_path: Path) -> None:
    texts = [f'{{"text": "{number}"}}' for number in range(4)]
    harness = LoopHarness(tmp_path, *(scripted_reply(use("call_1", arguments=text)) for text in texts))
    assert harness.advance().kind == "done"
    assert [result.output for result in harness.results()] == [f"noted {number}" for number in range(4)]
    assert all(calls_without_result(messages) == [] for messages in harness.model.requests)


@pytest.mark.spec("D5")
def test_results_count_only_in_the_message_right_after_their_calls() -> None:
    asks, tells = Message("assistant", (use("a"), use("b"))), Message("user", (ToolResult("a", "note", ""),))
    assert calls_without_result([asks, tells]) == ["b"]
    assert calls_without_result([asks]) == ["a", "b"]
    assert calls_without_result([asks, Message("assistant", (Text("x"),)), tells]) == ["a", "b"]
    assert calls_without_result([asks, Message("user", (ToolResult("b", "n", ""), ToolResult("a", "n", "")))]) == []


@pytest.mark.spec("U1")
@pytest.mark.parametrize(
    "arguments", ["", "{", "[]", "null", '{"text": 1}', '{"text": "x", "text": "y"}', "NaN", '"\\ud800"', "[" * 9999]
)
def test_invalid_arguments_get_an_error_and_nothing_runs(tmp_path: Path, arguments: str) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", arguments=arguments), use("a2", "\udcff\x00", arguments)))
    assert harness.advance().kind == "done"
    assert harness.notes == []
    assert [result.error for result in harness.results()] == [True, True]


@pytest.mark.spec("U1")
def test_a_tool_without_parameters_accepts_empty_arguments(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "now", "  ")), tools=[fixed_tool("now", "noon")])
    assert harness.advance().kind == "done"
    assert [result.output for result in harness.results()] == ["noon"]


@pytest.mark.spec("U1")
def test_a_reply_to_a_changed_message_is_saved_as_a_conflict(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)

    class Meddling(ScriptedModel):
        async def stream(self, messages: Any, tools: Any, settings: Any) -> AsyncIterator[ModelEvent]:
            harness.user.say("Something else.")
            async for event in super().stream(messages, tools, settings):
                yield event

    harness.model = Meddling(scripted_reply(use("a1")))
    outcome = harness.advance()
    assert (outcome.kind, outcome.exit_code) == ("conflict", 1)
    assert [reply.parts for reply in harness.conversation.store.unplaced] == [(use("a1"),)]
    assert harness.notes == []


@pytest.mark.spec("U1")
def test_no_more_calls_run_when_the_conversation_cannot_be_written(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1"), use("a2")))

    def full(changes: object) -> None:
        raise OSError(28, "No space left on device")

    harness.conversation.change = full
    config = Config(approval=ApprovalConfig(auto_approve=("note",)), tools=ToolsConfig(max_concurrent=1))
    outcome = harness.advance(config=config)
    assert (outcome.kind, "No space left" in outcome.message) == ("failed", True)
    assert len(harness.notes) == 1


@pytest.mark.spec("U1")
@pytest.mark.parametrize("meddling", ["status", "arguments"])
def test_the_result_of_a_call_that_was_edited_while_it_ran_stays_in_the_ledger(tmp_path: Path, meddling: str) -> None:
    ran: list[Any] = []

    async def meddle(args: Any) -> str:
        ran.append(args)
        if meddling == "status":
            harness.user.set_status("a1", Status.REJECTED)
        elif len(ran) == 1:
            harness.user.edit_call("a1", '{"other": 1}')
        return "ran"

    tool = Tool(name="meddle", execute=meddle, effects=frozenset({"external"}))
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "meddle", "{}"), use("a2")), tools=[tool])
    config = Config(approval=ApprovalConfig(auto_approve=("note", "meddle")))
    outcome = harness.advance(config=config)
    assert outcome.kind == "conflict"
    assert outcome.message.startswith("Call 'a1' was changed meanwhile")
    assert harness.results()[1].output == "noted x"
    assert harness.advance(config=config).kind == "done"
    assert harness.results()[0].output == "ran"
    assert ran == ([{}] if meddling == "status" else [{}, {"other": 1}])
