"""Sorting and running: each row of the status table, from what a person wrote to what the model is told."""

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
from tests.agent.scripted import Stage, said, use

DENYING = Config(approval=ApprovalConfig(auto_approve=("$mine",), presets={"$mine": Preset(deny=("ask",))}))


def held(folder: Path, *more: str) -> Stage:
    """A stage whose call `a1` waits for an answer."""
    stage = Stage(folder, said(use("a1", "ask"), *(use(name, "ask") for name in more)))
    assert stage.advance().kind == "pending"
    return stage


@pytest.mark.spec("U1")
def test_what_the_policy_approves_is_marked_run_and_sent(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1")))
    assert stage.advance().kind == "done"
    marks = [event for event in stage.events if isinstance(event, StatusWritten | ResultWritten)]
    assert isinstance(marks[0], StatusWritten)
    assert marks[0].status is Status.APPROVED
    assert isinstance(marks[1], ResultWritten)
    assert stage.notes == [{"text": "x"}]
    assert [(result.output, result.error) for result in stage.results()] == [("noted x", False)]
    assert [len(messages) for messages in stage.model.asked] == [1, 3]


@pytest.mark.spec("U1", "U4")
def test_what_must_be_asked_about_is_marked_pending_and_nothing_is_sent(tmp_path: Path) -> None:
    stage = held(tmp_path)
    [slot] = stage.slots()
    assert (slot.status, slot.text) == (Status.PENDING, "")
    assert slot.call is not None
    with stage.ledger() as ledger:
        assert [call.call.id for call in ledger.pending()] == [slot.call.call_id]
        assert ledger.pending()[0].digest == slot.call.digest
    outcome = stage.advance()
    assert (outcome.kind, outcome.exit_code, outcome.slots) == ("pending", 4, (slot,))
    assert outcome.message == "1 call is pending: ask (a1)."
    assert (stage.asks, len(stage.model.asked)) == ([], 1)


@pytest.mark.spec("U1")
def test_what_the_policy_denies_is_marked_denied_and_the_model_is_told_why(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1", "ask")))
    assert stage.advance(config=DENYING).kind == "done"
    assert [event.status for event in stage.events if isinstance(event, StatusWritten)] == [Status.DENIED]
    [result] = stage.results()
    assert result.error
    assert result.output.startswith("The tool was denied by a policy. ")
    assert "$mine" in result.output or "denies" in result.output
    assert (stage.asks, stage.states()) == ([], [State.DENIED])


@pytest.mark.spec("U1")
def test_calls_of_one_reply_are_sorted_each_on_its_own(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1", "ask"), use("a2"), use("a3", "nothing"), use("a4", "note", "{broken")))
    assert stage.advance().kind == "pending"
    assert [slot.use.id for slot in stage.slots()] == ["a1"]
    stage.person.set_status("a1", Status.REJECTED)
    assert stage.advance().kind == "done"
    outputs = [result.output for result in stage.results()]
    assert outputs[:2] == ["This tool has been rejected by the user.", "noted x"]
    assert outputs[2].startswith("There is no tool 'nothing'.")
    assert outputs[3].startswith("Invalid arguments for 'note': ")
    assert [result.error for result in stage.results()] == [True, False, True, True]


@pytest.mark.spec("U1", "U2")
def test_a_pending_call_a_person_marks_approved_runs(tmp_path: Path) -> None:
    stage = held(tmp_path)
    stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "done"
    assert stage.asks == [{"text": "x"}]
    assert [result.output for result in stage.results()] == ["noted x"]
    with stage.ledger() as ledger:
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
def test_a_pending_call_a_person_refuses_ends_with_an_error(
    tmp_path: Path, status: Status, text: str, told: str
) -> None:
    stage = held(tmp_path)
    stage.person.set_status("a1", status)
    stage.person.put_text("a1", text)
    assert stage.advance().kind == "done"
    assert [(result.output, result.error) for result in stage.results()] == [(told, True)]
    assert stage.asks == []
    assert stage.states() == [State.CANCELLED if status is Status.ABORTED else State.REJECTED]


@pytest.mark.spec("U3")
def test_text_in_a_pending_block_is_the_persons_own_result(tmp_path: Path) -> None:
    stage = held(tmp_path)
    stage.person.put_text("a1", "I ran it: 3 passed")
    assert stage.advance().kind == "done"
    assert [(result.output, result.error) for result in stage.results()] == [("I ran it: 3 passed", False)]
    assert (stage.asks, stage.states()) == ([], [State.DONE])


@pytest.mark.spec("U3")
def test_text_in_an_approved_block_stops_the_cycle_until_the_fence_is_gone(tmp_path: Path) -> None:
    stage = held(tmp_path, "a2", "a3")
    stage.person.set_status("a1", Status.APPROVED)
    stage.person.put_text("a1", "what I would like to send")
    stage.person.set_status("a2", Status.APPROVED)
    for _ in range(2):
        outcome = stage.advance()
        assert (outcome.kind, outcome.exit_code) == ("edited", 4)
        assert "'a1' was not run" in outcome.message
        assert [slot.use.id for slot in outcome.slots] == ["a1", "a3"]
        assert (len(stage.asks), len(stage.model.asked)) == (1, 1)
    assert any(isinstance(event, WarningRaised) and "'a1'" in event.message for event in stage.events)
    stage.person.set_status("a3", Status.REJECTED)
    assert stage.advance().kind == "edited"
    stage.person.remove_fence("a1")
    assert stage.advance().kind == "done"
    assert stage.results()[0].output == "what I would like to send"
    with stage.ledger() as ledger:
        assert ledger.pending() == []
    assert len(stage.asks) == 1


@pytest.mark.spec("U3")
def test_an_edited_block_runs_again_when_the_text_is_gone(tmp_path: Path) -> None:
    stage = held(tmp_path)
    stage.person.set_status("a1", Status.APPROVED)
    stage.person.put_text("a1", "hm")
    assert stage.advance().kind == "edited"
    stage.person.put_text("a1", "  \n")
    assert stage.advance().kind == "done"
    assert len(stage.asks) == 1


@pytest.mark.spec("U2")
@pytest.mark.parametrize("when", ["before", "after"])
def test_approved_counts_only_for_the_call_that_was_held(tmp_path: Path, when: str) -> None:
    """Typed before anything was held, or beside arguments nobody was shown, it is one more pending call."""
    stage = Stage(tmp_path, said(use("a1", "ask")))
    if when == "before":
        assert stage.advance(step=True).kind == "stepped"
        stage.person.set_status("a1", Status.APPROVED)
    else:
        assert stage.advance().kind == "pending"
        stage.person.edit_call("a1", '{"text": "something else"}')
        stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "pending"
    assert (stage.asks, stage.slots()[0].status) == ([], Status.PENDING)
    stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "done"
    assert stage.asks == [{"text": "x" if when == "before" else "something else"}]


@pytest.mark.spec("U2")
def test_what_is_remembered_for_another_digest_approves_nothing(tmp_path: Path) -> None:
    stage = held(tmp_path)
    [slot] = stage.slots()
    assert slot.call is not None
    stage.conversation.remember(slot, LedgerCall(call_id=slot.call.call_id, digest="of something else"))
    stage.person.set_status("a1", Status.APPROVED)
    outcome = stage.advance()
    assert (outcome.kind, stage.asks) == ("pending", [])
    assert any(isinstance(event, WarningRaised) and "is pending again" in event.message for event in stage.events)
    assert stage.slots()[0].call == slot.call


@pytest.mark.spec("U2")
def test_a_call_that_would_do_something_else_by_now_waits_again(tmp_path: Path) -> None:
    from holdfast import Proposal
    from holdfast.contract.enums import Risk

    target = tmp_path / "target"
    target.write_text("one")

    def propose(args: Any, ctx: Any) -> Proposal:
        return Proposal(tool_name="put", summary=target.read_text(), risk=Risk.HIGH, payload={})

    def apply(args: Any, ctx: Any) -> str:
        return f"put {target.read_text()}"

    put = Tool(name="put", propose=propose, apply=apply, effects=frozenset({"external"}))
    stage = Stage(tmp_path, said(use("a1", "put", "{}")), tools=[put])
    assert stage.advance().kind == "pending"
    target.write_text("two")
    stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "pending"
    stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "done"
    assert [result.output for result in stage.results()] == ["put two"]


@pytest.mark.spec("U2")
@pytest.mark.parametrize("status", [Status.REJECTED, Status.DENIED])
def test_a_person_may_refuse_what_the_policy_approved(tmp_path: Path, status: Status) -> None:
    stage = Stage(tmp_path, said(use("a1")))
    assert stage.advance(step=True).kind == "stepped"
    stage.person.set_status("a1", status)
    assert stage.advance().kind == "done"
    assert (stage.notes, stage.results()[0].error) == ([], True)


@pytest.mark.spec("U2")
def test_a_person_may_hold_back_what_the_policy_approved(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1"), use("a2", arguments='{"text": "y"}')))
    assert stage.advance(step=True).kind == "stepped"
    stage.person.set_status("a1", Status.PENDING)
    stage.person.set_status("a2", Status.APPROVED)
    for _ in range(2):
        assert stage.advance().kind == "pending"
    assert stage.notes == [{"text": "y"}]
    stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "done"
    assert len(stage.notes) == 2


@pytest.mark.spec("U2")
def test_a_held_call_nobody_asks_for_any_more_is_withdrawn(tmp_path: Path) -> None:
    stage = held(tmp_path, "a2", "a3")
    stage.person.remove_call("a1")
    stage.person.edit_call("a2", '{"text": "y"}')
    stage.person.put_text("a3", "mine")
    stage.person.remove_fence("a3")
    assert stage.advance().kind == "pending"
    with stage.ledger() as ledger:
        assert [call.call.args for call in ledger.pending()] == [{"text": "y"}]
    assert stage.states()[:3] == [State.CANCELLED] * 3
    assert len(stage.conversation.remembered()) == 1


@pytest.mark.spec("U1")
def test_calls_of_an_aborted_reply_are_neither_asked_about_nor_run(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.conversation.refresh()
    stage.conversation.add_reply([Text("Half"), use("a1"), use("a2", "ask")], aborted="The stream was cut.")
    assert stage.advance().kind == "done"
    assert [event.status for event in stage.events if isinstance(event, StatusWritten)] == [Status.ABORTED] * 2
    assert [(result.output, result.error) for result in stage.results()] == [("The stream was cut.", True)] * 2
    assert (stage.notes, stage.asks, stage.states()) == ([], [], [])


@pytest.mark.spec("U2")
def test_an_aborted_call_is_not_approved_by_writing_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.conversation.refresh()
    stage.conversation.add_reply([use("a1")], aborted="cut")
    stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "done"
    assert (stage.notes, [result.output for result in stage.results()]) == ([], ["cut"])


@pytest.mark.spec("D5")
def test_a_call_of_an_earlier_turn_is_told_not_to_have_run_and_is_withdrawn(tmp_path: Path) -> None:
    stage = held(tmp_path)
    stage.person.say("Never mind.")
    stage.conversation.refresh()
    stage.conversation.add_reply([Text("All right.")])
    stage.person.say("Next.")
    assert stage.advance().kind == "done"
    assert stage.conversation.repair() == 0
    assert [result.output for result in stage.results()] == [
        "No result was recorded for this call; it was not run again."
    ]
    assert (stage.asks, stage.states()) == ([], [State.CANCELLED])


@pytest.mark.spec("U1")
def test_as_many_calls_run_together_as_the_configuration_lets_and_all_of_them_run(tmp_path: Path) -> None:
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
    stage = Stage(tmp_path, said(use("p1", "ask"), *uses), tools=[tool])
    assert stage.advance(config=config).kind == "pending"
    assert most == 3
    assert [slot.use.id for slot in stage.slots()] == ["p1"]


@pytest.mark.spec("U1")
def test_results_are_written_as_they_come(tmp_path: Path) -> None:
    """A call that takes long does not keep the results of others out of the conversation."""
    gate = asyncio.Event()

    async def slow(args: Any) -> str:
        await gate.wait()
        return "slow"

    def open_gate(event: object) -> None:
        if isinstance(event, ResultWritten) and event.use.id == "a2":
            assert [slot.use.id for slot in stage.slots()] == ["a1"]
            gate.set()

    tool = Tool(name="slow", execute=slow, effects=frozenset())
    stage = Stage(tmp_path, said(use("a1", "slow", "{}"), use("a2")), tools=[tool], on_event=open_gate)
    assert stage.advance(config=Config(approval=ApprovalConfig(auto_approve=("note", "slow")))).kind == "done"
    assert [result.output for result in stage.results()] == ["slow", "noted x"]


@pytest.mark.spec("U1")
def test_a_thousand_calls_of_one_reply_all_get_their_result(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(*(use(f"a{number}") for number in range(1000))))
    assert stage.advance().kind == "done"
    assert len(stage.notes) == 1000
    assert [result.id for result in stage.results()] == [f"a{number}" for number in range(1000)]
