"""Cancel at any moment: what runs is stopped, and everything still gets its one result."""

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
from tests.agent.scripted import Stage, hang, said, use

ABORTED = "User aborted tool execution."


class Sleeper:
    """A tool that begins and does not end by itself."""

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
def test_a_request_that_is_cancelled_leaves_what_came_as_an_aborted_turn(tmp_path: Path, interface: str) -> None:
    stage = Stage(tmp_path, [PartEnded(use("a1")), TextDelta("So f"), hang], said("Again."))

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await stage.model.started.wait()
        if interface == "task":
            assert loop.cancel()
        else:
            thread = threading.Thread(target=loop.cancel)
            thread.start()
            await asyncio.to_thread(thread.join, 10)
        outcome = await going
        assert not loop.cancel()
        return outcome

    outcome = stage.go(drive)
    assert (outcome.kind, outcome.message, outcome.exit_code) == (
        "cancelled",
        "Response interrupted by the user.",
        130,
    )
    assert stage.conversation.messages()[-2].parts == (
        use("a1"),
        Text("So f"),
        Aborted("Response interrupted by the user."),
    )
    assert stage.model.closed == 1
    assert stage.advance().kind == "done"
    assert (stage.notes, stage.results()[0].output) == ([], "Response interrupted by the user.")


@pytest.mark.spec("U1")
def test_a_request_that_is_cancelled_before_anything_came_leaves_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, [hang])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await stage.model.started.wait()
        loop.cancel()
        return await going

    assert stage.go(drive).kind == "cancelled"
    assert len(stage.conversation.messages()) == 1


@pytest.mark.spec("U1", "D5")
def test_tools_that_run_or_wait_for_their_turn_are_stopped_and_each_has_its_result(tmp_path: Path) -> None:
    sleeper = Sleeper(wanted=2)
    calls = [use("a1"), *(use(f"s{number}", "sleep", "{}") for number in range(4)), use("p1", "ask")]
    stage = Stage(tmp_path, said(*calls), tools=[sleeper.tool])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        loop.cancel()
        return await going

    outcome = stage.go(drive, config=config(together=2))
    assert (outcome.kind, outcome.message) == ("cancelled", ABORTED)
    assert sleeper.begun == 2
    assert [slot.use.id for slot in outcome.slots] == ["p1"]
    assert [result.output for result in stage.results()][:-1] == ["noted x", *[ABORTED] * 4]
    assert len(stage.model.asked) == 1
    assert stage.advance(config=config()).kind == "pending"
    assert sleeper.begun == 2


@pytest.mark.spec("U1")
def test_a_change_that_was_stopped_says_that_its_outcome_is_not_known(tmp_path: Path) -> None:
    sleeper = Sleeper("external")
    stage = Stage(tmp_path, said(use("s1", "sleep", "{}")), tools=[sleeper.tool])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        loop.cancel()
        return await going

    assert stage.go(drive, config=config()).kind == "cancelled"
    assert stage.states() == [State.UNKNOWN]
    assert stage.results()[0].output == "User aborted tool execution; whether it took effect is not known"


@pytest.mark.spec("U1")
def test_an_approved_call_that_is_stopped_before_its_turn_never_runs(tmp_path: Path) -> None:
    sleeper = Sleeper()
    stage = Stage(tmp_path, said(use("s1", "sleep", "{}"), use("p1", "ask")), tools=[sleeper.tool])
    one = config(together=1, approve=())
    assert stage.advance(config=one).kind == "pending"
    stage.person.set_status("s1", Status.APPROVED)
    stage.person.set_status("p1", Status.APPROVED)

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        loop.cancel()
        return await going

    assert stage.go(drive, config=one).kind == "cancelled"
    assert [result.output for result in stage.results()] == [ABORTED, ABORTED]
    assert stage.advance(config=one).kind == "done"
    assert (stage.asks, stage.states()) == ([], [State.CANCELLED, State.CANCELLED])


@pytest.mark.spec("U1")
def test_a_caller_that_is_cancelled_leaves_the_same_behind_as_a_person_who_cancels(tmp_path: Path) -> None:
    sleeper = Sleeper()
    stage = Stage(tmp_path, said(use("s1", "sleep", "{}")), tools=[sleeper.tool])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await sleeper.started.wait()
        going.cancel()
        await asyncio.wait({going}, timeout=10)
        return going.cancelled()

    assert stage.go(drive, config=config())
    assert [result.output for result in stage.results()] == [ABORTED]


@pytest.mark.spec("U1")
def test_a_call_that_is_still_being_judged_can_be_cancelled(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def propose(args: Any, ctx: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    async def apply(args: Any, ctx: Any) -> str:
        return "never"

    slow = Tool(name="slow", propose=propose, apply=apply)
    stage = Stage(tmp_path, said(use("a1", "slow", "{}")), tools=[slow])

    async def drive(loop: Loop) -> Any:
        going = asyncio.create_task(loop.advance())
        await begun.wait()
        loop.cancel()
        return await going

    outcome = stage.go(drive)
    assert (outcome.kind, [slot.status for slot in outcome.slots]) == ("cancelled", [None])
    assert stage.states() == []


@pytest.mark.spec("U1")
def test_there_is_nothing_to_cancel_before_and_after(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def drive(loop: Loop) -> Any:
        assert not loop.cancel()
        outcome = await loop.advance()
        assert not loop.cancel()
        return outcome

    assert stage.go(drive).kind == "done"


@pytest.mark.spec("U1")
def test_a_model_that_does_not_listen_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.agent.reply._GRACE", 0.05)
    stage = Stage(tmp_path)
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

    assert stage.go(drive).kind == "cancelled"
    assert stage.conversation.messages()[-1].parts == (Text("So f"), Aborted("Response interrupted by the user."))
