"""Concurrent recorded commands of one process share a recording and are undone together."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, Runtime, State
from holdfast.config.config import ApprovalConfig, SandboxConfig
from holdfast.store.changes import concurrent_with
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.support import open_ledger, run, runtime_in

MEET = "touch here{0}; until [ -e here0 ] && [ -e here1 ] && [ -e here2 ] && [ -e here3 ]; do sleep 0.02; done"
"""Ends only if four commands run at the same time."""


def _runtime(folder: Path, **sandbox: Any) -> Runtime:
    approval = ApprovalConfig(auto_approve=("shell.exec",))
    return runtime_in(folder, SHELL_EXEC, config=Config(approval=approval, sandbox=SandboxConfig(**sandbox)))


async def _turn(runtime: Runtime, *commands: str) -> list[Result]:
    async with runtime:
        return await runtime.call_many([("shell.exec", {"command": line}) for line in commands])


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "project").iterdir())


@pytest.mark.spec("X5", "X11")
@pytest.mark.parametrize("undo", ["auto", "copy"])
def test_concurrent_commands_share_a_recording_and_are_undone_together(tmp_path: Path, undo: str) -> None:
    runtime = _runtime(tmp_path, mode="required", undo=undo)
    results = run(_turn(runtime, *map(MEET.format, range(4))), 60)
    assert [result.state for result in results] == [State.DONE] * 4, results
    assert _files(tmp_path) == ["here0", "here1", "here2", "here3"]
    ids = [result.call_id for result in results]
    for result in results:
        assert "[Changed 4 paths, together with" in result.output
        assert all(other in result.output for other in ids)
    put_back = run(runtime.undo(ids[2], by="ann"))
    assert "which ran at the same time" in put_back.output
    assert _files(tmp_path) == []
    run(runtime.undo(put_back.call_id))
    assert len(_files(tmp_path)) == 4
    for call_id in ids:
        run(runtime.undo(call_id))
        assert _files(tmp_path) == []
        ledger = open_ledger(tmp_path / "state")
        assert set(concurrent_with(ledger, call_id)) == set(ids)
        assert ledger.verify().ok
        for name in range(4):
            (tmp_path / "project" / f"here{name}").write_bytes(b"")


@pytest.mark.spec("X5", "X11")
def test_a_single_command_is_recorded_alone(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path, mode="required")
    first, second = (run(_turn(runtime, f"echo {name} > {name}"))[0] for name in ("a", "b"))
    assert "together" not in first.output + second.output
    run(runtime.undo(first.call_id))
    assert _files(tmp_path) == ["b"]


@pytest.mark.spec("X5", "X11")
def test_commands_take_turns_in_overlays_if_there_is_too_much_to_copy(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path, mode="required", undo_max_files=1)
    (tmp_path / "project" / "f").touch()
    results = run(_turn(runtime, *(f"echo {name} >> f; echo {name} > {name}" for name in "abc")), 60)
    assert [result.state for result in results] == [State.DONE] * 3
    assert sorted((tmp_path / "project" / "f").read_text().split()) == ["a", "b", "c"]
    assert not any("together" in result.output for result in results)


@pytest.mark.spec("X5", "X4")
def test_cancelling_one_concurrent_command_leaves_the_others(tmp_path: Path) -> None:
    async def work() -> tuple[Result, Result]:
        async with _runtime(tmp_path, mode="required") as runtime:
            gone_id = runtime.pipeline.new_call_id()
            gone = asyncio.create_task(
                runtime.call("shell.exec", {"command": "touch started; sleep 600"}, call_id=gone_id)
            )
            other = asyncio.create_task(
                runtime.call("shell.exec", {"command": "until [ -e go ]; do sleep 0.02; done; touch done"})
            )
            async with asyncio.timeout(30):
                while not (tmp_path / "project" / "started").exists():  # noqa: ASYNC110 - a command makes it
                    await asyncio.sleep(0.01)
            assert runtime.cancel(gone_id)
            (tmp_path / "project" / "go").touch()
            return await gone, await other

    gone, other = run(work(), 60)
    assert (gone.state, other.state) == (State.CANCELLED, State.DONE)
    assert "done" in _files(tmp_path)


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.runtime.undo.test_recording_lock import MEET, _runtime, _turn
asyncio.run(_turn(_runtime(Path(sys.argv[1]), mode="required"), MEET.format(0), MEET.format(1), MEET.format(2)))
"""


@pytest.mark.spec("X5", "X10")
def test_a_killed_process_leaves_a_valid_ledger_and_releases_the_lock(tmp_path: Path) -> None:
    here = Path(__file__).parents[3]
    killed = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], cwd=here)
    project = tmp_path / "project"

    async def until_all_run() -> None:
        while not all((project / f"here{number}").exists() for number in range(3)):
            assert killed.poll() is None
            await asyncio.sleep(0.01)

    run(until_all_run(), 60)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait(60)
    ledger = open_ledger(tmp_path / "state")
    assert len(ledger.recover()) == 3
    assert ledger.verify().ok
    assert {record.state for record in ledger.calls()} == {State.UNKNOWN}
    ledger.close()
    runtime = _runtime(tmp_path, mode="required")
    (result,) = run(_turn(runtime, "echo new > new"), 60)
    assert result.state is State.DONE
    run(runtime.undo(result.call_id))
    assert "new" not in _files(tmp_path)
    assert runtime.ledger is not None
    assert runtime.ledger.verify().ok
    assert list((tmp_path / "state" / "undo" / "runs").iterdir()) == []
