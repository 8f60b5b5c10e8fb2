"""Secret files (`sandbox.read_deny`): need approval, are hidden from commands, and their content is not stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Config, PendingCall, Runtime, Verdict
from holdfast.config.config import ApprovalConfig, SandboxConfig
from holdfast.contract.enums import State
from holdfast.contract.widening import Widening
from holdfast.rules.decider import UNHIDDEN
from holdfast.sandbox import hidden_files
from holdfast.tools import builtin_tools
from tests.runtime.support import run, runtime_in, yes

CONTENT = "API_KEY=hunter2hunter2\n"


def project(folder: Path, **options: Any) -> Runtime:
    config = Config(
        approval=options.pop("approval", ApprovalConfig(require_approval=False)),
        sandbox=SandboxConfig(undo="off", **options.pop("sandbox", {})),
    )
    runtime = runtime_in(folder, *builtin_tools(), config=config, **options)
    root = folder / "project"
    (root / ".env").write_text(CONTENT)
    (root / ".env.example").write_text("API_KEY=\n")
    (root / "link").symlink_to(".env")
    (root / "a.py").write_text("hunter2hunter2\n")
    return runtime


@pytest.mark.spec("N2", "N2a")
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("file.read", {"path": ".env"}),
        ("file.read", {"path": "link"}),
        ("file.read", {"path": "./.ENV/../.env"}),
        ("file.edit", {"path": ".env", "search": "API_KEY", "replace": "x"}),
        ("file.write", {"path": ".env", "content": "x"}),
        ("file.write", {"path": "new.key", "content": "x"}),
        ("code.search", {"query": "hunter2", "path": ".env"}),
    ],
)
def test_a_call_that_names_a_secret_file_needs_approval(tmp_path: Path, tool: str, args: dict[str, Any]) -> None:
    told = run(project(tmp_path).judge(tool, args))
    assert told.verdict is Verdict.ASK
    result = run(project(tmp_path / "other", nobody="deny").call(tool, args))
    assert result.state is State.DENIED and "hunter2hunter2" not in result.text


@pytest.mark.spec("N2", "N2a")
def test_an_approved_secret_file_is_read_and_not_stored(tmp_path: Path) -> None:
    runtime = project(tmp_path, asker=yes())
    read = run(runtime.call("file.read", {"path": "link"}))
    assert (read.success, read.output) == (True, CONTENT.strip())
    found = run(runtime.call("code.search", {"query": "hunter2", "path": ".env"}))
    assert "hunter2hunter2" in found.output
    assert run(runtime.call("file.edit", {"path": ".env", "search": "hunter2h", "replace": "x"})).success
    assert runtime.ledger is not None
    assert len(runtime.ledger.calls()) == 3
    kept = [runtime.ledger.call(one.call_id).result for one in (read, found)]
    assert all(result is not None and result.output.startswith("[not stored") for result in kept)
    assert "unter2hunter2" not in b"".join(runtime.ledger.export()).decode()
    assert read.withheld and found.withheld and all(result is not None and not result.withheld for result in kept)
    assert not run(runtime.call("file.read", {"path": "a.py"})).withheld


@pytest.mark.spec("N2", "N2a")
def test_the_proposal_to_replace_a_secret_file_does_not_show_its_content(tmp_path: Path) -> None:
    seen: list[PendingCall] = []

    async def asker(pending: PendingCall) -> Answer:
        seen.append(pending)
        return Answer(kind="reject", by="ann")

    runtime = project(tmp_path, asker=asker)
    for path in (".env", "new.key"):
        run(runtime.call("file.write", {"path": path, "content": "x"}))
    old, new = (pending.proposal for pending in seen)
    assert (
        old is not None and "the replaced content is not shown" in old.summary and old.preview.startswith("--- .env\n")
    )
    assert new is not None and "not shown" not in new.summary and new.preview.startswith("--- /dev/null\n")


@pytest.mark.spec("N2", "N2a", "A19")
@pytest.mark.parametrize("read", [".env", "."])
def test_output_of_a_command_that_may_read_a_secret_file_is_not_stored(tmp_path: Path, read: str) -> None:
    async def asker(pending: PendingCall) -> Answer:
        return Answer(kind="approve", by="ann", widen=Widening(read=(str(tmp_path / "project" / read),)))

    runtime = project(tmp_path, asker=asker, approval=ApprovalConfig(auto_approve=()))
    result = run(runtime.call("shell.exec", {"command": "cat .env"}))
    assert result.output == CONTENT.strip()
    assert runtime.ledger is not None
    assert "hunter2hunter2" not in b"".join(runtime.ledger.export()).decode()


@pytest.mark.spec("N2", "N2a")
def test_templates_can_be_read_and_searches_skip_secret_files(tmp_path: Path) -> None:
    runtime = project(tmp_path)
    assert run(runtime.call("file.read", {"path": ".env.example"})).output == "API_KEY="
    (tmp_path / "project" / "b.key").write_text("hunter2\n")
    assert run(runtime.call("code.search", {"query": "hunter2"})).output.endswith("a.py (1 match)\n  1: hunter2hunter2")


@pytest.mark.spec("N2", "N2a")
def test_a_users_read_deny_entry_is_enforced(tmp_path: Path) -> None:
    runtime = project(tmp_path, asker=yes(), sandbox={"read_deny": ("$secrets", "*.py")})
    assert "sandbox.read_deny" in (run(runtime.call("file.read", {"path": "a.py"})).error or "")
    assert "hunter2" not in run(runtime.call("code.search", {"query": "hunter2"})).output


@pytest.mark.spec("N2", "N2a")
def test_a_command_that_names_a_hidden_file_or_fails_lists_the_hidden_files(tmp_path: Path) -> None:
    runtime = project(tmp_path)
    named = run(runtime.call("shell.exec", {"command": "cat .env; true"}))
    assert "hunter2" not in named.output
    assert "[Hidden from the command by sandbox.read_deny: .env]" in named.output
    failed = run(runtime.call("shell.exec", {"command": "false"}))
    assert "sandbox.read_deny: .env]" in (failed.error or "")
    assert run(runtime.call("shell.exec", {"command": "echo hi"})).output == "hi"


@pytest.mark.spec("N2", "N2a")
def test_a_command_needs_approval_if_not_every_secret_file_can_be_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_files, "MAX_ENTRIES", 2)
    runtime = project(tmp_path, asker=yes())
    told = run(runtime.judge("shell.exec", {"command": "true"}))
    assert (told.verdict, told.source) == (Verdict.ASK, UNHIDDEN)
    assert run(runtime.call("shell.exec", {"command": "echo hi"})).output == "hi"
    assert run(runtime.call("code.search", {"query": "hunter2"})).success


@pytest.mark.spec("N2", "N2a")
def test_a_symlink_swapped_to_a_secret_file_is_not_read_without_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = project(tmp_path)
    root = tmp_path / "project"
    (root / "notes").write_text("plain\n")
    decide = runtime.approvals.decide

    async def swapped(*args: Any) -> Any:
        decision = await decide(*args)
        (root / "notes").unlink()
        (root / "notes").symlink_to(".env")
        return decision

    monkeypatch.setattr(runtime.approvals, "decide", swapped)
    result = run(runtime.call("file.read", {"path": "notes"}))
    assert not result.success and "hunter2" not in result.text


@pytest.mark.spec("N2", "N2a")
@pytest.mark.parametrize("path", ["", "a\0b", "~nobody/x", "\ud800"])
def test_an_invalid_path_is_refused_as_invalid(tmp_path: Path, path: str) -> None:
    runtime = project(tmp_path, asker=yes())
    for tool, more in (("file.write", {"content": "x"}), ("file.read", {})):
        result = run(runtime.call(tool, {"path": path, **more}))
        assert not result.success and "internal" not in result.text.lower() and "Traceback" not in result.text


@pytest.mark.spec("N2", "N2a")
def test_a_pattern_that_matches_nothing_is_a_warning(tmp_path: Path) -> None:
    runtime = project(tmp_path, sandbox={"read_deny": ("a/../*.key", "*.key")})
    (warning,) = (each for each in runtime.warnings() if "read_deny" in each)
    assert warning.startswith("sandbox.read_deny: 'a/../*.key' matches nothing")
