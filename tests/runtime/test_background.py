"""Processes in the background: none is left that nobody knows of, and what they print can be read at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast import Result, Runtime
from holdfast.runtime.pages import read_page
from holdfast.sandbox.warden.client import Job, Warden
from tests.runtime.commanding import mark, shell_in, survivors, until
from tests.runtime.support import run


def _with(folder: Path, script: Callable[[Runtime], Coroutine[Any, Any, Any]]) -> Any:
    async def main() -> Any:
        async with shell_in(folder) as runtime:
            return await script(runtime)

    return run(main())


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("told", [False, True], ids=["before it runs", "while it runs"])
@pytest.mark.spec("B4", "X4")
def test_a_start_that_is_cancelled_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, detached: bool, told: bool
) -> None:
    marker = mark()

    async def script(runtime: Runtime) -> None:
        waiting = asyncio.Event()

        async def message(job: Job) -> Any:
            if told:
                await until(lambda: survivors(marker) != [])
            waiting.set()
            return await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(Job, "message", message)
        asked = {"command": f"sleep {marker} & sleep {marker}", "detached": detached}
        call = asyncio.create_task(runtime.call("process.start", asked))
        await waiting.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert runtime.hands.processes.list() == []

    _with(tmp_path, script)
    assert survivors(marker) == []
    assert list((tmp_path / "state" / "processes").iterdir()) == []


@pytest.mark.spec("B4", "X4")
def test_a_cancelled_start_is_killed_even_if_nobody_hears_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker is told to kill what it has not started yet, and finds nobody to tell that it has."""
    file = tmp_path / "project" / "started"
    begin = Warden.run

    def run_and_leave(*args: Any, **options: Any) -> Job:
        job = begin(*args, **options)
        job.stop()
        job.abandon()
        return job

    async def script(runtime: Runtime) -> None:
        await runtime.call("process.start", {"command": "exit 0"})
        monkeypatch.setattr(Warden, "run", run_and_leave)
        asked = {"command": f"echo > {file}; sleep {marker}", "detached": True}
        assert not (await runtime.call("process.start", asked)).success
        folder = tmp_path / "state" / "processes"
        await until(lambda: len(list(folder.glob("*.end"))) == 2)
        assert survivors(marker) == []

    marker = mark()
    _with(tmp_path, script)


@pytest.mark.spec("B4")
def test_a_process_that_cannot_be_written_down_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker = mark()

    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device", str(path))

    async def script(runtime: Runtime) -> Result:
        monkeypatch.setattr(Path, "write_bytes", full)
        result = await runtime.call("process.start", {"command": f"sleep {marker}", "detached": True})
        monkeypatch.undo()
        await until(lambda: survivors(marker) == [])
        return result

    assert not _with(tmp_path, script).success


@pytest.mark.spec("B4", "X7")
def test_output_is_read_while_its_log_turns_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(2):
        (tmp_path / f"p.out.{number}.{number}").write_text(f"line {number + 1}\n")
    opening: Any = Path.open

    def turning(path: Path, *args: Any, **options: Any) -> Any:
        if path.name == "p.out.0.0" and path.exists():
            path.unlink()
            (tmp_path / "p.out.2.2").write_bytes(b"line 3\n")
        return opening(path, *args, **options)

    monkeypatch.setattr(Path, "open", turning)
    page = read_page(tmp_path / "p", None, 10)
    assert (page.text, page.first, page.total_lines, page.dropped) == ("line 2\nline 3", 2, 3, 1)
