"""Categorising and running calls: each row of the status table, from the placeholder to the result for the model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Tool
from holdfast.agent.conversation import LedgerCall, Status
from holdfast.agent.events import ResultWritten, StatusWritten
from holdfast.config.config import ApprovalConfig, Preset, ToolsConfig
from holdfast.contract.enums import State
from holdfast.contract.event import WarningRaised
from holdfast.contract.message import Text
from tests.agent.scripted_model import LoopHarness, scripted_reply, use

DENYING = Config(approval=ApprovalConfig(auto_approve=("$mine",), presets={"$mine": Preset(deny=("ask",))}))


def held(folder: Path, *more: str) -> LoopHarness:
    """A harness whose call `a1` is pending."""
    harness = LoopHarness(folder, scripted_reply(use("a1", "ask"), *(use(name, "ask") for name in more)))
    assert harness.advance().kind == "pending"
    return harness


@pytest.mark.spec("U1")
def test_a_call_approved_by_the_policy_is_marked_run_and_sent(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1")))
    assert harness.advance().kind == "done"
    marks = [event for event in harness.events if isinstance(event, StatusWritten | ResultWritten)]
    assert isinstance(marks[0], StatusWritten)
    assert marks[0].status is Status.APPROVED
    assert isinstance(marks[1], ResultWritten)
    assert harness.notes == [{"text": "x"}]
    assert [(result.output, result.error) for result in harness.results()] == [("noted x", False)]
    assert [len(messages) for messages in harness.model.requests] == [1, 3]


@pytest.mark.spec("U1", "U4")
def test_a_call_that_needs_approval_is_marked_pending_and_nothing_is_sent(tmp_path: Path) -> None:
    harness = held(tmp_path)
    [slot] = harness.slots()
    assert (slot.status, slot.text) == (Status.PENDING, "")
    assert slot.call is not None
    with harness.ledger() as ledger:
        assert [call.call.id for call in ledger.pending()] == [slot.call.call_id]
        assert ledger.pending()[0].digest == slot.call.digest
    outcome = harness.advance()
    assert (outcome.kind, outcome.exit_code, outcome.slots) == ("pending", 4, (slot,))
    assert outcome.message == "1 call is pending: ask (a1)."
    assert (harness.asks, len(harness.model.requests)) == ([], 1)


@pytest.mark.spec("U1")
def test_a_call_denied_by_the_policy_is_marked_denied_and_the_model_is_told_why(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask")))
    assert harness.advance(config=DENYING).kind == "done"
    assert [event.status for event in harness.events if isinstance(event, StatusWritten)] == [Status.DENIED]
    [result] = harness.results()
    assert result.error
    assert result.output.startswith("The tool was denied by a policy. ")
    assert "$mine" in result.output or "denies" in result.output
    assert (harness.asks, harness.states()) == ([], [State.DENIED])


@pytest.mark.spec("U1")
def test_calls_of_one_reply_are_categorised_independently(tmp_path: Path) -> None:
    harness = LoopHarness(
        tmp_path, scripted_reply(use("a1", "ask"), use("a2"), use("a3", "nothing"), use("a4", "note", "{broken"))
    )
    assert harness.advance().kind == "pending"
    assert [slot.use.id for slot in harness.slots()] == ["a1"]
    harness.user.set_status("a1", Status.REJECTED)
    assert harness.advance().kind == "done"
    outputs = [result.output for result in harness.results()]
    assert outputs[:2] == ["This tool has been rejected by the user.", "noted x"]
    assert outputs[2].startswith("There is no tool 'nothing'.")
    assert outputs[3].startswith("Invalid arguments for 'note': ")
    assert [result.error for result in harness.results()] == [True, False, True, True]


@pytest.mark.spec("U1", "U2")
def test_a_pending_call_marked_approved_runs(tmp_path: Path) -> None:
    harness = held(tmp_path)
    harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "done"
    assert harness.asks == [{"text": "x"}]
    assert [result.output for result in harness.results()] == ["noted x"]
    with harness.ledger() as ledger:
        assert [given.answer.by for given in ledger.calls()[0].answers] == ["person"]
        assert ledger.pending() == []


@pytest.mark.spec("U1", "U2")
@pytest.mark.parametrize(
    ("status", "text", "told"),
    [
        (Status.REJECTED, "", "This tool has been rejected by the user."),
        (Status.REJECTED, "Not on my home directory.\n", "Not on my home directory."),
        (Status.DENIED, "", "The tool was denied by a policy."),
        (Status.DENIED, "my words", "The tool was denied by a policy."),
        (Status.ABORTED, "", "Response interrupted by the user."),
    ],
)
def test_a_pending_call_marked_rejected_ends_with_an_error(
    tmp_path: Path, status: Status, text: str, told: str
) -> None:
    harness = held(tmp_path)
    harness.user.set_status("a1", status)
    harness.user.put_text("a1", text)
    assert harness.advance().kind == "done"
    assert [(result.output, result.error) for result in harness.results()] == [(told, True)]
    assert harness.asks == []
    assert harness.states() == [State.CANCELLED if status is Status.ABORTED else State.REJECTED]


@pytest.mark.spec("U3")
def test_text_in_a_pending_block_becomes_the_result(tmp_path: Path) -> None:
    harness = held(tmp_path)
    harness.user.put_text("a1", "I ran it: 3 passed")
    assert harness.advance().kind == "done"
    assert [(result.output, result.error) for result in harness.results()] == [("I ran it: 3 passed", False)]
    assert (harness.asks, harness.states()) == ([], [State.DONE])


@pytest.mark.spec("U3")
def test_text_in_an_approved_block_pauses_the_loop_until_the_fence_is_removed(tmp_path: Path) -> None:
    harness = held(tmp_path, "a2", "a3")
    harness.user.set_status("a1", Status.APPROVED)
    harness.user.put_text("a1", "what I would like to send")
    harness.user.set_status("a2", Status.APPROVED)
    for _ in range(2):
        outcome = harness.advance()
        assert (outcome.kind, outcome.exit_code) == ("edited", 4)
        assert "'a1' was not run" in outcome.message
        assert [slot.use.id for slot in outcome.slots] == ["a1", "a3"]
        assert (len(harness.asks), len(harness.model.requests)) == (1, 1)
    assert any(isinstance(event, WarningRaised) and "'a1'" in event.message for event in harness.events)
    harness.user.set_status("a3", Status.REJECTED)
    assert harness.advance().kind == "edited"
    harness.user.remove_fence("a1")
    assert harness.advance().kind == "done"
    assert harness.results()[0].output == "what I would like to send"
    with harness.ledger() as ledger:
        assert ledger.pending() == []
    assert len(harness.asks) == 1


@pytest.mark.spec("U3")
def test_an_edited_block_runs_once_the_text_is_removed(tmp_path: Path) -> None:
    harness = held(tmp_path)
    harness.user.set_status("a1", Status.APPROVED)
    harness.user.put_text("a1", "hm")
    assert harness.advance().kind == "edited"
    harness.user.put_text("a1", "  \n")
    assert harness.advance().kind == "done"
    assert len(harness.asks) == 1


@pytest.mark.spec("U2")
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_approval_counts_only_for_the_call_that_was_pending(tmp_path: Path, when: str) -> None:
    """An approval typed before the call was pending, or next to changed arguments, leaves the call pending."""
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask")))
    if when == "before":
        assert harness.advance(step=True).kind == "stepped"
        harness.user.set_status("a1", Status.APPROVED)
    else:
        assert harness.advance().kind == "pending"
        harness.user.edit_call("a1", '{"text": "something else"}')
        harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "pending"
    assert (harness.asks, harness.slots()[0].status) == ([], Status.PENDING)
    harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "done"
    assert harness.asks == [{"text": "x" if when == "before" else "something else"}]


@pytest.mark.spec("U2")
def test_a_stored_digest_of_another_call_approves_nothing(tmp_path: Path) -> None:
    harness = held(tmp_path)
    [slot] = harness.slots()
    assert slot.call is not None
    harness.conversation.remember(slot, LedgerCall(call_id=slot.call.call_id, digest="of something else"))
    harness.user.set_status("a1", Status.APPROVED)
    outcome = harness.advance()
    assert (outcome.kind, harness.asks) == ("pending", [])
    assert any(isinstance(event, WarningRaised) and "is pending again" in event.message for event in harness.events)
    assert harness.slots()[0].call == slot.call


@pytest.mark.spec("U2")
def test_a_call_whose_effect_changed_is_pending_again(tmp_path: Path) -> None:
    from holdfast import Proposal
    from holdfast.contract.enums import Risk

    target = tmp_path / "target"
    target.write_text("one")

    def propose(args: Any, ctx: Any) -> Proposal:
        return Proposal(tool_name="put", summary=target.read_text(), risk=Risk.HIGH, payload={})

    def apply(args: Any, ctx: Any) -> str:
        return f"put {target.read_text()}"

    put = Tool(name="put", propose=propose, apply=apply, effects=frozenset({"external"}))
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "put", "{}")), tools=[put])
    assert harness.advance().kind == "pending"
    target.write_text("two")
    harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "pending"
    harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "done"
    assert [result.output for result in harness.results()] == ["put two"]


@pytest.mark.spec("U2")
@pytest.mark.parametrize("status", [Status.REJECTED, Status.DENIED])
def test_a_person_can_reject_a_call_that_the_policy_approved(tmp_path: Path, status: Status) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1")))
    assert harness.advance(step=True).kind == "stepped"
    harness.user.set_status("a1", status)
    assert harness.advance().kind == "done"
    assert (harness.notes, harness.results()[0].error) == ([], True)


@pytest.mark.spec("U2")
def test_a_person_can_set_a_call_that_the_policy_approved_to_pending(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1"), use("a2", arguments='{"text": "y"}')))
    assert harness.advance(step=True).kind == "stepped"
    harness.user.set_status("a1", Status.PENDING)
    harness.user.set_status("a2", Status.APPROVED)
    for _ in range(2):
        assert harness.advance().kind == "pending"
    assert harness.notes == [{"text": "y"}]
    harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "done"
    assert len(harness.notes) == 2


@pytest.mark.spec("U2")
def test_a_pending_call_removed_from_the_conversation_is_withdrawn(tmp_path: Path) -> None:
    harness = held(tmp_path, "a2", "a3")
    harness.user.remove_call("a1")
    harness.user.edit_call("a2", '{"text": "y"}')
    harness.user.put_text("a3", "mine")
    harness.user.remove_fence("a3")
    assert harness.advance().kind == "pending"
    with harness.ledger() as ledger:
        assert [call.call.args for call in ledger.pending()] == [{"text": "y"}]
    assert harness.states()[:3] == [State.CANCELLED] * 3
    assert len(harness.conversation.remembered()) == 1


@pytest.mark.spec("U1")
def test_calls_of_an_aborted_reply_neither_ask_nor_run(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)
    harness.conversation.refresh()
    harness.conversation.add_reply([Text("Half"), use("a1"), use("a2", "ask")], aborted="The stream was cut.")
    assert harness.advance().kind == "done"
    assert [event.status for event in harness.events if isinstance(event, StatusWritten)] == [Status.ABORTED] * 2
    assert [(result.output, result.error) for result in harness.results()] == [("The stream was cut.", True)] * 2
    assert (harness.notes, harness.asks, harness.states()) == ([], [], [])


@pytest.mark.spec("U2")
def test_an_aborted_call_cannot_be_approved(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)
    harness.conversation.refresh()
    harness.conversation.add_reply([use("a1")], aborted="cut")
    harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "done"
    assert (harness.notes, [result.output for result in harness.results()]) == ([], ["cut"])


@pytest.mark.spec("D5")
def test_an_open_call_of_an_earlier_turn_is_withdrawn_and_reported_as_not_run(tmp_path: Path) -> None:
    harness = held(tmp_path)
    harness.user.say("Never mind.")
    harness.conversation.refresh()
    harness.conversation.add_reply([Text("All right.")])
    harness.user.say("Next.")
    assert harness.advance().kind == "done"
    assert harness.conversation.repair() == 0
    assert [result.output for result in harness.results()] == [
        "No result was recorded for this call; it was not run again."
    ]
    assert (harness.asks, harness.states()) == ([], [State.CANCELLED])


@pytest.mark.spec("U1")
def test_calls_run_concurrently_up_to_max_concurrent_and_all_of_them_run(tmp_path: Path) -> None:
    now = most = 0

    async def busy(args: Any) -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(5):
            await asyncio.sleep(0)
        now -= 1
        return "ok"

    tool = Tool(name="busy", execute=busy, effects=frozenset())
    config = Config(tools=ToolsConfig(max_concurrent=3), approval=ApprovalConfig(auto_approve=("busy",)))
    uses = [use(f"a{number}", "busy", "{}") for number in range(10)]
    harness = LoopHarness(tmp_path, scripted_reply(use("p1", "ask"), *uses), tools=[tool])
    assert harness.advance(config=config).kind == "pending"
    assert most == 3
    assert [slot.use.id for slot in harness.slots()] == ["p1"]


@pytest.mark.spec("U1")
def test_each_result_is_written_as_soon_as_it_exists(tmp_path: Path) -> None:
    """A slow call does not delay the results of others."""
    gate = asyncio.Event()

    async def slow(args: Any) -> str:
        await gate.wait()
        return "slow"

    def open_gate(event: object) -> None:
        if isinstance(event, ResultWritten) and event.use.id == "a2":
            assert [slot.use.id for slot in harness.slots()] == ["a1"]
            gate.set()

    tool = Tool(name="slow", execute=slow, effects=frozenset())
    harness = LoopHarness(
        tmp_path, scripted_reply(use("a1", "slow", "{}"), use("a2")), tools=[tool], on_event=open_gate
    )
    assert harness.advance(config=Config(approval=ApprovalConfig(auto_approve=("note", "slow")))).kind == "done"
    assert [result.output for result in harness.results()] == ["slow", "noted x"]


@pytest.mark.spec("U1")
def test_a_thousand_calls_of_one_reply_all_get_their_result(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(*(use(f"a{number}") for number in range(1000))))
    assert harness.advance().kind == "done"
    assert len(harness.notes) == 1000
    assert [result.id for result in harness.results()] == [f"a{number}" for number in range(1000)]
