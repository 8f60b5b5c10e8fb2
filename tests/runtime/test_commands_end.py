"""Stopping commands: a timeout, a cancel or the end of the runtime leaves no process behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import Result, State
from tests.runtime.command_helpers import NASTY, Mode, call_until_ready, mark, shell_in, survivors, until
from tests.runtime.support import run


def _cancelled(folder: Path, mode: Mode, program: str) -> tuple[Result, list[str]]:
    marker = mark()

    async def main() -> tuple[Result, list[str]]:
        async with shell_in(folder, mode) as runtime:
            call_id, task = await call_until_ready(runtime, program.format(mark=marker))
            assert runtime.cancel(call_id)
            result = await task
            return result, survivors(marker)

    return run(main())


@pytest.mark.parametrize("how", NASTY)
@pytest.mark.spec("X3", "B4")
def test_a_cancel_kills_every_process_of_a_command_without_a_sandbox(tmp_path: Path, how: str) -> None:
    result, left = _cancelled(tmp_path, "off", NASTY[how])
    assert left == []
    assert result.state is State.CANCELLED
    assert (result.error or "").endswith("ready\n\nCommand was cancelled.")


@pytest.mark.parametrize("how", ["double fork", "SIGTERM ignored", "stdio closed", "fork in a loop"])
@pytest.mark.spec("X3", "B4")
def test_a_cancel_kills_every_process_of_a_sandboxed_command(tmp_path: Path, how: str) -> None:
    result, left = _cancelled(tmp_path, "required", NASTY[how])
    assert left == []
    assert result.state is State.CANCELLED
    assert cast(Any, result.structured)["contained"] is True


@pytest.mark.parametrize("mode", ["off", "required"])
@pytest.mark.spec("X3", "B4")
def test_a_timeout_kills_every_process_and_keeps_the_output(tmp_path: Path, mode: Mode) -> None:
    marker = mark()

    async def main() -> Result:
        async with shell_in(tmp_path, mode) as runtime:
            await runtime.call("shell.exec", {"command": "true"})
            command = f"echo first; setsid sleep {marker} & sleep {marker}"
            result = await runtime.call("shell.exec", {"command": command, "timeout": 3000})
            assert survivors(marker) == []
            return result

    result = run(main())
    assert result.state is State.TIMED_OUT
    assert result.error == ("Tool 'shell.exec' timed out after 3000ms\n\nfirst\n\nCommand timed out after 3 seconds.")


@pytest.mark.spec("X3")
def test_the_alias_bash_has_its_timeout_in_seconds(tmp_path: Path) -> None:
    async def main() -> Result:
        async with shell_in(tmp_path) as runtime:
            return await runtime.call("bash", {"command": "sleep 60", "timeout": 1})

    result = run(main())
    assert result.error == "Tool 'bash' timed out after 1000ms\n\n(no output)\n\nCommand timed out after 1 seconds."


@pytest.mark.parametrize("mode", ["off", "required"])
@pytest.mark.spec("X3", "B4")
def test_a_child_that_keeps_stdout_open_does_not_delay_the_call(tmp_path: Path, mode: Mode) -> None:
    marker = mark()

    async def main() -> Result:
        async with shell_in(tmp_path, mode) as runtime:
            result = await runtime.call("shell.exec", {"command": f"setsid sleep {marker} & echo done"})
            assert survivors(marker) == []
            return result

    assert run(main()).output == "done"


@pytest.mark.spec("X3")
def test_a_command_can_print_after_sigterm(tmp_path: Path) -> None:
    polite = "trap 'echo bye; exit' TERM; echo ready; sleep 60 & wait"
    result, _ = _cancelled(tmp_path, "off", polite)
    assert "ready\nbye" in (result.error or "")


@pytest.mark.spec("X3")
def test_cancelling_one_command_leaves_the_others_running(tmp_path: Path) -> None:
    async def main() -> list[Result]:
        async with shell_in(tmp_path) as runtime:
            others = [asyncio.create_task(runtime.call("shell.exec", {"command": f"echo {n}"})) for n in range(6)]
            call_id, task = await call_until_ready(runtime, "echo ready; sleep 60")
            assert runtime.cancel(call_id)
            runtime.cancel(call_id)
            return [await task, *[await other for other in others]]

    cancelled, *others = run(main())
    assert cancelled.state is State.CANCELLED
    assert [result.output for result in others] == [str(n) for n in range(6)]


@pytest.mark.spec("X3")
def test_cancelling_the_callers_task_kills_the_command(tmp_path: Path) -> None:
    marker = mark()

    async def main() -> None:
        async with shell_in(tmp_path) as runtime:
            _, task = await call_until_ready(runtime, f"echo ready; sleep {marker}")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert survivors(marker) == []

    run(main())


@pytest.mark.spec("X3", "B4")
def test_closing_the_runtime_ends_running_commands(tmp_path: Path) -> None:
    marker = mark()

    async def main() -> None:
        async with shell_in(tmp_path) as runtime:
            _, task = await call_until_ready(runtime, f"setsid sleep {marker} & echo ready; sleep {marker}")
        await until(lambda: not survivors(marker))
        await task

    run(main())


@pytest.mark.spec("X3")
def test_a_killed_worker_is_reported_and_replaced(tmp_path: Path) -> None:
    marker = mark()

    async def main() -> tuple[Result, Result]:
        async with shell_in(tmp_path) as runtime:
            _, task = await call_until_ready(runtime, f"echo ready; setsid sleep {marker} & sleep {marker}")
            os.kill(_parent_of(_outermost(marker)), signal.SIGKILL)
            lost = await task
            await until(lambda: not survivors(marker))
            return lost, await runtime.call("shell.exec", {"command": "echo again"})

    lost, again = run(main())
    assert (lost.state, again.output) == (State.UNKNOWN, "again")
    assert "supervisor's worker was killed" in (lost.error or "")


def _outermost(marker: str) -> int:
    found = [
        int(entry.parent.name)
        for entry in Path("/proc").glob("[0-9]*/cmdline")
        if marker.encode() in _bytes_of(entry) and int(entry.parent.name) != os.getpid()
    ]
    return next(pid for pid in found if _parent_of(pid) not in found)


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


_DRIVER = """
import asyncio, sys
from pathlib import Path
from tests.runtime.command_helpers import shell_in

async def main():
    async with shell_in(Path(sys.argv[1]), sys.argv[2]) as runtime:
        marker = sys.argv[3]
        for detached in (False, True):
            args = {"command": "setsid sleep %s%d & sleep %s%d" % (marker, detached, marker, detached)}
            started = await runtime.call("process.start", {**args, "detached": detached})
            assert started.success, started
        command = f"setsid sleep {marker}2 & touch ready; sleep {marker}2"
        await runtime.call("shell.exec", {"command": command})

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["off", "required"])
@pytest.mark.spec("X3", "B4", "X8")
def test_when_the_runtime_is_killed_only_detached_processes_survive(tmp_path: Path, mode: Mode) -> None:
    marker = mark()
    driver = subprocess.Popen([sys.executable, "-c", _DRIVER, str(tmp_path), mode, marker], cwd=Path.cwd())

    async def main() -> list[dict[str, Any]]:
        try:
            await until((tmp_path / "project" / "ready").exists)
            assert survivors(f"{marker}0")
            assert survivors(f"{marker}2")
        finally:
            driver.kill()
            driver.wait()
        await until(lambda: not survivors(f"{marker}0") and not survivors(f"{marker}2"))
        assert survivors(f"{marker}1")
        async with shell_in(tmp_path, mode) as runtime:
            listed = await runtime.call("process.list", {})
            found = cast(Any, listed.structured)["processes"]
            await runtime.call("process.kill", {"id": found[1]["id"], "signal": "SIGKILL"})
            assert survivors(f"{marker}1") == []
            return found

    lost, detached = run(main())
    assert (lost["state"], detached["state"]) == ("lost", "running")


@pytest.mark.spec("X3")
def test_a_runtime_whose_event_loop_was_closed_during_a_command_can_be_closed(tmp_path: Path) -> None:
    marker = mark()
    runtime = shell_in(tmp_path, "off")
    loop = asyncio.new_event_loop()
    _, task = loop.run_until_complete(call_until_ready(runtime, f"sleep {marker} & echo ready; sleep {marker}"))
    loop.set_exception_handler(lambda loop, problem: None)  # asyncio would report the unfinished task
    loop.close()
    closed: list[str] = []

    async def main() -> None:
        async with runtime:
            runtime.on_close(lambda: closed.append("yes"))
        await until(lambda: survivors(marker) == [])

    run(main())
    assert closed == ["yes"]
    assert not task.done()
