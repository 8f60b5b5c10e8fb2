"""How far one command goes: autopilot and its limit, steps, one call alone, and what keeps a conversation from being
sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.conversation import Diagnostic, Status
from holdfast.agent.events import PhaseStarted
from holdfast.agent.loop import Loop
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import Message, Text, ToolUse
from tests.agent.scripted import Stage, said, saying, use

STOPPED = "Autopilot stopped – exceeded 3 consecutive turns."


@pytest.mark.spec("U4")
def test_autopilot_goes_on_until_the_model_has_answered(tmp_path: Path) -> None:
    stage = Stage(tmp_path, *(said(use("call_1")) for _ in range(5)), said("That is all."))
    outcome = stage.advance()
    assert (outcome.kind, outcome.exit_code, len(stage.model.asked)) == ("done", 0, 6)
    assert outcome.usage.input == 60
    assert stage.conversation.usage == outcome.usage
    assert len(stage.notes) == 5
    assert stage.advance().kind == "done"
    assert len(stage.model.asked) == 6


@pytest.mark.spec("U4")
def test_autopilot_stops_at_its_limit_counted_from_the_persons_last_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path, *(said(use("call_1")) for _ in range(50)), max_turns=3)
    outcome = stage.advance()
    assert (outcome.kind, outcome.exit_code) == ("stopped", 1)
    assert outcome.message == f"{STOPPED} Write a message to continue."
    assert (len(stage.model.asked), len(stage.notes)) == (3, 3)
    assert WarningRaised("", STOPPED) in stage.events
    assert stage.advance().kind == "stopped"
    assert len(stage.model.asked) == 3
    stage.person.say("Go on.")
    assert stage.advance().kind == "stopped"
    assert len(stage.model.asked) == 6


@pytest.mark.spec("U4")
def test_a_turn_that_ends_by_itself_uses_up_nothing_of_the_next_ones_limit(tmp_path: Path) -> None:
    replies = [said(use("a")), said("One."), said(use("a")), said(use("a")), said("Two.")]
    stage = Stage(tmp_path, *replies, max_turns=3)
    assert stage.advance().kind == "done"
    stage.person.say("And again.")
    assert stage.advance().kind == "done"
    assert stage.model.replies == []


@pytest.mark.spec("U4")
def test_the_limit_is_autopilots_and_a_person_may_go_on_step_by_step(tmp_path: Path) -> None:
    stage = Stage(tmp_path, *(said(use("a")) for _ in range(9)), max_turns=2)
    assert stage.advance().kind == "stopped"
    assert stage.advance(step=True).kind == "stepped"
    assert len(stage.model.asked) == 3


@pytest.mark.spec("U1", "U4")
@pytest.mark.parametrize("how", ["step", "no autopilot"])
def test_a_step_is_sorting_and_running_or_sending(tmp_path: Path, how: str) -> None:
    stage = Stage(tmp_path, said(use("a1")), said("Done."), autopilot=how == "step")
    begun: list[list[str]] = []
    kinds: list[str] = []
    for _ in range(4):
        stage.events.clear()
        kinds.append(stage.advance(step=how == "step").kind)
        begun.append([event.phase for event in stage.events if isinstance(event, PhaseStarted)])
    assert begun == [["send"], ["categorise", "execute"], ["send"], []]
    assert kinds == ["stepped", "stepped", "done", "done"]


@pytest.mark.spec("U1")
def test_a_step_that_ends_at_a_pending_call_says_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1", "ask")))
    assert [stage.advance(step=True).kind for _ in range(3)] == ["stepped", "pending", "pending"]
    stage.person.set_status("a1", Status.APPROVED)
    assert [stage.advance(step=True).kind for _ in range(3)] == ["stepped", "done", "done"]


@pytest.mark.spec("U5")
@pytest.mark.parametrize(
    ("status", "text", "output", "runs", "code"),
    [
        (Status.APPROVED, "", "noted x", 1, 0),
        (Status.PENDING, "", "noted x", 1, 0),
        (Status.PENDING, "mine", "mine", 0, 0),
        (Status.REJECTED, "why", "why", 0, 3),
        (Status.DENIED, "", "The tool was denied by a policy.", 0, 3),
    ],
)
def test_one_call_alone_is_run_or_resolved(
    tmp_path: Path, status: Status, text: str, output: str, runs: int, code: int
) -> None:
    stage = Stage(tmp_path, said(use("a1", "ask"), use("a2", "ask")))
    assert stage.advance().kind == "pending"
    stage.person.set_status("a2", status)
    stage.person.put_text("a2", text)
    stage.person.set_status("a1", Status.APPROVED)
    outcome = stage.run_one("a2")
    assert (outcome.kind, outcome.exit_code) == ("stepped", code)
    assert len(stage.asks) == runs
    assert [slot.use.id for slot in outcome.slots] == ["a1"]
    assert stage.results()[1].output == output
    assert len(stage.model.asked) == 1


@pytest.mark.spec("U5", "U2")
def test_one_call_that_nobody_was_shown_is_held_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1", "ask")))
    assert stage.advance(step=True).kind == "stepped"
    assert (stage.run_one("a1").kind, stage.asks) == ("pending", [])
    assert (stage.run_one("a1").kind, len(stage.asks)) == ("stepped", 1)


@pytest.mark.spec("U5")
def test_one_call_that_the_policy_approves_runs_at_once_and_an_edited_one_does_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1"), use("a2")))
    assert stage.advance(step=True).kind == "stepped"
    assert stage.run_one("a1").kind == "stepped"
    stage.person.set_status("a2", Status.APPROVED)
    stage.person.put_text("a2", "words")
    assert (stage.run_one("a2").kind, len(stage.notes)) == ("edited", 1)


@pytest.mark.spec("U5")
def test_one_call_that_is_not_there_is_said_not_to_be(tmp_path: Path) -> None:
    outcome = Stage(tmp_path).run_one("nope")
    assert (outcome.kind, outcome.message) == ("failed", "The last reply has no unfinished call 'nope'.")


@pytest.mark.spec("R4")
def test_a_send_waits_for_the_tools_that_are_still_loading_and_goes_by_itself(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def drive(loop: Loop) -> Any:
        may_end = asyncio.Event()

        async def load(register: Any, done: Any) -> None:
            await may_end.wait()
            register(saying("late", "here"))
            done()

        loop.runtime.register(load)
        with loop.runtime.subscribe() as events:
            going = asyncio.create_task(loop.advance())
            async for event in events:
                if isinstance(event, WarningRaised):
                    assert event.message == "Waiting for tool definitions to load..."
                    break
        assert stage.model.asked == []
        may_end.set()
        return await going

    assert stage.go(drive).kind == "done"
    assert "late" in stage.model.tools[0]


@pytest.mark.spec("R4")
def test_a_send_that_waits_for_tools_can_be_cancelled(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def drive(loop: Loop) -> Any:
        async def load(register: Any, done: Any) -> None:
            await asyncio.Event().wait()

        loop.runtime.register(load)
        with loop.runtime.subscribe() as events:
            going = asyncio.create_task(loop.advance())
            async for event in events:
                if isinstance(event, WarningRaised):
                    break
        assert loop.cancel()
        return await going

    assert stage.go(drive).kind == "cancelled"
    assert stage.model.asked == []


@pytest.mark.spec("U1")
def test_an_error_in_the_conversation_keeps_it_from_being_sent_and_a_warning_does_not(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    problem = Diagnostic("error", "Unsupported frontmatter language: cobol", line=1)
    stage.conversation.store.problems = [Diagnostic("warning", "Odd."), problem]
    outcome = stage.advance()
    assert (outcome.kind, outcome.message) == ("failed", "The conversation:1: Unsupported frontmatter language: cobol")
    assert stage.model.asked == []
    stage.conversation.store.problems = [Diagnostic("warning", "Odd.")]
    assert stage.advance().kind == "done"
    assert WarningRaised("", "The conversation: Odd.") in stage.events


@pytest.mark.spec("D5")
def test_nothing_is_sent_in_which_a_call_has_no_result_beside_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    calls = Message("assistant", (ToolUse("a1", "note"), ToolUse("a2", "note")))
    stage.conversation.messages = lambda: [calls, Message("user", (Text("hm"),))]
    outcome = stage.advance()
    assert (outcome.kind, stage.model.asked) == ("failed", [])
    assert outcome.message == "Call 'a1' has no result next to it, so nothing was sent."


@pytest.mark.spec("U1")
def test_a_conversation_is_driven_by_one_at_a_time(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def drive(loop: Loop) -> Any:
        return await asyncio.gather(loop.advance(), loop.advance())

    first, second = stage.go(drive)
    assert (first.kind, second.kind) == ("done", "failed")
    assert len(stage.model.asked) == 1
