"""The recorder with the real sandbox: ordinary work is applied, protected changes are not, and all can be undone."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.result import Result
from holdfast.runtime.undo.recorder import Recorder
from holdfast.sandbox.launch import run_launch
from holdfast.sandbox.sandbox import Sandbox
from tests.runtime.undo.support import RecordedProject, snapshot

SCRIPT = """
echo content > file; git add file
git -c user.name=a -c user.email=a@example.org commit -qm first
mkdir sub; echo export A=1 > sub/.envrc
echo evil > .git/hooks/pre-commit || true
"""


@pytest.mark.parametrize("mechanism", ["auto", "copy"])
@pytest.mark.spec("X11", "N2")
def test_a_git_commit_is_recorded_and_undone(tmp_path: Path, mechanism: Literal["auto", "copy"]) -> None:
    project = RecordedProject(tmp_path)
    subprocess.run(["git", "init", "-q", str(project.root)], check=True, timeout=30)
    before = snapshot(project.root)
    config = SandboxConfig(undo=mechanism)
    sandbox = Sandbox(config, root=project.root, state=project.state, cwd=project.root)
    if sandbox.backend() is None:
        pytest.skip(f"no sandbox works here: {sandbox.problem()}")
    recorder = Recorder(project.ledger, sandbox, config, project.state)
    assert recorder.note() is None
    call_id = project.begin()
    recording = recorder.begin(call_id)
    assert recording is not None
    command = Command(argv=("bash", "-ec", SCRIPT), cwd=project.root)
    code, _, errors = run_launch(sandbox.launch(command, overlays=recording.overlays), 30)
    assert code == 0, errors
    changes = recording.finish()
    project.ledger.end_now(call_id, Result(True))
    log = ["git", "-C", str(project.root), "log", "--format=%s"]
    assert subprocess.run(log, capture_output=True, text=True, check=True, timeout=30).stdout == "first\n"
    assert not (project.root / "sub" / ".envrc").exists()
    assert not (project.root / ".git" / "hooks" / "pre-commit").exists()
    if recording.overlays:
        assert [Path(path).name for path in changes.violations] == [".envrc"]
    assert project.undo_call(call_id).success
    assert snapshot(project.root) == before
    project.ledger.close()
