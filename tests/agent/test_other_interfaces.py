"""Answers given at another interface: the conversation takes them in, and what ran there does not run here again."""

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
from tests.agent.scripted import Stage, said, use
from tests.runtime.support import runtime_in


def elsewhere(stage: Stage, answer: Callable[[Runtime, str], Awaitable[Any]], *tools: Tool) -> Any:
    """Answer the oldest call that waits, from another runtime on the same ledger."""

    async def inside() -> Any:
        async with runtime_in(stage.folder, *tools) as runtime:
            result = await answer(runtime, runtime.pending.list()[0].call.id)
        assert runtime.ledger is not None
        runtime.ledger.close()
        return result

    return asyncio.run(asyncio.wait_for(inside(), 30))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path, said(use("a1", "ask")))
    assert stage.advance().kind == "pending"
    return stage


@pytest.mark.spec("A13b")
def test_a_call_that_was_approved_and_ran_elsewhere_brings_its_result(stage: Stage) -> None:
    elsewhere(stage, lambda runtime, call: runtime.approve(call), *stage.tools)
    assert len(stage.asks) == 1
    assert stage.advance().kind == "done"
    assert (len(stage.asks), stage.results()[0].output) == (1, "noted x")


@pytest.mark.spec("A13b")
def test_a_call_that_was_approved_where_nobody_knows_the_tool_runs_here(stage: Stage) -> None:
    done = elsewhere(stage, lambda runtime, call: runtime.approve(call))
    assert (done.state, stage.asks) == (State.APPROVED, [])
    stage.tools = (stage.note,)
    assert stage.advance().kind == "pending"
    assert stage.slots()[0].status is Status.PENDING
    stage.tools = (stage.note, stage.ask)
    assert stage.advance().kind == "done"
    assert (len(stage.asks), stage.results()[0].output) == (1, "noted x")


@pytest.mark.spec("A13b")
@pytest.mark.parametrize("words", ["", "Not now."])
def test_a_call_that_was_rejected_elsewhere_is_told_so(stage: Stage, words: str) -> None:
    elsewhere(stage, lambda runtime, call: runtime.reject(call, words))
    assert stage.advance().kind == "done"
    assert stage.results()[0].output == (words or "This tool has been rejected by the user.")
    assert (stage.results()[0].error, stage.asks) == (True, [])


@pytest.mark.spec("A13b")
@pytest.mark.parametrize("success", [True, False])
def test_a_result_that_was_given_elsewhere_is_the_result(stage: Stage, success: bool) -> None:
    elsewhere(stage, lambda runtime, call: runtime.respond(call, "from elsewhere", success=success))
    assert stage.advance().kind == "done"
    assert (stage.results()[0].output, stage.results()[0].error) == ("from elsewhere", not success)
    assert stage.asks == []


@pytest.mark.spec("A13b")
def test_a_call_whose_arguments_were_changed_elsewhere_says_so(stage: Stage) -> None:
    elsewhere(stage, lambda runtime, call: runtime.approve(call, args={"text": "y"}), *stage.tools)
    assert stage.asks == [{"text": "y"}]
    assert stage.advance().kind == "done"
    assert stage.results()[0].output == 'The arguments were changed to {"text":"y"} before it ran.\n\nnoted y'


@pytest.mark.spec("A13b")
def test_what_was_changed_there_cannot_be_approved_here_where_something_else_is_shown(stage: Stage) -> None:

    async def change(runtime: Runtime, call: str) -> None:
        await runtime.lifecycle.edit(runtime.pending.list()[0], {"text": "y"}, by="ann")

    elsewhere(stage, change, *stage.tools)
    for _ in range(2):
        stage.person.set_status("a1", Status.APPROVED)
        assert stage.advance().kind == "pending"
        assert stage.asks == []
    elsewhere(stage, lambda runtime, call: runtime.approve(call), *stage.tools)
    assert stage.advance().kind == "done"
    assert stage.asks == [{"text": "y"}]
    assert stage.results()[0].output.startswith('The arguments were changed to {"text":"y"} before it ran.')


@pytest.mark.spec("A13b")
@pytest.mark.parametrize("status", [Status.REJECTED, Status.DENIED, Status.ABORTED])
def test_a_no_here_outweighs_a_yes_there_as_long_as_nothing_ran(tmp_path: Path, status: Status) -> None:
    document = tmp_path / "talk.chat"
    stage = Stage(tmp_path, said(use("a1", "ask")), caller=Caller(document=str(document)))
    assert stage.advance(document=document).kind == "pending"
    elsewhere(stage, lambda runtime, call: runtime.approve(call), *stage.tools)
    stage.person.set_status("a1", status)
    assert stage.advance(document=document).kind == "done"
    assert (stage.asks, stage.results()[0].error, stage.states()) == ([], True, [State.CANCELLED])


@pytest.mark.spec("A13b")
def test_a_no_here_comes_too_late_for_what_ran_there(stage: Stage) -> None:
    elsewhere(stage, lambda runtime, call: runtime.approve(call), *stage.tools)
    stage.person.set_status("a1", Status.REJECTED)
    assert stage.advance().kind == "done"
    assert stage.results()[0].output == "noted x"


@pytest.mark.spec("A13", "U3")
@pytest.mark.parametrize("status", [Status.PENDING, Status.REJECTED, Status.APPROVED])
def test_words_beside_a_call_that_ran_elsewhere_are_not_thrown_away(stage: Stage, status: Status) -> None:
    elsewhere(stage, lambda runtime, call: runtime.approve(call), *stage.tools)
    stage.person.set_status("a1", status)
    stage.person.put_text("a1", "my words")
    assert stage.advance().kind == "edited"
    assert stage.slots()[0].text == "my words"
    stage.person.put_text("a1", "")
    assert stage.advance().kind == "done"
    assert stage.results()[0].output == "noted x"
    assert len(stage.asks) == 1


@pytest.mark.spec("A13", "U3")
def test_a_persons_own_result_outweighs_a_no_there(stage: Stage) -> None:
    elsewhere(stage, lambda runtime, call: runtime.reject(call, "no"))
    stage.person.put_text("a1", "I ran it myself")
    assert stage.advance().kind == "done"
    assert (stage.results()[0].output, stage.results()[0].error) == ("I ran it myself", False)


@pytest.mark.spec("A13b")
def test_answers_that_come_while_other_calls_run_are_taken_in_at_once(tmp_path: Path) -> None:
    async def answering(args: Any) -> str:
        async with runtime_in(tmp_path, stage.ask) as other:
            await other.approve(other.pending.list()[0].call.id)
        assert other.ledger is not None
        other.ledger.close()
        return "answered"

    tool = Tool(name="interface", execute=answering, effects=frozenset({"external"}))
    stage = Stage(tmp_path, said(use("a1", "ask"), use("a2", "interface", "{}")), tools=[tool])
    outcome = stage.advance(config=Config(approval=ApprovalConfig(auto_approve=("interface",))))
    assert (outcome.kind, len(stage.asks)) == ("done", 1)
    assert [result.output for result in stage.results()] == ["noted x", "answered"]


@pytest.mark.spec("A13b")
def test_a_call_that_runs_elsewhere_is_waited_for_and_the_wait_can_be_cancelled(tmp_path: Path) -> None:
    async def slow(args: Any) -> str:
        started.set()
        await gate.wait()
        return "slow"

    started, gate = asyncio.Event(), asyncio.Event()
    tool = Tool(name="slow", execute=slow, effects=frozenset({"external"}))
    stage = Stage(tmp_path, said(use("a1", "slow", "{}")), tools=[tool])
    assert stage.advance().kind == "pending"

    async def drive(loop: Loop) -> Any:
        async with runtime_in(tmp_path, tool) as other:
            running = asyncio.create_task(other.approve(other.pending.list()[0].call.id))
            await started.wait()
            executes = asyncio.Event()

            def watch(event: AgentEvent) -> None:
                if event == PhaseStarted("execute"):
                    executes.set()

            loop = stage.loop(loop.runtime, on_event=watch)
            going = asyncio.create_task(loop.advance())
            await executes.wait()
            assert loop.cancel()
            assert (await going).kind == "cancelled"
            assert [slot.status for slot in stage.slots()] == [Status.PENDING]
            going = asyncio.create_task(loop.advance())
            gate.set()
            outcome = await going
            await running
        assert other.ledger is not None
        other.ledger.close()
        return outcome

    assert stage.go(drive).kind == "done"
    assert stage.results()[0].output == "slow"


@pytest.mark.spec("A13b")
def test_a_tool_that_is_finished_from_outside_waits_for_its_result_here_or_there(tmp_path: Path) -> None:
    tool = Tool(name="form", description="Filled in by a person.")
    stage = Stage(tmp_path, said(use("a1", "form", "{}")), said(use("a2", "form", "{}")), tools=[tool])
    assert stage.advance().kind == "pending"
    stage.person.set_status("a1", Status.APPROVED)
    assert stage.advance().kind == "pending"
    assert stage.slots()[0].status is Status.PENDING
    stage.person.put_text("a1", "filled in")
    assert stage.advance().kind == "pending"
    elsewhere(stage, lambda runtime, call: runtime.respond(call, "there"))
    assert stage.advance().kind == "done"
    assert [result.output for result in stage.results()] == ["filled in", "there"]


@pytest.mark.spec("A13b")
def test_a_runtime_that_asks_by_itself_needs_no_placeholder_answered(tmp_path: Path) -> None:
    from tests.runtime.support import yes

    stage = Stage(tmp_path, said(use("a1", "ask"), use("a2", "ask")))
    assert stage.advance(asker=yes()).kind == "done"
    assert len(stage.asks) == 2


@pytest.mark.spec("A13b")
def test_where_nobody_can_be_asked_the_model_is_told_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, said(use("a1", "ask")))
    assert stage.advance(nobody="deny").kind == "done"
    assert "nobody is there to ask" in stage.results()[0].output
    assert stage.asks == []
