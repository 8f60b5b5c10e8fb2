"""A guard beside the loop: what it says is done on the path, and what it needs is there after a crash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Context, Tool
from holdfast.agent.events import GuardrailApplied, ReplyWritten
from holdfast.agent.guard import AcceptReply, AskModel, CallTools, EndTurn, RefusedCall, RetryReply, TurnHistory
from holdfast.agent.loop import Loop
from holdfast.agent.surface import Surface
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import Failure, State
from holdfast.contract.message import Message, Part, Text, ToolUse
from holdfast.models.port import ModelError, ModelEvent, ModelFault, PartEnded, ReplyEnded
from holdfast.testing.memory_conversation import MemoryConversation, MessageEntry
from tests.agent.scripted import SPENT, Stage, results_in, said, saying, use

pytestmark = pytest.mark.spec("M4")


class Script:
    """A guard that does what a test says, and keeps what it was shown."""

    def __init__(
        self,
        prepare: Callable[[TurnHistory], AskModel | CallTools | EndTurn] | None = None,
        receive: Callable[[TurnHistory, tuple[Part, ...]], AcceptReply | RetryReply | CallTools | EndTurn]
        | None = None,
        refuse: Callable[[TurnHistory, str], str | None] | None = None,
        surface: Surface | None = None,
    ) -> None:
        self._prepare = prepare
        self._receive = receive
        self._refuse = refuse
        self._surface = surface
        self.turns: list[TurnHistory] = []
        self.looked: list[TurnHistory] = []

    def prepare(self, turn: TurnHistory) -> AskModel | CallTools | EndTurn:
        self.turns.append(turn)
        return AskModel(self._surface) if self._prepare is None else self._prepare(turn)

    def receive(self, turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | RetryReply | CallTools | EndTurn:
        return AcceptReply(parts) if self._receive is None else self._receive(turn, parts)

    def surface(self, turn: TurnHistory) -> Surface | None:
        self.looked.append(turn)
        return self._surface

    def refusals(self, turn: TurnHistory) -> dict[str, RefusedCall]:
        if self._refuse is None:
            return {}
        said = {step.use.id: self._refuse(turn, step.use.id) for step in turn.replies[-1].calls}
        return {use_id: RefusedCall("budget", reason) for use_id, reason in said.items() if reason is not None}


def guarded(stage: Stage) -> list[tuple[str, str]]:
    return [(event.what, event.rule) for event in stage.events if isinstance(event, GuardrailApplied)]


def last_words(messages: list[Message]) -> str:
    return messages[-1].text


def test_a_call_of_the_guard_is_made_before_the_model_speaks_and_takes_the_path(tmp_path: Path) -> None:
    def first(turn: TurnHistory) -> AskModel | CallTools:
        return AskModel() if turn.replies else CallTools("direct", (use("runtime-1"),), "named in the message")

    stage = Stage(tmp_path, said("Done."), guard=Script(first))
    assert stage.advance().kind == "done"
    assert stage.notes == [{"text": "x"}]
    assert stage.states() == [State.DONE]
    assert [result.output for result in results_in(stage.model.asked[0])] == ["noted x"]
    assert guarded(stage) == [("acted", "direct")]


def test_a_call_of_the_guard_that_needs_a_person_waits_for_one(tmp_path: Path) -> None:
    stage = Stage(tmp_path, guard=Script(lambda turn: CallTools("direct", (use("runtime-1", "ask"),))))
    assert stage.advance().kind == "pending"
    assert stage.asks == [] and stage.model.asked == []


def test_an_answer_of_the_guard_ends_the_turn_and_no_model_is_asked(tmp_path: Path) -> None:
    stage = Stage(tmp_path, guard=Script(lambda turn: EndTurn("own_answers", "I could not.")))
    outcome = stage.advance()
    assert (outcome.kind, outcome.exit_code) == ("done", 0)
    assert stage.model.asked == []
    assert stage.conversation.messages()[-1] == Message("assistant", (Text("I could not."),))


def test_a_model_that_is_stopped_is_an_outcome_of_its_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path, guard=Script(lambda turn: EndTurn("rounds", "Too much.", stopped=True)))
    outcome = stage.advance()
    assert (outcome.kind, outcome.exit_code) == ("stopped", 1)
    assert "guardrails.rounds" in outcome.message
    assert guarded(stage) == [("stopped", "rounds")]


def test_a_reply_that_is_sent_back_is_not_kept_but_paid_for(tmp_path: Path) -> None:
    def receive(turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | RetryReply:
        return AcceptReply(parts) if turn.retries.get("evidence") else RetryReply("evidence", "Look first.")

    stage = Stage(tmp_path, said("I guess 4."), said("It is 5."), guard=Script(receive=receive))
    outcome = stage.advance()
    assert outcome.usage == SPENT + SPENT
    assert stage.conversation.usage == SPENT + SPENT
    second = stage.model.asked[1]
    assert [message.role for message in second[-2:]] == ["assistant", "user"]
    assert (second[-2].text, last_words(second)) == ("I guess 4.", "Look first.")
    assert [message.text for message in stage.conversation.messages()] == ["Go.", "It is 5."]
    assert guarded(stage) == [("again", "evidence")]


def test_a_reply_can_be_replaced_by_a_call(tmp_path: Path) -> None:
    def receive(turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | CallTools:
        return AcceptReply(parts) if turn.replies else CallTools("evidence", (use("runtime-1"),))

    stage = Stage(tmp_path, said("I guess."), said("I know."), guard=Script(receive=receive))
    assert stage.advance().kind == "done"
    assert [message.text for message in stage.conversation.messages()] == ["Go.", "", "", "I know."]
    assert stage.notes == [{"text": "x"}]


def test_what_a_guard_puts_right_is_what_is_kept_and_run(tmp_path: Path) -> None:
    def receive(turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply:
        asks = any(isinstance(part, ToolUse) for part in parts)
        return (
            AcceptReply((use("a", arguments='{"text": "y"}'),), {"simplify_queries": "x → y"})
            if asks
            else AcceptReply(parts)
        )

    stage = Stage(tmp_path, said(use("a")), said("Done."), guard=Script(receive=receive))
    stage.advance()
    assert stage.notes == [{"text": "y"}]
    assert stage.model.asked[1][1].tool_uses == (use("a", arguments='{"text": "y"}'),)
    assert guarded(stage) == [("changed", "simplify_queries")]


def test_notes_are_sent_and_not_kept(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said("Done."), guard=Script(lambda turn: AskModel(notes=("Only read.", "Be brief."))))
    stage.advance()
    assert last_words(stage.model.asked[0]) == "Go.\n\nOnly read.\n\nBe brief."
    assert stage.conversation.messages()[0] == Message("user", (Text("Go."),))


def test_a_refused_call_is_denied_on_the_path_and_recorded(tmp_path: Path) -> None:
    script = Script(refuse=lambda turn, use_id: "No." if use_id == "b" else None)
    stage = Stage(tmp_path, said(use("a"), use("b")), guard=script)
    stage.advance()
    assert stage.notes == [{"text": "x"}]
    told = {result.id: (result.error, result.output) for result in stage.results()}
    assert told == {"a": (False, "noted x"), "b": (True, "No.")}
    with stage.ledger() as ledger:
        denied = next(record for record in ledger.calls() if record.call.given_id == "b")
    assert denied.state is State.DENIED
    assert guarded(stage) == [("refused", "budget")]
    assert denied.result is not None and denied.result.failure is Failure.DENIED_BY_MIDDLEWARE


def test_an_empty_refusal_is_a_refusal(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a")), guard=Script(refuse=lambda turn, use_id: ""))
    stage.advance()
    assert stage.notes == [] and stage.results()[0].error


def test_calls_of_programs_and_nested_calls_are_none_of_the_guard_s_business(tmp_path: Path) -> None:
    async def outer(args: Any, ctx: Context) -> str:
        return (await ctx.call("inner", {})).text

    tools = (saying("inner", "inner"), Tool(name="outer", execute=outer, effects=frozenset()))
    refuse = Script(refuse=lambda turn, use_id: "No." if use_id != "a" else None)
    stage = Stage(tmp_path, said(use("a", "outer", "{}")), tools=tools, guard=refuse)
    stage.advance()
    assert [result.output for result in stage.results()] == ["inner"]


@pytest.mark.spec("P6")
def test_a_surface_of_the_guard_is_what_the_model_sees_and_may_call(tmp_path: Path) -> None:
    script = Script(surface=Surface("notes", ("note",)))
    stage = Stage(tmp_path, said(use("a", "ask"), use("b")), guard=script)
    stage.advance()
    assert stage.model.tools[0] == ["note"]
    assert [result.error for result in stage.results()] == [True, False]
    assert stage.asks == [] and len(stage.notes) == 1


@pytest.mark.spec("P6")
def test_calls_keep_the_surface_they_were_asked_for_with_when_the_loop_goes_on_later(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a"), use("b", "ask")), guard=Script(surface=Surface("notes", ("note",))))

    async def twice(loop: Loop) -> None:
        await loop.advance(step=True)
        await loop.advance(step=True)

    stage.go(twice)
    assert [result.error for result in stage.results()] == [False, True]
    assert stage.asks == []


@pytest.mark.spec("P6")
def test_a_guard_leaves_nothing_that_whoever_drives_the_loop_does_not(tmp_path: Path) -> None:
    wide = Script(surface=Surface("all", ("note", "ask")))
    stage = Stage(tmp_path, said(use("a"), use("b", "ask")), guard=wide, surface=Surface("asks", ("ask",)))
    assert stage.advance().kind == "pending"
    assert stage.model.tools[0] == ["ask"]
    assert stage.notes == [] and [slot.use.id for slot in stage.slots()] == ["b"]


def test_nothing_of_a_guard_is_left_when_the_loop_has_stopped(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a")), guard=Script(refuse=lambda turn, use_id: "No."))

    async def then(loop: Loop) -> Any:
        await loop.advance()
        return loop.runtime.middleware.before(("note",))

    assert stage.go(then) == ()


def test_the_same_call_is_judged_anew_when_the_message_before_it_is_another(tmp_path: Path) -> None:
    script = Script(refuse=lambda turn, use_id: "No." if turn.prompt == "Go." else None)
    stage = Stage(tmp_path, said(use("a")), said("Done."), said(use("a")), said("Done."), guard=script)

    async def twice(loop: Loop) -> None:
        await loop.advance()
        stage.conversation.store.entries[:] = [MessageEntry("user", "Go on.")]
        await loop.advance()

    stage.go(twice)
    assert stage.notes == [{"text": "x"}]


def test_typed_results_stay_when_old_turns_are_taken_away(tmp_path: Path) -> None:
    script = Script()
    replies = [reply for _ in range(110) for reply in (said(use("a")), said("Done."))]
    stage = Stage(tmp_path, *replies, said(use("b")), said("Done."), guard=script)

    async def long(loop: Loop) -> None:
        for _ in range(110):
            await loop.advance()
            stage.person.say("Again.")
        stage.conversation.store.entries[:] = [MessageEntry("user", "Once more.")]
        await loop.advance()

    stage.go(long)
    typed = script.turns[-1].replies[0].calls[0].result
    assert typed is not None and typed.output == "noted x"


def test_typed_results_are_found_however_much_others_have_called_since(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a")), guard=Script())
    stage.advance(step=True)
    stage.advance(step=True)

    async def others(loop: Loop) -> None:
        for _ in range(150):
            await loop.runtime.call("note", {"text": "other"})

    stage.go(others)
    script = stage.options["guard"] = Script()
    stage.advance()
    assert script.turns[0].replies[0].calls[0].result is not None


def test_calls_of_a_model_that_refuses_to_answer_are_not_made(tmp_path: Path) -> None:
    refused: list[ModelEvent] = [PartEnded(use("runtime-9")), ReplyEnded("refusal", SPENT)]
    stage = Stage(tmp_path, refused, guard=Script())
    assert stage.advance().kind == "failed"
    assert stage.advance().kind == "done"
    assert stage.notes == []


@pytest.mark.spec("M5")
def test_what_a_failing_model_costs_is_counted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [ModelError(ModelFault.PROTOCOL, "It failed twice.", usage=SPENT)])
    assert stage.advance().usage == SPENT


def test_calls_are_judged_by_the_message_they_were_asked_for_whatever_was_said_since(tmp_path: Path) -> None:
    script = Script(refuse=lambda turn, use_id: None if turn.prompt == "Go." else "Another matter.")
    stage = Stage(tmp_path, said(use("n"), use("a", "ask")), guard=script)
    assert stage.advance().kind == "pending"
    stage.person.say("Something else.")
    stage.advance(config=Config(approval=ApprovalConfig(auto_approve=("note", "ask"))))
    assert len(stage.asks) == 1
    last = script.looked[-1]
    assert (last.prompt, [step.sent is None for step in last.replies[-1].calls]) == ("Go.", [False, True])


def test_an_answer_of_the_guard_is_written_without_the_end_of_its_last_line(tmp_path: Path) -> None:
    stage = Stage(tmp_path, guard=Script(lambda turn: EndTurn("direct", "text\n")))
    stage.advance()
    assert stage.conversation.messages()[-1] == Message("assistant", (Text("text"),))


def test_the_turn_holds_the_words_the_rounds_and_typed_results(tmp_path: Path) -> None:
    script = Script()
    stage = Stage(tmp_path, said("Wait.", use("a")), said("One."), said(use("a")), said("Two."), guard=script)
    stage.advance()
    stage.person.say("Again.")
    stage.advance()
    first, _, third, fourth = script.turns
    assert (first.number, first.prompt, first.replies, first.earlier_replies) == (1, "Go.", (), ())
    assert (third.number, third.prompt, third.replies) == (2, "Again.", ())
    assert [each.text for each in third.earlier_replies] == ["Wait.", "One."]
    step = fourth.replies[0].calls[0]
    assert step.sent is not None and step.sent.output == "noted x"
    assert step.result is not None and step.result.success


def test_typed_results_are_told_apart_where_every_reply_uses_the_same_ids(tmp_path: Path) -> None:
    script = Script()
    replies = [said(use("call-1", arguments=f'{{"text": "{word}"}}')) for word in ("one", "two", "three")]
    stage = Stage(tmp_path, *replies, said("Done."), guard=script)
    stage.advance()
    typed = [[step.result and step.result.output for step in each.calls] for each in script.turns[-1].replies]
    assert typed == [["noted one"], ["noted two"], ["noted three"]]
    looked = [[step.result and step.result.output for step in each.calls] for each in script.looked[-1].replies]
    assert looked == [["noted one"], ["noted two"], [None]]


def test_typed_results_are_found_again_after_a_crash(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a"), use("w", "ask")), guard=Script())
    assert stage.advance().kind == "pending"
    script = Script()
    stage.options["guard"] = script
    stage.conversation = MemoryConversation(stage.conversation.store)
    assert stage.advance(config=Config(approval=ApprovalConfig(auto_approve=("note", "ask")))).kind == "done"
    looked = script.looked[0].replies[-1].calls
    assert [(step.sent is None, step.result is not None) for step in looked] == [(False, True), (True, False)]
    typed = [step.result for step in script.turns[0].replies[-1].calls]
    assert all(result is not None and result.success for result in typed)


def test_a_refusal_is_decided_before_any_call_of_the_reply_runs(tmp_path: Path) -> None:
    seen: list[tuple[bool, ...]] = []

    def refuse(turn: TurnHistory, use_id: str) -> None:
        seen.append(tuple(step.sent is None for step in turn.replies[-1].calls))

    stage = Stage(tmp_path, said(use("a"), use("b")), guard=Script(refuse=refuse))
    stage.advance()
    assert seen == [(True, True), (True, True)]


def test_a_step_stops_after_a_call_of_the_guard(tmp_path: Path) -> None:
    stage = Stage(tmp_path, guard=Script(lambda turn: CallTools("direct", (use("runtime-1"),))))
    assert stage.advance(step=True).kind == "stepped"
    assert stage.notes == []
    assert [event.calls for event in stage.events if isinstance(event, ReplyWritten)] == [(use("runtime-1"),)]
