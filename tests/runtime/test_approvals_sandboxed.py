"""Automatic approval of sandboxed commands: only if the user chose it and the sandbox passed every escape test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Result, State
from holdfast.config.config import ApprovalConfig, SandboxConfig
from holdfast.contract.enums import Failure
from holdfast.sandbox.launch import EscapeTestResult
from holdfast.sandbox.probe import BackendSelector
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.command_helpers import PROCESS_TOOLS
from tests.runtime.support import run, runtime_in

SET = ApprovalConfig(auto_approve_sandboxed=True)


def called(folder: Path, approval: ApprovalConfig, sandbox: SandboxConfig | None = None, **call: Any) -> Result:
    async def work() -> Result:
        config = Config(approval=approval, sandbox=sandbox or SandboxConfig())
        async with runtime_in(folder, SHELL_EXEC, *PROCESS_TOOLS, config=config) as runtime:
            return await runtime.call(call.get("tool", "shell.exec"), {"command": "echo ran"})

    return run(work(), 60)


@pytest.mark.spec("A8")
def test_a_sandboxed_command_runs_without_approval_if_the_user_chose_that(tmp_path: Path) -> None:
    result = called(tmp_path, SET)
    assert (result.state, result.output) == (State.DONE, "ran")


@pytest.mark.spec("A8")
@pytest.mark.parametrize(
    ("approval", "sandbox"),
    [
        (ApprovalConfig(), SandboxConfig()),
        (ApprovalConfig(auto_approve=("$readonly",)), SandboxConfig()),
        (ApprovalConfig(auto_approve=()), SandboxConfig()),
        (ApprovalConfig(auto_approve_sandboxed=True, excluded=("shell.exec",)), SandboxConfig()),
        (SET, SandboxConfig(mode="off")),
        (SET, SandboxConfig(backend="landlock")),
    ],
    ids=["default", "a list", "an empty list", "removed", "no sandbox", "a backend that does not hold everything"],
)
def test_otherwise_a_sandboxed_command_needs_approval(
    tmp_path: Path, approval: ApprovalConfig, sandbox: SandboxConfig
) -> None:
    assert called(tmp_path, approval, sandbox).failure is Failure.NOBODY_TO_ASK


@pytest.mark.spec("A8", "N1")
def test_one_failed_escape_test_ends_automatic_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaks(self: BackendSelector, backend: object, what: object) -> object:
        from holdfast.sandbox.probe import ProbeResult

        return ProbeResult(at=0.0, cases=(EscapeTestResult(name="remount", contained=False, detail="it got out"),))

    monkeypatch.setattr(BackendSelector, "_cached_result", leaks)
    assert called(tmp_path, SET).failure is Failure.NOBODY_TO_ASK


@pytest.mark.spec("A8")
def test_a_background_process_is_never_approved_by_the_sandbox(tmp_path: Path) -> None:
    assert called(tmp_path, SET, tool="process.start").failure is Failure.NOBODY_TO_ASK


@pytest.mark.spec("N1", "N6")
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_without_a_working_sandbox_every_command_needs_approval_and_required_runs_none(
    tmp_path: Path, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(self: BackendSelector) -> None:
        return None

    monkeypatch.setattr(BackendSelector, "select", nothing)
    listed = ApprovalConfig(auto_approve=("shell.exec",))
    result = called(tmp_path, listed, SandboxConfig(mode=mode))
    wanted = Failure.NOBODY_TO_ASK if mode == "auto" else Failure.DENIED_BY_POLICY
    assert result.failure is wanted
    assert "sandbox" in (result.error or "")
