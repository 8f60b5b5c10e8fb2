"""A process that dies anywhere between two durable steps: the next one ends with one result for each call, and no
mutation has run twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.agent.conversation import Status
from holdfast.agent.reply import calls_without_result
from tests.agent.mortal import Following, Life, World
from tests.agent.scripted import results_in, said, use
from tests.soak import rounds

REPLIES = [
    said(use("a1", "auto", "{}"), use("a2", "ask", "{}"), use("a3", "never", "{}"), use("a4", "nothing", "{}")),
    said(use("a1", "ask", "{}"), use("a2", "auto", '{"again": 1}')),
    said("Done."),
]


def finish(world: World, life: Life | None = None) -> bool:
    """Drive the conversation to its end, approving whatever waits; False if the process died on the way."""
    model = Following(REPLIES)
    for _ in range(6):
        outcome = world.advance(model, life)
        if outcome is None:
            return False
        if outcome.kind == "done":
            return True
        assert outcome.kind == "pending"
        for slot in outcome.slots:
            world.disk.edit(lambda person, name=slot.use.id: person.set_status(name, Status.APPROVED))
    raise AssertionError("it does not end")


def begin(folder: Path) -> World:
    world = World(folder)
    world.disk.edit(lambda person: person.say("Go."))
    return world


def check(world: World, when: object) -> list[str]:
    """What holds whenever the process died; the results in the end."""
    messages = list(world.disk.open(Life()).messages())
    assert calls_without_result(messages) == [], when
    results = results_in(messages)
    assert [result.id for result in results] == ["a1", "a2", "a3", "a4", "a1", "a2"], when
    executed = world.oracle.executions()
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
def test_a_crash_at_any_durable_step_loses_no_result_and_repeats_no_change(tmp_path: Path) -> None:
    life = Life()
    assert finish(begin(tmp_path / "whole"), life)
    assert life.steps > 40
    unknown = 0
    steps = range(1, life.steps + 1, rounds(3, 1))
    for step in steps:
        world = begin(tmp_path / str(step))
        assert not finish(world, Life(step)), step
        assert finish(world), step
        unknown += any("not known" in output for output in check(world, step))
    assert rounds(1, 4) <= unknown < len(steps) // 2


@pytest.mark.spec("U1", "D5")
def test_a_call_that_ran_is_not_run_again_when_it_is_edited_away_and_back(tmp_path: Path) -> None:
    """It ran, the process died before it could write so, and a person changed their mind twice meanwhile."""
    ran = 0
    for step in range(1, 60):
        world = begin(tmp_path / str(step))
        model = Following([said(use("a1", "ask", "{}"))])
        assert world.advance(model) is not None
        world.disk.edit(lambda person: person.set_status("a1", Status.APPROVED))
        if world.advance(model, Life(step)) is not None:
            break
        ran += len(world.oracle.executions())
        if not world.disk.open(Life()).slots():
            continue
        world.disk.edit(lambda person: person.edit_call("a1", '{"other": 1}'))
        assert world.advance(model) is not None
        world.disk.edit(lambda person: person.edit_call("a1", "{}"))
        world.advance(model)
        if world.disk.open(Life()).slots():
            world.disk.edit(lambda person: person.set_status("a1", Status.APPROVED))
            world.advance(model)
        assert len(world.oracle.executions()) <= 1, step
        assert len(results_in(world.disk.open(Life()).messages())) == 1, step
    assert ran > 3


@pytest.mark.spec("U1", "D5")
def test_a_process_that_is_killed_at_any_durable_step_does_no_more_harm(tmp_path: Path) -> None:
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
