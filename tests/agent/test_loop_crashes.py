"""After a crash between any two durable steps, every call gets one result and no mutation runs twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agent.conversation import Status
from holdfast.agent.reply import calls_without_result
from tests.agent.crashing_process import CrashPoint, PersistentState, ReplayModel
from tests.agent.scripted_model import results_in, scripted_reply, use
from tests.soak import rounds

REPLIES = [
    scripted_reply(
        use("a1", "auto", "{}"), use("a2", "ask", "{}"), use("a3", "never", "{}"), use("a4", "nothing", "{}")
    ),
    scripted_reply(use("a1", "ask", "{}"), use("a2", "auto", '{"again": 1}')),
    scripted_reply("Done."),
]


def finish(world: PersistentState, life: CrashPoint | None = None) -> bool:
    """Advance the conversation to its end, approving every pending call; False if the process crashed."""
    model = ReplayModel(REPLIES)
    for _ in range(6):
        outcome = world.advance(model, life)
        if outcome is None:
            return False
        if outcome.kind == "done":
            return True
        assert outcome.kind == "pending"
        for slot in outcome.slots:
            world.conversation_file.edit(lambda person, name=slot.use.id: person.set_status(name, Status.APPROVED))
    raise AssertionError("it does not end")


def begin(folder: Path) -> PersistentState:
    world = PersistentState(folder)
    world.conversation_file.edit(lambda person: person.say("Go."))
    return world


def check(world: PersistentState, when: object) -> list[str]:
    """Check the invariants after a crash; return the final results."""
    messages = list(world.conversation_file.open(CrashPoint()).messages())
    assert calls_without_result(messages) == [], when
    results = results_in(messages)
    assert [result.id for result in results] == ["a1", "a2", "a3", "a4", "a1", "a2"], when
    executed = world.executions.executions()
    assert all(count == 1 for count in executed.values()), (when, executed)
    assert len(executed) <= 4, (when, executed)
    for place in (0, 1, 4, 5):
        result = results[place]
        call_id = result.output.removeprefix("ran ") if not result.error else result.output.split()[1]
        if result.error:
            assert "whether it took effect is not known" in result.output, (when, result)
        else:
            assert executed[call_id] == 1, (when, result)
    assert results[2].output.startswith("The tool was denied by a policy."), when
    assert results[3].output.startswith("There is no tool 'nothing'."), when
    return [result.output for result in results]


@pytest.mark.spec("U1", "D5")
def test_a_crash_at_any_durable_step_loses_no_result_and_repeats_no_mutation(tmp_path: Path) -> None:
    life = CrashPoint()
    assert finish(begin(tmp_path / "whole"), life)
    assert life.steps > 40
    unknown = 0
    steps = range(1, life.steps + 1, rounds(3, 1))
    for step in steps:
        world = begin(tmp_path / str(step))
        assert not finish(world, CrashPoint(step)), step
        assert finish(world), step
        unknown += any("not known" in output for output in check(world, step))
    assert rounds(1, 4) <= unknown < len(steps) // 2


@pytest.mark.spec("U1", "D5")
def test_a_call_that_ran_does_not_run_again_when_it_is_removed_and_restored(tmp_path: Path) -> None:
    """The call ran, the process crashed before it wrote the result, and a person edited the call twice."""
    ran = 0
    for step in range(1, 60):
        world = begin(tmp_path / str(step))
        model = ReplayModel([scripted_reply(use("a1", "ask", "{}"))])
        assert world.advance(model) is not None
        world.conversation_file.edit(lambda person: person.set_status("a1", Status.APPROVED))
        if world.advance(model, CrashPoint(step)) is not None:
            break
        ran += len(world.executions.executions())
        if not world.conversation_file.open(CrashPoint()).slots():
            continue
        world.conversation_file.edit(lambda person: person.edit_call("a1", '{"other": 1}'))
        assert world.advance(model) is not None
        world.conversation_file.edit(lambda person: person.edit_call("a1", "{}"))
        world.advance(model)
        if world.conversation_file.open(CrashPoint()).slots():
            world.conversation_file.edit(lambda person: person.set_status("a1", Status.APPROVED))
            world.advance(model)
        assert len(world.executions.executions()) <= 1, step
        assert len(results_in(world.conversation_file.open(CrashPoint()).messages())) == 1, step
    assert ran > 3


@pytest.mark.spec("U1", "D5")
def test_a_process_killed_at_any_durable_step_loses_and_repeats_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.agent.kill_driver", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 15
