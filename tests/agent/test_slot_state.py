"""Answers from other interfaces: the conversation applies them, and calls that ran there do not run again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Caller, Config, Runtime, Tool
from holdfast.agent.conversation import Status
from holdfast.agent.events import AgentEvent, PhaseStarted
from holdfast.agent.loop import Loop
from holdfast.config.config import ApprovalConfig
from holdfast.contract.enums import State
from tests.agent.scripted_model import LoopHarness, scripted_reply, use
from tests.runtime.support import runtime_in


def elsewhere(harness: LoopHarness, answer: Callable[[Runtime, str], Awaitable[Any]], *tools: Tool) -> Any:
    """Answer the oldest pending call from another runtime on the same ledger."""

    async def inside() -> Any:
        async with runtime_in(harness.folder, *tools) as runtime:
            result = await answer(runtime, runtime.pending.list()[0].call.id)
        assert runtime.ledger is not None
        runtime.ledger.close()
        return result

    return asyncio.run(asyncio.wait_for(inside(), 60))


@pytest.fixture
def harness(tmp_path: Path) -> LoopHarness:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask")))
    assert harness.advance().kind == "pending"
    return harness


@pytest.mark.spec("A13b")
def test_a_call_approved_and_run_elsewhere_returns_its_result(harness: LoopHarness) -> None:
    elsewhere(harness, lambda runtime, call: runtime.approve(call), *harness.tools)
    assert len(harness.asks) == 1
    assert harness.advance().kind == "done"
    assert (len(harness.asks), harness.results()[0].output) == (1, "noted x")


@pytest.mark.spec("A13b")
def test_a_call_approved_by_a_process_without_the_tool_runs_here(harness: LoopHarness) -> None:
    done = elsewhere(harness, lambda runtime, call: runtime.approve(call))
    assert (done.state, harness.asks) == (State.APPROVED, [])
    harness.tools = (harness.note,)
    assert harness.advance().kind == "pending"
    assert harness.slots()[0].status is Status.PENDING
    harness.tools = (harness.note, harness.ask)
    assert harness.advance().kind == "done"
    assert (len(harness.asks), harness.results()[0].output) == (1, "noted x")


@pytest.mark.spec("A13b")
@pytest.mark.parametrize("words", ["", "Not now."])
def test_a_call_rejected_elsewhere_is_reported_as_rejected(harness: LoopHarness, words: str) -> None:
    elsewhere(harness, lambda runtime, call: runtime.reject(call, words))
    assert harness.advance().kind == "done"
    assert harness.results()[0].output == (words or "This tool has been rejected by the user.")
    assert (harness.results()[0].error, harness.asks) == (True, [])


@pytest.mark.spec("A13b")
@pytest.mark.parametrize("success", [True, False])
def test_a_response_given_elsewhere_is_the_result(harness: LoopHarness, success: bool) -> None:
    elsewhere(harness, lambda runtime, call: runtime.respond(call, "from elsewhere", success=success))
    assert harness.advance().kind == "done"
    assert (harness.results()[0].output, harness.results()[0].error) == ("from elsewhere", not success)
    assert harness.asks == []


@pytest.mark.spec("A13b")
def test_the_result_says_that_the_arguments_were_changed_elsewhere(harness: LoopHarness) -> None:
    elsewhere(harness, lambda runtime, call: runtime.approve(call, args={"text": "y"}), *harness.tools)
    assert harness.asks == [{"text": "y"}]
    assert harness.advance().kind == "done"
    assert harness.results()[0].output == 'The arguments were changed to {"text":"y"} before it ran.\n\nnoted y'


@pytest.mark.spec("A13b")
def test_arguments_changed_elsewhere_cannot_be_approved_in_the_conversation(harness: LoopHarness) -> None:

    async def change(runtime: Runtime, call: str) -> None:
        await runtime.lifecycle.edit(runtime.pending.list()[0], {"text": "y"}, by="ann")

    elsewhere(harness, change, *harness.tools)
    for _ in range(2):
        harness.user.set_status("a1", Status.APPROVED)
        assert harness.advance().kind == "pending"
        assert harness.asks == []
    elsewhere(harness, lambda runtime, call: runtime.approve(call), *harness.tools)
    assert harness.advance().kind == "done"
    assert harness.asks == [{"text": "y"}]
    assert harness.results()[0].output.startswith('The arguments were changed to {"text":"y"} before it ran.')


@pytest.mark.spec("A13b")
@pytest.mark.parametrize("status", [Status.REJECTED, Status.DENIED, Status.ABORTED])
def test_a_rejection_here_overrides_an_approval_elsewhere_until_the_call_runs(tmp_path: Path, status: Status) -> None:
    document = tmp_path / "talk.chat"
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask")), caller=Caller(document=str(document)))
    assert harness.advance(document=document).kind == "pending"
    elsewhere(harness, lambda runtime, call: runtime.approve(call), *harness.tools)
    harness.user.set_status("a1", status)
    assert harness.advance(document=document).kind == "done"
    assert (harness.asks, harness.results()[0].error, harness.states()) == ([], True, [State.CANCELLED])


@pytest.mark.spec("A13b")
def test_a_rejection_here_is_too_late_for_a_call_that_ran_elsewhere(harness: LoopHarness) -> None:
    elsewhere(harness, lambda runtime, call: runtime.approve(call), *harness.tools)
    harness.user.set_status("a1", Status.REJECTED)
    assert harness.advance().kind == "done"
    assert harness.results()[0].output == "noted x"


@pytest.mark.spec("A13", "U3")
@pytest.mark.parametrize("status", [Status.PENDING, Status.REJECTED, Status.APPROVED])
def test_text_beside_a_call_that_ran_elsewhere_is_not_discarded(harness: LoopHarness, status: Status) -> None:
    elsewhere(harness, lambda runtime, call: runtime.approve(call), *harness.tools)
    harness.user.set_status("a1", status)
    harness.user.put_text("a1", "my words")
    assert harness.advance().kind == "edited"
    assert harness.slots()[0].text == "my words"
    harness.user.put_text("a1", "")
    assert harness.advance().kind == "done"
    assert harness.results()[0].output == "noted x"
    assert len(harness.asks) == 1


@pytest.mark.spec("A13", "U3")
def test_a_result_typed_here_overrides_a_rejection_elsewhere(harness: LoopHarness) -> None:
    elsewhere(harness, lambda runtime, call: runtime.reject(call, "no"))
    harness.user.put_text("a1", "I ran it myself")
    assert harness.advance().kind == "done"
    assert (harness.results()[0].output, harness.results()[0].error) == ("I ran it myself", False)


@pytest.mark.spec("A13b")
def test_answers_that_arrive_while_other_calls_run_are_applied_at_once(tmp_path: Path) -> None:
    async def answering(args: Any) -> str:
        async with runtime_in(tmp_path, harness.ask) as other:
            await other.approve(other.pending.list()[0].call.id)
        assert other.ledger is not None
        other.ledger.close()
        return "answered"

    tool = Tool(name="interface", execute=answering, effects=frozenset({"external"}))
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask"), use("a2", "interface", "{}")), tools=[tool])
    outcome = harness.advance(config=Config(approval=ApprovalConfig(auto_approve=("interface",))))
    assert (outcome.kind, len(harness.asks)) == ("done", 1)
    assert [result.output for result in harness.results()] == ["noted x", "answered"]


@pytest.mark.spec("A13b")
def test_the_loop_waits_for_a_call_that_runs_elsewhere_and_the_wait_can_be_cancelled(tmp_path: Path) -> None:
    async def slow(args: Any) -> str:
        started.set()
        await gate.wait()
        return "slow"

    started, gate = asyncio.Event(), asyncio.Event()
    tool = Tool(name="slow", execute=slow, effects=frozenset({"external"}))
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "slow", "{}")), tools=[tool])
    assert harness.advance().kind == "pending"

    async def drive(loop: Loop) -> Any:
        async with runtime_in(tmp_path, tool) as other:
            running = asyncio.create_task(other.approve(other.pending.list()[0].call.id))
            await started.wait()
            executes = asyncio.Event()

            def watch(event: AgentEvent) -> None:
                if event == PhaseStarted("execute"):
                    executes.set()

            loop = harness.loop(loop.runtime, on_event=watch)
            going = asyncio.create_task(loop.advance())
            await executes.wait()
            assert loop.cancel()
            assert (await going).kind == "cancelled"
            assert [slot.status for slot in harness.slots()] == [Status.PENDING]
            going = asyncio.create_task(loop.advance())
            gate.set()
            outcome = await going
            await running
        assert other.ledger is not None
        other.ledger.close()
        return outcome

    assert harness.run(drive).kind == "done"
    assert harness.results()[0].output == "slow"


@pytest.mark.spec("A13b")
def test_an_externally_finished_tool_waits_for_a_result_from_any_interface(tmp_path: Path) -> None:
    tool = Tool(name="form", description="Filled in by a person.")
    harness = LoopHarness(
        tmp_path, scripted_reply(use("a1", "form", "{}")), scripted_reply(use("a2", "form", "{}")), tools=[tool]
    )
    assert harness.advance().kind == "pending"
    harness.user.set_status("a1", Status.APPROVED)
    assert harness.advance().kind == "pending"
    assert harness.slots()[0].status is Status.PENDING
    harness.user.put_text("a1", "filled in")
    assert harness.advance().kind == "pending"
    elsewhere(harness, lambda runtime, call: runtime.respond(call, "there"))
    assert harness.advance().kind == "done"
    assert [result.output for result in harness.results()] == ["filled in", "there"]


@pytest.mark.spec("A13b")
def test_a_runtime_with_its_own_asker_needs_no_placeholder(tmp_path: Path) -> None:
    from tests.runtime.support import yes

    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask"), use("a2", "ask")))
    assert harness.advance(asker=yes()).kind == "done"
    assert len(harness.asks) == 2


@pytest.mark.spec("A13b")
def test_without_an_interface_that_can_ask_the_model_is_told_so(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "ask")))
    assert harness.advance(nobody="deny").kind == "done"
    assert "nobody is there to ask" in harness.results()[0].output
    assert harness.asks == []
