"""Tools in a child process: they return their value, and are killed with all their descendants."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from holdfast import Runtime, State, tool
from tests.runtime.support import approving, run


@tool(effects=("external",), runs="process", timeout=8.0)
def spawning(pids: str) -> str:
    """Starts children that try to escape: a new session, a double fork, SIGTERM ignored."""
    script = (
        f"trap '' TERM; echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; exec sleep 300' & "
        f"(setsid sh -c 'echo $$ >> {pids}; sleep 300 & echo $! >> {pids}; wait' &) ; sleep 300"
    )
    subprocess.run(["sh", "-c", script], check=False)
    return "never"


@tool(effects=(), runs="process")
def doubled(number: int) -> int:
    print("this must not be taken for the result")  # noqa: T201 - what the test is about
    return number * 2


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.spec("X3")
def test_a_tool_process_that_times_out_dies_with_its_descendants(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    result = run(Runtime(tools=[spawning], config=approving("spawning")).call("spawning", {"pids": str(pids)}))
    assert result.state is State.UNKNOWN
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) == 4
    deadline = time.monotonic() + 50
    while not all(map(_gone, started)) and time.monotonic() < deadline:
        os.sched_yield()
    assert [pid for pid in started if not _gone(pid)] == []


@pytest.mark.spec("X3")
def test_a_tool_process_returns_its_value_and_may_print() -> None:
    result = run(Runtime(tools=[doubled]).call("doubled", {"number": 21}))
    assert (result.structured, result.output) == (42, "42")


@tool(effects=("external",), runs="process")
def dies_after_its_effect(path: str) -> str:
    Path(path).write_text("done")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@pytest.mark.spec("X3")
def test_a_mutating_tool_process_that_dies_without_a_reply_is_unknown(tmp_path: Path) -> None:
    runtime = Runtime(tools=[dies_after_its_effect], config=approving("dies_after_its_effect"))
    result = run(runtime.call("dies_after_its_effect", {"path": str(tmp_path / "effect")}))
    assert (result.state, result.exit_code) == (State.UNKNOWN, 6)
    assert (tmp_path / "effect").read_text() == "done"
