"""Cancellation at any moment: running work stops, and every call still gets its one result."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Tool
from holdfast.agent.conversation import Status
from holdfast.agent.loop import Loop
from holdfast.config.config import ApprovalConfig, ToolsConfig
from holdfast.contract.enums import State
from holdfast.contract.message import Aborted, Text
from holdfast.models.port import ModelEvent, PartEnded, TextDelta
from tests.agent.scripted_model import LoopHarness, hang, scripted_reply, use

ABORTED = "User aborted tool execution."


class Sleeper:
    """A tool that runs until it is cancelled."""

    def __init__(self, *effects: str, wanted: int = 1) -> None:
        self.begun = 0
        self.started = asyncio.Event()
        """Set when so many calls of it have begun as are wanted."""
        self._wanted = wanted
        self.tool = Tool(name="sleep", execute=self.sleep, effects=frozenset(effects or {"fs.read"}))

    async def sleep(self, args: Any) -> str:
        self.begun += 1
        if self.begun >= self._wanted:
            self.started.set()
        await asyncio.Event().wait()
        return "never"


def config(*, together: int = 8, approve: tuple[str, ...] = ("sleep", "note")) -> Config:
    return Config(tools=ToolsConfig(max_concurrent=together), approval=ApprovalConfig(auto_approve=approve))


@pytest.mark.spec("U1")
@pytest.mark.parametrize("interface", ["task", "thread"])
def test_a_cancelled_request_leaves_the_partial_reply_as_an_aborted_turn(tmp_path: Path, interface: str) -> None:
    harness = LoopHarness(tmp_path, [PartEnded(use("a1")), TextDelta("So f"), hang], scripted_reply("Again."))

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await harness.model.started.wait()
        if interface == "task":
            assert loop.cancel()
        else:
            thread = threading.Thread(target=loop.cancel)
            thread.start()
            await asyncio.to_thread(thread.join, 60)
        outcome = await going
        assert not loop.cancel()
        return outcome

    outcome = harness.run(drive)
    assert (outcome.kind, outcome.message, outcome.exit_code) == (
        "cancelled",
        "Response interrupted by the user.",
        130,
    )
    assert harness.conversation.messages()[-2].parts == (
        use("a1"),
        Text("So f"),
        Aborted("Response interrupted by the user."),
    )
    assert harness.model.closed == 1
    assert harness.advance().kind == "done"
    assert (harness.notes, harness.results()[0].output) == ([], "Response interrupted by the user.")


@pytest.mark.spec("U1")
def test_a_request_cancelled_before_any_output_leaves_nothing(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path, [hang])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await harness.model.started.wait()
        loop.cancel()
        return await going

    assert harness.run(drive).kind == "cancelled"
    assert len(harness.conversation.messages()) == 1


@pytest.mark.spec("U1", "D5")
def test_running_and_queued_tools_are_stopped_and_each_gets_its_result(tmp_path: Path) -> None:
    sleeper = Sleeper(wanted=2)
    calls = [use("a1"), *(use(f"s{number}", "sleep", "{}") for number in range(4)), use("p1", "ask")]
    harness = LoopHarness(tmp_path, scripted_reply(*calls), tools=[sleeper.tool])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        loop.cancel()
        return await going

    outcome = harness.run(drive, config=config(together=2))
    assert (outcome.kind, outcome.message) == ("cancelled", ABORTED)
    assert sleeper.begun == 2
    assert [slot.use.id for slot in outcome.slots] == ["p1"]
    assert [result.output for result in harness.results()][:-1] == ["noted x", *[ABORTED] * 4]
    assert len(harness.model.requests) == 1
    assert harness.advance(config=config()).kind == "pending"
    assert sleeper.begun == 2


@pytest.mark.spec("U1")
def test_a_cancelled_mutation_says_that_its_outcome_is_unknown(tmp_path: Path) -> None:
    sleeper = Sleeper("external")
    harness = LoopHarness(tmp_path, scripted_reply(use("s1", "sleep", "{}")), tools=[sleeper.tool])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        loop.cancel()
        return await going

    assert harness.run(drive, config=config()).kind == "cancelled"
    assert harness.states() == [State.UNKNOWN]
    assert harness.results()[0].output == "User aborted tool execution; whether it took effect is not known"


@pytest.mark.spec("U1")
def test_an_approved_call_cancelled_in_the_queue_never_runs(tmp_path: Path) -> None:
    sleeper = Sleeper()
    harness = LoopHarness(tmp_path, scripted_reply(use("s1", "sleep", "{}"), use("p1", "ask")), tools=[sleeper.tool])
    one = config(together=1, approve=())
    assert harness.advance(config=one).kind == "pending"
    harness.user.set_status("s1", Status.APPROVED)
    harness.user.set_status("p1", Status.APPROVED)

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        loop.cancel()
        return await going

    assert harness.run(drive, config=one).kind == "cancelled"
    assert [result.output for result in harness.results()] == [ABORTED, ABORTED]
    assert harness.advance(config=one).kind == "done"
    assert (harness.asks, harness.states()) == ([], [State.CANCELLED, State.CANCELLED])


@pytest.mark.spec("U1")
def test_a_cancelled_caller_leaves_the_same_state_as_cancel(tmp_path: Path) -> None:
    sleeper = Sleeper()
    harness = LoopHarness(tmp_path, scripted_reply(use("s1", "sleep", "{}")), tools=[sleeper.tool])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        going.cancel()
        await asyncio.wait({going}, timeout=60)
        return going.cancelled()

    assert harness.run(drive, config=config())
    assert [result.output for result in harness.results()] == [ABORTED]


@pytest.mark.spec("U1")
def test_a_call_can_be_cancelled_during_its_decision(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def propose(args: Any, ctx: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async def apply(args: Any, ctx: Any) -> str:
        return "never"

    slow = Tool(name="slow", propose=propose, apply=apply)
    harness = LoopHarness(tmp_path, scripted_reply(use("a1", "slow", "{}")), tools=[slow])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await begun.wait()
        loop.cancel()
        return await going

    outcome = harness.run(drive)
    assert (outcome.kind, [slot.status for slot in outcome.slots]) == ("cancelled", [None])
    assert harness.states() == []


@pytest.mark.spec("U1")
def test_cancel_returns_false_when_nothing_runs(tmp_path: Path) -> None:
    harness = LoopHarness(tmp_path)

    async def drive(loop: Loop) -> Any:
        assert not loop.cancel()
        outcome = await loop.advance()
        assert not loop.cancel()
        return outcome

    assert harness.run(drive).kind == "done"


@pytest.mark.spec("U1")
def test_a_model_that_ignores_cancellation_is_abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.agent.reply._GRACE", 0.05)
    harness = LoopHarness(tmp_path)
    freed = asyncio.Event()
    started = asyncio.Event()

    class Deaf:
        provider = name = "deaf"

        async def stream(self, messages: Any, tools: Any, settings: Any) -> AsyncIterator[ModelEvent]:
            yield TextDelta("So f")
            started.set()
            while not freed.is_set():
                try:
                    await freed.wait()
                except asyncio.CancelledError:
                    continue
            yield PartEnded(Text("too late"))

    async def drive(loop: Loop) -> Any:
        loop.model = Deaf()
        going = asyncio.create_task(loop.advance())
        await started.wait()
        loop.cancel()
        outcome = await going
        freed.set()
        return outcome

    assert harness.run(drive).kind == "cancelled"
    assert harness.conversation.messages()[-1].parts == (Text("So f"), Aborted("Response interrupted by the user."))
