"""Recorded commands through the whole pipeline: they take turns, and no change is lost."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from holdfast import Config, Result, Runtime, State
from holdfast.config.config import ApprovalConfig, SandboxConfig
from holdfast.runtime.undo.tree import Tree
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.command_helpers import PROCESS_TOOLS
from tests.runtime.support import run, runtime_in

LISTED = ApprovalConfig(auto_approve=("shell.exec",))


def _runtime(folder: Path, sandbox: SandboxConfig | None = None) -> Runtime:
    config = Config(approval=LISTED, sandbox=sandbox or SandboxConfig(mode="required"))
    return runtime_in(folder, SHELL_EXEC, config=config)


async def _all(runtime: Runtime, *commands: str) -> list[Result]:
    async with runtime:
        return list(await asyncio.gather(*(runtime.call("shell.exec", {"command": line}) for line in commands)))


@pytest.mark.spec("X5", "X11")
@pytest.mark.parametrize("undo", ["auto", "copy"])
def test_parallel_commands_keep_each_others_changes(tmp_path: Path, undo: str) -> None:
    sandbox = SandboxConfig(mode="required", undo=undo)  # pyright: ignore[reportArgumentType]
    lines = [f"echo {number} >> f" for number in range(5)]
    results = run(_all(_runtime(tmp_path, sandbox), *lines), 60)
    assert [result.state for result in results] == [State.DONE] * 5
    assert sorted((tmp_path / "project" / "f").read_text().split()) == list("01234")


@pytest.mark.spec("X5", "X3")
def test_waiting_for_the_recording_lock_does_not_count_towards_the_timeout(tmp_path: Path) -> None:
    async def work() -> list[Result]:
        async with _runtime(tmp_path) as runtime:
            long = {"command": "sleep 3.5"}
            return list(
                await asyncio.gather(
                    runtime.call("shell.exec", long),
                    runtime.call("shell.exec", {"command": "echo ran", "timeout": 3000}),
                )
            )

    results = run(work(), 60)
    assert [result.state for result in results] == [State.DONE, State.DONE]


@pytest.mark.spec("X11", "N2")
def test_the_content_of_a_refused_folder_is_refused(tmp_path: Path) -> None:
    command = "mkdir -p .husky/node_modules/p; echo x > .husky/node_modules/p/f; echo 2 > zzz"
    (result,) = run(_all(_runtime(tmp_path), command))
    project = tmp_path / "project"
    assert result.state is State.DONE, result.error
    assert (project / "zzz").read_text() == "2\n" and not (project / ".husky").exists()
    assert "The sandbox prevented these changes" in result.output


@pytest.mark.spec("X11", "X3")
def test_changes_that_cannot_be_applied_are_kept_and_the_outcome_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Tree.move_in

    def full(self: Tree, path: str, made: str) -> bool:
        if path == "second":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, path, made)

    monkeypatch.setattr(Tree, "move_in", full)
    sandbox = SandboxConfig(mode="required", undo="overlay")
    command = "echo 1 > first; echo 2 > second; echo 3 > third; echo printed"
    (result,) = run(_all(_runtime(tmp_path, sandbox), command))
    project, error = tmp_path / "project", result.error or ""
    assert result.state is State.UNKNOWN
    assert "second: No space left on device" in error and error.endswith("printed")
    assert {path.name for path in project.iterdir()} == {"first", "third"}
    kept = next(line for line in error.splitlines() if line.startswith("They are kept in"))
    folder = Path(kept.removeprefix("They are kept in ").removesuffix("."))
    assert (folder / "0" / "upper" / "second").read_text() == "2\n"


@pytest.mark.spec("A12", "B4")
def test_an_approved_process_needs_approval_again_if_its_shell_changed(tmp_path: Path) -> None:
    from holdfast.config.config import ToolsConfig

    async def make_pending() -> str:
        async with runtime_in(tmp_path, *PROCESS_TOOLS, nobody="pending") as runtime:
            await runtime.call("process.start", {"command": "echo $EVIL"})
            return runtime.pending.list()[0].call.id

    async def approved(call_id: str) -> State:
        changed = Config(tools=ToolsConfig(config={"process.start": {"env": {"EVIL": "1"}}}))
        async with runtime_in(tmp_path, *PROCESS_TOOLS, nobody="pending", config=changed) as runtime:
            return (await runtime.approve(call_id)).state

    call_id = run(make_pending())
    assert run(approved(call_id)) is State.PENDING
