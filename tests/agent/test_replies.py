"""Replies of every kind, whole and cut: what is written, what is told, and what never is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from holdfast import Config, Tool
from holdfast.agent.conversation import Status
from holdfast.agent.events import AgentEvent
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
from tests.agent.scripted import SPENT, Scripted, Stage, said, saying, use

CUT = ModelError(ModelFault.CUT, "The stream ended early.")
WHOLE = [TextDelta("Half"), TextDelta(" of it"), PartEnded(Text("Half of it")), CallBegun("a1", "note")]


def last(stage: Stage) -> Message:
    return [message for message in stage.conversation.messages() if message.role == "assistant"][-1]


@pytest.mark.spec("U1")
@pytest.mark.parametrize("how", ["raises", "stops"])
@pytest.mark.parametrize("at", range(7))
def test_a_stream_cut_anywhere_leaves_an_aborted_turn_or_nothing_and_no_half_call(
    tmp_path: Path, at: int, how: str
) -> None:
    events = [*WHOLE, PartEnded(use("a1")), TextDelta("and th")]
    stage = Stage(tmp_path, [*events[:at], CUT] if how == "raises" else events[:at])
    outcome = stage.advance()
    cut = "The model's stream ended before the reply was complete. Retry."
    why = "The stream ended early." if how == "raises" else cut
    assert (outcome.kind, outcome.message, outcome.exit_code) == ("failed", why, 1)
    assert stage.notes == []
    messages = stage.conversation.messages()
    if at == 0:
        assert len(messages) == 1
        return
    expected: list[Any] = [Text(("Half", "Half of it")[at > 1])]
    expected += [use("a1")] if at > 4 else []
    expected += [Text("and th")] if at > 5 else []
    assert last(stage).parts == (*expected, Aborted(why))
    assert stage.advance().kind == "done"
    assert stage.notes == []
    assert [result.output for result in stage.results()] == [why] * (at > 4)


@pytest.mark.spec("U1")
def test_thinking_alone_is_not_a_reply_when_it_was_cut(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [ThinkingDelta("hm"), PartEnded(Thinking("hm", "scripted", "sig")), CUT], said("Yes."))
    assert stage.advance().kind == "failed"
    assert len(stage.conversation.messages()) == 1
    assert stage.advance().kind == "done"
    assert last(stage).text == "Yes."


@pytest.mark.spec("U1")
def test_what_came_before_a_retry_is_void(tmp_path: Path) -> None:
    retry = Retrying(1, 0.5, "overloaded")
    stage = Stage(tmp_path, [TextDelta("Wro"), PartEnded(use("a0")), retry, *said("Right.", use("a1"))], said("End."))
    assert stage.advance().kind == "done"
    assert (len(stage.notes), retry in stage.events) == (1, True)
    assert stage.conversation.messages()[1].parts == (Text("Right."), use("a1"))


@pytest.mark.spec("U1")
@pytest.mark.parametrize("fault", list(ModelFault))
def test_a_model_that_does_not_answer_changes_nothing(tmp_path: Path, fault: ModelFault) -> None:
    stage = Stage(tmp_path, [ModelError(fault, "No answer; try again.")])
    before = json.encode(stage.conversation.store)
    outcome = stage.advance()
    assert (outcome.kind, outcome.message) == ("failed", "No answer; try again.")
    assert json.encode(stage.conversation.store) == before
    assert stage.model.closed == 1


@pytest.mark.spec("U1")
def test_a_model_that_breaks_is_reported_in_one_sentence(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [ZeroDivisionError("1/0")])
    outcome = stage.advance()
    assert (outcome.kind, outcome.message) == ("failed", "The model could not be asked: 1/0")


@pytest.mark.spec("U1")
def test_a_refusal_and_a_reply_that_is_too_long_are_said_to_be(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [ReplyEnded("refusal", SPENT)])
    outcome = stage.advance()
    assert (outcome.kind, outcome.usage) == ("failed", SPENT)
    assert outcome.message == "The model refused to answer. Rephrase your message."
    stage = Stage(tmp_path, [PartEnded(Text("So lo")), ReplyEnded("max_tokens", SPENT)])
    assert stage.advance().kind == "done"
    assert any(isinstance(event, WarningRaised) and "max_tokens" in event.message for event in stage.events)


@pytest.mark.spec("U1")
def test_an_empty_reply_is_not_written(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [ReplyEnded("end", Usage())])
    assert stage.advance().message == "The model returned an empty reply."
    assert len(stage.conversation.messages()) == 1


@pytest.mark.spec("U1", "D5")
def test_calls_with_the_same_id_both_run_and_both_get_a_result(tmp_path: Path) -> None:
    twins = (use("a", arguments='{"text": "1"}'), use("a", arguments='{"text": "2"}'), use(""), use("a-2"), use(""))
    stage = Stage(tmp_path, said(*twins))
    assert stage.advance().kind == "done"
    assert [result.id for result in stage.results()] == ["a", "a-3", "call-2", "a-2", "call-3"]
    assert [result.output for result in stage.results()][:2] == ["noted 1", "noted 2"]


@pytest.mark.spec("U1")
def test_ids_that_are_distinct_stay_as_they_are() -> None:
    parts = (Text("x"), ToolUse("b", "n"), ToolUse("a", "n"))
    assert with_unique_ids(parts) == parts


@pytest.mark.spec("U1", "D5")
def test_the_same_id_in_every_turn_is_another_call_each_time(tmp_path: Path) -> None:
    texts = [f'{{"text": "{number}"}}' for number in range(4)]
    stage = Stage(tmp_path, *(said(use("call_1", arguments=text)) for text in texts))
    assert stage.advance().kind == "done"
    assert [result.output for result in stage.results()] == [f"noted {number}" for number in range(4)]
    assert all(calls_without_result(messages) == [] for messages in stage.model.asked)


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
def test_arguments_that_cannot_be_used_get_an_error_and_nothing_runs(tmp_path: Path, arguments: str) -> None:
    stage = Stage(tmp_path, said(use("a1", arguments=arguments), use("a2", "\udcff\x00", arguments)))
    assert stage.advance().kind == "done"
    assert stage.notes == []
    assert [result.error for result in stage.results()] == [True, True]


@pytest.mark.spec("U1")
def test_a_tool_that_takes_nothing_may_be_called_with_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1", "now", "  ")), tools=[saying("now", "noon")])
    assert stage.advance().kind == "done"
    assert [result.output for result in stage.results()] == ["noon"]


@pytest.mark.spec("U1")
def test_a_reply_to_what_was_changed_meanwhile_is_kept_beside_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    class Meddling(Scripted):
        async def stream(self, messages: Any, tools: Any, settings: Any) -> AsyncIterator[ModelEvent]:
            stage.person.say("Something else.")
            async for event in super().stream(messages, tools, settings):
                yield event

    stage.model = Meddling(said(use("a1")))
    outcome = stage.advance()
    assert (outcome.kind, outcome.exit_code) == ("conflict", 1)
    assert [reply.parts for reply in stage.conversation.store.unplaced] == [(use("a1"),)]
    assert stage.notes == []


@pytest.mark.spec("U1")
def test_a_conversation_that_cannot_be_written_runs_nothing_more(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1"), use("a2")))

    def full(changes: object) -> None:
        raise OSError(28, "No space left on device")

    stage.conversation.change = full
    config = Config(approval=ApprovalConfig(auto_approve=("note",)), tools=ToolsConfig(max_concurrent=1))
    outcome = stage.advance(config=config)
    assert (outcome.kind, "No space left" in outcome.message) == ("failed", True)
    assert len(stage.notes) == 1


@pytest.mark.spec("U1")
@pytest.mark.parametrize("meddling", ["status", "arguments"])
def test_a_result_whose_call_was_changed_while_it_ran_is_kept_in_the_ledger(tmp_path: Path, meddling: str) -> None:
    ran: list[Any] = []

    async def meddle(args: Any) -> str:
        ran.append(args)
        if meddling == "status":
            stage.person.set_status("a1", Status.REJECTED)
        elif len(ran) == 1:
            stage.person.edit_call("a1", '{"other": 1}')
        return "ran"

    tool = Tool(name="meddle", execute=meddle, effects=frozenset({"external"}))
    stage = Stage(tmp_path, said(use("a1", "meddle", "{}"), use("a2")), tools=[tool])
    config = Config(approval=ApprovalConfig(auto_approve=("note", "meddle")))
    outcome = stage.advance(config=config)
    assert outcome.kind == "conflict"
    assert outcome.message.startswith("Call 'a1' was changed meanwhile")
    assert stage.results()[1].output == "noted x"
    assert stage.advance(config=config).kind == "done"
    assert stage.results()[0].output == "ran"
    assert ran == ([{}] if meddling == "status" else [{}, {"other": 1}])


@pytest.mark.spec("U1")
def test_a_watcher_that_breaks_does_not_come_between_a_call_and_its_result(tmp_path: Path) -> None:
    def broken(event: AgentEvent) -> None:
        raise BrokenPipeError

    stage = Stage(tmp_path, said(use("a1")), on_event=broken)
    assert stage.advance().kind == "done"
    assert [result.output for result in stage.results()] == ["noted x"]


@pytest.mark.spec("U1")
def test_every_event_can_be_told_as_a_line_of_json_and_read_again(tmp_path: Path) -> None:
    reply = [ThinkingDelta("hm"), CallBegun("a1", "note"), Retrying(1, 0.1, "x"), *said("Hi.", use("a1"))]
    stage = Stage(tmp_path, reply, said(use("a2", "ask")))
    assert stage.advance().kind == "pending"
    lines = [json.encode(event) for event in stage.events]
    assert [json.decode(line, type=AgentEvent) for line in lines] == stage.events
    assert {json.decode(line)["event"] for line in lines} == {
        "phase", "text", "thinking", "call_begun", "retrying", "placed", "settled", "reply", "usage", "outcome",
    }  # fmt: skip
