"""The loop: autopilot and its limit, single steps, single calls, and reasons not to send."""

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
from tests.agent.scripted_model import LoopHarness, fixed_tool, scripted_reply, use

STOPPED = "Autopilot stopped – exceeded 3 consecutive turns."


@pytest.mark.spec("U4")
def test_autopilot_continues_until_the_model_has_answered(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, *(scripted_reply(use("call_1")) for _ in range(5)), scripted_reply("That is all."))
    outcome = harness.advance()
    assert (outcome.kind, outcome.exit_code, len(harness.model.requests)) == ("done", 0, 6)
    assert outcome.usage.input == 60
    assert harness.conversation.usage == outcome.usage
    assert len(harness.notes) == 5
    assert harness.advance().kind == "done"
    assert len(harness.model.requests) == 6


@pytest.mark.spec("U4")
def test_autopilot_stops_at_its_limit_counted_from_the_last_user_message(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, *(scripted_reply(use("call_1")) for _ in range(50)), max_turns=3)
    outcome = harness.advance()
    assert (outcome.kind, outcome.exit_code) == ("stopped", 1)
    assert outcome.message == f"{STOPPED} Write a message to continue."
    assert (len(harness.model.requests), len(harness.notes)) == (3, 3)
    assert WarningRaised("", STOPPED) in harness.events
    assert harness.advance().kind == "stopped"
    assert len(harness.model.requests) == 3
    harness.user.say("Go on.")
    assert harness.advance().kind == "stopped"
    assert len(harness.model.requests) == 6


@pytest.mark.spec("U4")
def test_a_finished_turn_does_not_use_up_the_limit_of_the_next(tmp_path: Path) -> None:
    replies = [
        scripted_reply(use("a")),
        scripted_reply("One."),
        scripted_reply(use("a")),
        scripted_reply(use("a")),
        scripted_reply("Two."),
    ]
    harness = LoopHarness(tmp_path, *replies, max_turns=3)
    assert harness.advance().kind == "done"
    harness.user.say("And again.")
    assert harness.advance().kind == "done"
    assert harness.model.replies == []


@pytest.mark.spec("U4")
def test_the_limit_applies_to_autopilot_but_not_to_single_steps(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, *(scripted_reply(use("a")) for _ in range(9)), max_turns=2)
    assert harness.advance().kind == "stopped"
    assert harness.advance(step=True).kind == "stepped"
    assert len(harness.model.requests) == 3


@pytest.mark.spec("U1", "U4")
@pytest.mark.parametrize("how", ["step", "no autopilot"])
def test_a_step_is_categorise_and_execute_or_send(tmp_path: Path, how: str) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1")), scripted_reply("Done."), autopilot=how == "step")
    begun: list[list[str]] = []
    kinds: list[str] = []
    for _ in range(4):
        harness.events.clear()
        kinds.append(harness.advance(step=how == "step").kind)
        begun.append([event.phase for event in harness.events if isinstance(event, PhaseStarted)])
    assert begun == [["send"], ["categorise", "execute"], ["send"], []]
    assert kinds == ["stepped", "stepped", "done", "done"]


@pytest.mark.spec("U1")
def test_a_step_that_ends_at_a_pending_call_has_the_outcome_pending(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask")))
    assert [harness.advance(step=True).kind for _ in range(3)] == ["stepped", "pending", "pending"]
    harness.user.set_status("a1", Status.APPROVED)
    assert [harness.advance(step=True).kind for _ in range(3)] == ["stepped", "done", "done"]


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
def test_a_single_call_is_run_or_resolved(
    tmp_path: Path, status: Status, text: str, output: str, runs: int, code: int
) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask"), use("a2", "ask")))
    assert harness.advance().kind == "pending"
    harness.user.set_status("a2", status)
    harness.user.put_text("a2", text)
    harness.user.set_status("a1", Status.APPROVED)
    outcome = harness.run_one("a2")
    assert (outcome.kind, outcome.exit_code) == ("stepped", code)
    assert len(harness.asks) == runs
    assert [slot.use.id for slot in outcome.slots] == ["a1"]
    assert harness.results()[1].output == output
    assert len(harness.model.requests) == 1


@pytest.mark.spec("U5", "U2")
def test_a_single_call_that_was_not_shown_becomes_pending_first(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask")))
    assert harness.advance(step=True).kind == "stepped"
    assert (harness.run_one("a1").kind, harness.asks) == ("pending", [])
    assert (harness.run_one("a1").kind, len(harness.asks)) == ("stepped", 1)


@pytest.mark.spec("U5")
def test_a_single_call_approved_by_the_policy_runs_at_once_but_an_edited_one_does_not(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1"), use("a2")))
    assert harness.advance(step=True).kind == "stepped"
    assert harness.run_one("a1").kind == "stepped"
    harness.user.set_status("a2", Status.APPROVED)
    harness.user.put_text("a2", "words")
    assert (harness.run_one("a2").kind, len(harness.notes)) == ("edited", 1)


@pytest.mark.spec("U5")
def test_running_an_unknown_call_id_fails_with_a_message(tmp_path: Path) -> None:
    outcome = LoopHarness(tmp_path).run_one("nope")
    assert (outcome.kind, outcome.message) == ("failed", "The last reply has no unfinished call 'nope'.")


@pytest.mark.spec("R4")
def test_a_send_waits_for_loading_tool_sources_and_then_proceeds(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)

    async def drive(loop: Loop) -> Any:
        may_end = asyncio.Event()

        async def load(register: Any, done: Any) -> None:
            await may_end.wait()
            register(fixed_tool("late", "here"))
            done()

        loop.runtime.register(load)
        with loop.runtime.subscribe() as events:
            going = asyncio.create_task(loop.advance())
            async for event in events:
                if isinstance(event, WarningRaised):
                    assert event.message == "Waiting for tool definitions to load..."
                    break
        assert harness.model.requests == []
        may_end.set()
        return await going

    assert harness.run(drive).kind == "done"
    assert "late" in harness.model.tools[0]


@pytest.mark.spec("R4")
def test_a_send_that_waits_for_tools_can_be_cancelled(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)

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

    assert harness.run(drive).kind == "cancelled"
    assert harness.model.requests == []


@pytest.mark.spec("U1")
def test_an_error_diagnostic_prevents_sending_and_a_warning_does_not(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)
    problem = Diagnostic("error", "Unsupported frontmatter language: cobol", line=1)
    harness.conversation.store.problems = [Diagnostic("warning", "Odd."), problem]
    outcome = harness.advance()
    assert (outcome.kind, outcome.message) == ("failed", "The conversation:1: Unsupported frontmatter language: cobol")
    assert harness.model.requests == []
    harness.conversation.store.problems = [Diagnostic("warning", "Odd.")]
    assert harness.advance().kind == "done"
    assert WarningRaised("", "The conversation: Odd.") in harness.events


@pytest.mark.spec("D5")
def test_nothing_is_sent_while_a_call_has_no_result(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)
    calls = Message("assistant", (ToolUse("a1", "note"), ToolUse("a2", "note")))
    harness.conversation.messages = lambda: [calls, Message("user", (Text("hm"),))]
    outcome = harness.advance()
    assert (outcome.kind, harness.model.requests) == ("failed", [])
    assert outcome.message == "Call 'a1' has no result next to it, so nothing was sent."


@pytest.mark.spec("U1")
def test_only_one_advance_runs_at_a_time(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)

    async def drive(loop: Loop) -> Any:
        return await asyncio.gather(loop.advance(), loop.advance())

    first, second = harness.run(drive)
    assert (first.kind, second.kind) == ("done", "failed")
    assert len(harness.model.requests) == 1
