"""Background processes: none is left unrecorded, and their output can be read at any time."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from time import time
from typing import Any

import pytest

from holdfast import Result, Runtime
from holdfast.contract.event import WarningRaised
from holdfast.contract.processes import Processes
from holdfast.runtime.background_processes import read_page
from holdfast.sandbox import limits
from holdfast.sandbox.supervisor.client import SupervisedCommand, Supervisor
from tests.runtime.command_helpers import mark, shell_in, survivors, until
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

        async def message(job: SupervisedCommand) -> Any:
            if told:
                await until(lambda: survivors(marker) != [])
            waiting.set()
            return await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(SupervisedCommand, "message", message)
        asked = {"command": f"sleep {marker} & sleep {marker}", "detached": detached}
        call = asyncio.create_task(runtime.call("process.start", asked))
        await waiting.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert runtime.services.get(Processes).list() == []

    _with(tmp_path, script)
    assert survivors(marker) == []
    assert list((tmp_path / "state" / "processes").iterdir()) == []


@pytest.mark.spec("B4", "X4")
def test_a_cancelled_start_is_killed_even_if_the_runtime_never_learns_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker gets the kill before it has started the process, and cannot report the start."""
    # Without control groups: they are removed when the runtime stops waiting, and then the command does not start.
    monkeypatch.setattr(limits, "group_parents", lambda: ())
    file = tmp_path / "project" / "started"
    begin = Supervisor.run

    def run_and_leave(*args: Any, **options: Any) -> SupervisedCommand:
        job = begin(*args, **options)
        job.stop()
        job.abandon()
        return job

    async def script(runtime: Runtime) -> None:
        await runtime.call("process.start", {"command": "exit 0"})
        monkeypatch.setattr(Supervisor, "run", run_and_leave)
        asked = {"command": f"echo > {file}; sleep {marker}", "detached": True}
        assert not (await runtime.call("process.start", asked)).success
        folder = tmp_path / "state" / "processes"
        await until(lambda: len(list(folder.glob("*.end"))) == 2)
        assert survivors(marker) == []

    marker = mark()
    _with(tmp_path, script)


@pytest.mark.spec("B4")
def test_a_process_that_cannot_be_recorded_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_output_can_be_read_while_its_log_rotates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.spec("B4")
def test_checking_for_processes_creates_no_files(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> None:
        assert not runtime.services.writers_alive()
        assert not {"processes", "supervisor", "sandbox"} & set(vars(runtime.commands))
        assert not (tmp_path / "state" / "processes").exists()

    _with(tmp_path, script)
    assert not Runtime(root=tmp_path).services.writers_alive()


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.spec("B4")
def test_writers_alive_knows_processes_of_this_and_of_other_runtimes(tmp_path: Path, detached: bool) -> None:
    async def script(runtime: Runtime) -> str:
        await runtime.call("process.start", {"command": f"sleep {mark()}", "detached": detached})
        assert runtime.services.writers_alive()
        return runtime.services.get(Processes).list()[0].id

    async def later(runtime: Runtime) -> None:
        assert runtime.services.writers_alive() is detached
        assert "supervisor" not in vars(runtime.commands)
        if detached:
            await runtime.call("process.kill", {"id": name, "signal": "SIGKILL"})
            await until(lambda: not runtime.services.writers_alive())
        assert runtime.services.writers_alive(since=before)
        assert not runtime.services.writers_alive(since=time() + 1)

    before = time()
    name = _with(tmp_path, script)
    _with(tmp_path, later)


@pytest.mark.spec("B4")
def test_a_starting_process_counts_as_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    message = SupervisedCommand.message

    async def script(runtime: Runtime) -> None:
        async def watched(job: SupervisedCommand) -> Any:
            seen.append(runtime.services.writers_alive())
            return await message(job)

        monkeypatch.setattr(SupervisedCommand, "message", watched)
        await runtime.call("process.start", {"command": "true"})

    _with(tmp_path, script)
    assert seen == [True]


@pytest.mark.spec("B4")
def test_a_reused_pid_does_not_count_as_alive(tmp_path: Path) -> None:
    async def script(runtime: Runtime) -> None:
        await runtime.call("process.start", {"command": f"sleep {mark()}"})
        (file,) = (tmp_path / "state" / "processes").glob("*.json")
        record = json.loads(file.read_bytes())
        boot, container, _ = record["worker"]["started"].split(":")
        record["worker"]["started"] = f"{boot}:{container}:1"
        file.write_text(json.dumps(record))
        assert not runtime.services.writers_alive()

    _with(tmp_path, script)


@pytest.mark.spec("N2")
def test_commands_cannot_write_to_the_document_by_any_name_or_link(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    document, link = project / "notes [*].md", project / "link.md"
    document.write_text("mine")
    link.symlink_to(document.name)

    async def main() -> None:
        async with shell_in(tmp_path, "required", document=link) as runtime:
            script = "echo x > 'notes [*].md'; echo x > link.md; rm link.md; echo x > link.md; echo x > 'notes X.md'"
            result = await runtime.call("shell.exec", {"command": script})
            assert str(link) in result.text and str(tmp_path / "state" / "blocked") in result.text

    run(main())
    assert (document.read_text(), link.is_symlink()) == ("mine", True)
    assert (project / "notes X.md").exists()


LEFT = """
import asyncio, os, sys
from pathlib import Path
from tests.runtime.command_helpers import shell_in
async def main():
    async with shell_in(Path(sys.argv[1]), "required") as runtime:
        await runtime.call("process.start", {"command": "sleep " + sys.argv[2], "detached": True})
asyncio.run(main())
"""


@pytest.mark.spec("N2", "B4")
def test_a_file_made_while_a_process_runs_stays_if_it_is_a_document_and_is_warned_about_if_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "project" / "sub").mkdir(parents=True)
    mine, other = tmp_path / "project" / "mine.chat", tmp_path / "project" / "sub" / ".npmrc"
    subprocess.run([sys.executable, "-c", LEFT, tmp_path, mark()], timeout=30, check=True, cwd=Path.cwd())

    async def main() -> Result:
        async with shell_in(tmp_path, "required") as runtime:
            assert runtime.services.writers_alive()
            mine.write_text("my words")
            other.write_text("taken")
            result = await runtime.call("shell.exec", {"command": "true"})
            for process in runtime.services.get(Processes).list():
                await runtime.call("process.kill", {"id": process.id, "signal": "SIGKILL"})
            return result

    text = run(main()).text
    assert mine.read_text() == "my words"
    assert f"Removed {other}; a copy is at {tmp_path / 'state' / 'blocked'}" in text
    assert not other.exists()


@pytest.mark.spec("N2", "B4")
def test_a_clean_up_after_a_process_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "project" / "sub").mkdir(parents=True)

    async def main() -> str:
        async with shell_in(tmp_path, "required") as runtime:
            with runtime.subscribe() as events:
                await runtime.call("process.start", {"command": "echo planted > sub/.npmrc"})
                async for event in events:
                    if isinstance(event, WarningRaised) and ".npmrc" in event.message:
                        return event.message
        return ""

    told = run(main())
    assert str(tmp_path / "project" / "sub" / ".npmrc") in told and str(tmp_path / "state" / "blocked") in told
