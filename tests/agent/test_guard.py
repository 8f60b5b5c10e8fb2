"""Guards: their decisions are applied in the pipeline, and their history survives a crash."""

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
from tests.agent.scripted_model import USAGE, LoopHarness, fixed_tool, results_in, scripted_reply, use

pytestmark = pytest.mark.spec("M4")


class Script:
    """A scripted guard that records the turns it receives."""

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


def guarded(harness: LoopHarness) -> list[tuple[str, str]]:
    return [(event.what, event.rule) for event in harness.events if isinstance(event, GuardrailApplied)]


def last_words(messages: list[Message]) -> str:
    return messages[-1].text


def test_a_call_of_the_guard_is_made_before_the_model_is_asked_and_goes_through_the_pipeline(tmp_path: Path) -> None:
    def first(turn: TurnHistory) -> AskModel | CallTools:
        return AskModel() if turn.replies else CallTools("direct", (use("runtime-1"),), "named in the message")

    harness = LoopHarness(tmp_path, scripted_reply("Done."), guard=Script(first))
    assert harness.advance().kind == "done"
    assert harness.notes == [{"text": "x"}]
    assert harness.states() == [State.DONE]
    assert [result.output for result in results_in(harness.model.requests[0])] == ["noted x"]
    assert guarded(harness) == [("acted", "direct")]


def test_a_call_of_the_guard_that_needs_approval_is_pending(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, guard=Script(lambda turn: CallTools("direct", (use("runtime-1", "ask"),))))
    assert harness.advance().kind == "pending"
    assert harness.asks == [] and harness.model.requests == []


def test_an_answer_of_the_guard_ends_the_turn_without_asking_the_model(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, guard=Script(lambda turn: EndTurn("own_answers", "I could not.")))
    outcome = harness.advance()
    assert (outcome.kind, outcome.exit_code) == ("done", 0)
    assert harness.model.requests == []
    assert harness.conversation.messages()[-1] == Message("assistant", (Text("I could not."),))


def test_a_model_stopped_by_the_guard_has_the_outcome_stopped(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, guard=Script(lambda turn: EndTurn("rounds", "Too much.", stopped=True)))
    outcome = harness.advance()
    assert (outcome.kind, outcome.exit_code) == ("stopped", 1)
    assert "guardrails.rounds" in outcome.message
    assert guarded(harness) == [("stopped", "rounds")]


def test_a_rejected_reply_is_not_stored_but_its_usage_is_counted(tmp_path: Path) -> None:
    def receive(turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | RetryReply:
        return AcceptReply(parts) if turn.retries.get("evidence") else RetryReply("evidence", "Look first.")

    harness = LoopHarness(
        tmp_path, scripted_reply("I guess 4."), scripted_reply("It is 5."), guard=Script(receive=receive)
    )
    outcome = harness.advance()
    assert outcome.usage == USAGE + USAGE
    assert harness.conversation.usage == USAGE + USAGE
    second = harness.model.requests[1]
    assert [message.role for message in second[-2:]] == ["assistant", "user"]
    assert (second[-2].text, last_words(second)) == ("I guess 4.", "Look first.")
    assert [message.text for message in harness.conversation.messages()] == ["Go.", "It is 5."]
    assert guarded(harness) == [("again", "evidence")]


def test_a_reply_can_be_replaced_by_a_call(tmp_path: Path) -> None:
    def receive(turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply | CallTools:
        return AcceptReply(parts) if turn.replies else CallTools("evidence", (use("runtime-1"),))

    harness = LoopHarness(
        tmp_path, scripted_reply("I guess."), scripted_reply("I know."), guard=Script(receive=receive)
    )
    assert harness.advance().kind == "done"
    assert [message.text for message in harness.conversation.messages()] == ["Go.", "", "", "I know."]
    assert harness.notes == [{"text": "x"}]


def test_a_reply_corrected_by_the_guard_is_stored_and_run(tmp_path: Path) -> None:
    def receive(turn: TurnHistory, parts: tuple[Part, ...]) -> AcceptReply:
        asks = any(isinstance(part, ToolUse) for part in parts)
        return (
            AcceptReply((use("a", arguments='{"text": "y"}'),), {"simplify_queries": "x → y"})
            if asks
            else AcceptReply(parts)
        )

    harness = LoopHarness(tmp_path, scripted_reply(use("a")), scripted_reply("Done."), guard=Script(receive=receive))
    harness.advance()
    assert harness.notes == [{"text": "y"}]
    assert harness.model.requests[1][1].tool_uses == (use("a", arguments='{"text": "y"}'),)
    assert guarded(harness) == [("changed", "simplify_queries")]


def test_notes_are_sent_but_not_stored(tmp_path: Path) -> None:
    harness = LoopHarness(
        tmp_path, scripted_reply("Done."), guard=Script(lambda turn: AskModel(notes=("Only read.", "Be brief.")))
    )
    harness.advance()
    assert last_words(harness.model.requests[0]) == "Go.\n\nOnly read.\n\nBe brief."
    assert harness.conversation.messages()[0] == Message("user", (Text("Go."),))


def test_a_refused_call_is_denied_in_the_pipeline_and_recorded(tmp_path: Path) -> None:
    script = Script(refuse=lambda turn, use_id: "No." if use_id == "b" else None)
    harness = LoopHarness(tmp_path, scripted_reply(use("a"), use("b")), guard=script)
    harness.advance()
    assert harness.notes == [{"text": "x"}]
    told = {result.id: (result.error, result.output) for result in harness.results()}
    assert told == {"a": (False, "noted x"), "b": (True, "No.")}
    with harness.ledger() as ledger:
        denied = next(record for record in ledger.calls() if record.call.given_id == "b")
    assert denied.state is State.DENIED
    assert guarded(harness) == [("refused", "budget")]
    assert denied.result is not None and denied.result.failure is Failure.DENIED_BY_MIDDLEWARE


def test_a_refusal_with_an_empty_message_still_denies(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a")), guard=Script(refuse=lambda turn, use_id: ""))
    harness.advance()
    assert harness.notes == [] and harness.results()[0].error


def test_the_guard_ignores_calls_of_programs_and_nested_calls(tmp_path: Path) -> None:
    async def outer(args: Any, ctx: Context) -> str:
        return (await ctx.call("inner", {})).text

    tools = (fixed_tool("inner", "inner"), Tool(name="outer", execute=outer, effects=frozenset()))
    refuse = Script(refuse=lambda turn, use_id: "No." if use_id != "a" else None)
    harness = LoopHarness(tmp_path, scripted_reply(use("a", "outer", "{}")), tools=tools, guard=refuse)
    harness.advance()
    assert [result.output for result in harness.results()] == ["inner"]


@pytest.mark.spec("P6")
def test_the_guards_surface_limits_what_the_model_sees_and_may_call(tmp_path: Path) -> None:
    script = Script(surface=Surface("notes", ("note",)))
    harness = LoopHarness(tmp_path, scripted_reply(use("a", "ask"), use("b")), guard=script)
    harness.advance()
    assert harness.model.tools[0] == ["note"]
    assert [result.error for result in harness.results()] == [True, False]
    assert harness.asks == [] and len(harness.notes) == 1


@pytest.mark.spec("P6")
def test_calls_keep_the_surface_of_their_reply_when_the_loop_continues_later(tmp_path: Path) -> None:
    harness = LoopHarness(
        tmp_path, scripted_reply(use("a"), use("b", "ask")), guard=Script(surface=Surface("notes", ("note",)))
    )

    async def twice(loop: Loop) -> None:
        await loop.advance(step=True)
        await loop.advance(step=True)

    harness.run(twice)
    assert [result.error for result in harness.results()] == [False, True]
    assert harness.asks == []


@pytest.mark.spec("P6")
def test_a_guard_cannot_widen_the_surface_of_the_loop(tmp_path: Path) -> None:
    wide = Script(surface=Surface("all", ("note", "ask")))
    harness = LoopHarness(
        tmp_path, scripted_reply(use("a"), use("b", "ask")), guard=wide, surface=Surface("asks", ("ask",))
    )
    assert harness.advance().kind == "pending"
    assert harness.model.tools[0] == ["ask"]
    assert harness.notes == [] and [slot.use.id for slot in harness.slots()] == ["b"]


def test_the_guards_middleware_is_removed_when_the_loop_stops(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a")), guard=Script(refuse=lambda turn, use_id: "No."))

    async def then(loop: Loop) -> Any:
        await loop.advance()
        return loop.runtime.middleware.before(("note",))

    assert harness.run(then) == ()


def test_the_same_call_is_judged_again_after_a_different_message(tmp_path: Path) -> None:
    script = Script(refuse=lambda turn, use_id: "No." if turn.prompt == "Go." else None)
    harness = LoopHarness(
        tmp_path,
        scripted_reply(use("a")),
        scripted_reply("Done."),
        scripted_reply(use("a")),
        scripted_reply("Done."),
        guard=script,
    )

    async def twice(loop: Loop) -> None:
        await loop.advance()
        harness.conversation.store.entries[:] = [MessageEntry("user", "Go on.")]
        await loop.advance()

    harness.run(twice)
    assert harness.notes == [{"text": "x"}]


def test_typed_results_survive_the_removal_of_old_turns(tmp_path: Path) -> None:
    script = Script()
    replies = [reply for _ in range(110) for reply in (scripted_reply(use("a")), scripted_reply("Done."))]
    harness = LoopHarness(tmp_path, *replies, scripted_reply(use("b")), scripted_reply("Done."), guard=script)

    async def long(loop: Loop) -> None:
        for _ in range(110):
            await loop.advance()
            harness.user.say("Again.")
        harness.conversation.store.entries[:] = [MessageEntry("user", "Once more.")]
        await loop.advance()

    harness.run(long)
    typed = script.turns[-1].replies[0].calls[0].result
    assert typed is not None and typed.output == "noted x"


def test_typed_results_are_found_despite_many_later_calls_of_others(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a")), guard=Script())
    harness.advance(step=True)
    harness.advance(step=True)

    async def others(loop: Loop) -> None:
        for _ in range(150):
            await loop.runtime.call("note", {"text": "other"})

    harness.run(others)
    script = harness.options["guard"] = Script()
    harness.advance()
    assert script.turns[0].replies[0].calls[0].result is not None


def test_calls_of_a_refusing_model_do_not_run(tmp_path: Path) -> None:
    refused: list[ModelEvent] = [PartEnded(use("runtime-9")), ReplyEnded("refusal", USAGE)]
    harness = LoopHarness(tmp_path, refused, guard=Script())
    assert harness.advance().kind == "failed"
    assert harness.advance().kind == "done"
    assert harness.notes == []


@pytest.mark.spec("M5")
def test_the_usage_of_a_failing_model_is_counted(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, [ModelError(ModelFault.PROTOCOL, "It failed twice.", usage=USAGE)])
    assert harness.advance().usage == USAGE


def test_calls_are_judged_by_the_message_they_answer_despite_later_messages(tmp_path: Path) -> None:
    script = Script(refuse=lambda turn, use_id: None if turn.prompt == "Go." else "Another matter.")
    harness = LoopHarness(tmp_path, scripted_reply(use("n"), use("a", "ask")), guard=script)
    assert harness.advance().kind == "pending"
    harness.user.say("Something else.")
    harness.advance(config=Config(approval=ApprovalConfig(auto_approve=("note", "ask"))))
    assert len(harness.asks) == 1
    last = script.looked[-1]
    assert (last.prompt, [step.sent is None for step in last.replies[-1].calls]) == ("Go.", [False, True])


def test_an_answer_of_the_guard_is_written_without_its_trailing_newline(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, guard=Script(lambda turn: EndTurn("direct", "text\n")))
    harness.advance()
    assert harness.conversation.messages()[-1] == Message("assistant", (Text("text"),))


def test_the_turn_history_holds_the_prompt_the_replies_and_typed_results(tmp_path: Path) -> None:
    script = Script()
    harness = LoopHarness(
        tmp_path,
        scripted_reply("Wait.", use("a")),
        scripted_reply("One."),
        scripted_reply(use("a")),
        scripted_reply("Two."),
        guard=script,
    )
    harness.advance()
    harness.user.say("Again.")
    harness.advance()
    first, _, third, fourth = script.turns
    assert (first.number, first.prompt, first.replies, first.earlier_replies) == (1, "Go.", (), ())
    assert (third.number, third.prompt, third.replies) == (2, "Again.", ())
    assert [each.text for each in third.earlier_replies] == ["Wait.", "One."]
    step = fourth.replies[0].calls[0]
    assert step.sent is not None and step.sent.output == "noted x"
    assert step.result is not None and step.result.success


def test_typed_results_are_distinguished_when_every_reply_reuses_ids(tmp_path: Path) -> None:
    script = Script()
    replies = [scripted_reply(use("call-1", arguments=f'{{"text": "{word}"}}')) for word in ("one", "two", "three")]
    harness = LoopHarness(tmp_path, *replies, scripted_reply("Done."), guard=script)
    harness.advance()
    typed = [[step.result and step.result.output for step in each.calls] for each in script.turns[-1].replies]
    assert typed == [["noted one"], ["noted two"], ["noted three"]]
    looked = [[step.result and step.result.output for step in each.calls] for each in script.looked[-1].replies]
    assert looked == [["noted one"], ["noted two"], [None]]


def test_typed_results_are_restored_after_a_crash(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a"), use("w", "ask")), guard=Script())
    assert harness.advance().kind == "pending"
    script = Script()
    harness.options["guard"] = script
    harness.conversation = MemoryConversation(harness.conversation.store)
    assert harness.advance(config=Config(approval=ApprovalConfig(auto_approve=("note", "ask")))).kind == "done"
    looked = script.looked[0].replies[-1].calls
    assert [(step.sent is None, step.result is not None) for step in looked] == [(False, True), (True, False)]
    typed = [step.result for step in script.turns[0].replies[-1].calls]
    assert all(result is not None and result.success for result in typed)


def test_a_refusal_is_decided_before_any_call_of_the_reply_runs(tmp_path: Path) -> None:
    seen: list[tuple[bool, ...]] = []

    def refuse(turn: TurnHistory, use_id: str) -> None:
        seen.append(tuple(step.sent is None for step in turn.replies[-1].calls))

    harness = LoopHarness(tmp_path, scripted_reply(use("a"), use("b")), guard=Script(refuse=refuse))
    harness.advance()
    assert seen == [(True, True), (True, True)]


def test_a_step_stops_after_a_call_of_the_guard(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, guard=Script(lambda turn: CallTools("direct", (use("runtime-1"),))))
    assert harness.advance(step=True).kind == "stepped"
    assert harness.notes == []
    assert [event.calls for event in harness.events if isinstance(event, ReplyWritten)] == [(use("runtime-1"),)]
