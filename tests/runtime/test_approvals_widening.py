"""Widening: an approval or a rule lets one call reach more than the sandbox; it is shown and part of the digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Answer, Config, PendingCall, Result, Runtime, State, Verdict, Widening
from holdfast.config.config import ApprovalConfig, CommandRule, SandboxConfig
from holdfast.contract.errors import CallError, HoldfastError, StaleApproval
from holdfast.runtime.pipeline import CallRequest
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.git_server import git, serving
from tests.runtime.support import open_ledger, recorder, run, runtime_in

SECRET = "held back"
HOSTS = Widening(hosts=("example.com",))


def _config(*rules: CommandRule, approval: dict[str, Any] | None = None, **sandbox: Any) -> Config:
    return Config(
        approval=ApprovalConfig(commands=rules, auto_approve=(), **(approval or {})),
        sandbox=SandboxConfig(mode="required", undo=sandbox.pop("undo", "off"), **sandbox),
    )


def _runtime(folder: Path, config: Config | None = None, **options: Any) -> Runtime:
    return runtime_in(folder, SHELL_EXEC, config=config or _config(), nobody="pending", **options)


def _held(runtime: Runtime, command: str) -> PendingCall:
    result = run(runtime.call("shell.exec", {"command": command}))
    assert result.state is State.PENDING, result
    return runtime.pending.list()[0]


def _approve(runtime: Runtime, pending: PendingCall, **widening: Any) -> Result:
    return run(runtime.approve(pending.call.id, by="ann", widen=Widening(**widening)))


def _around(pending: PendingCall) -> str:
    assert pending.proposal is not None and pending.proposal.surroundings is not None
    return pending.proposal.surroundings.sandbox


@pytest.fixture
def remote(tmp_path: Path) -> Any:
    """A project with one commit and a running server as its remote."""
    bare, project = tmp_path / "served" / "repo.git", tmp_path / "project"
    bare.mkdir(parents=True)
    project.mkdir()
    git(bare, "init", "--bare", "-b", "main")
    git(bare, "config", "http.receivepack", "true")
    git(project, "init", "-b", "main")
    (project / "file").write_text("one\n")
    git(project, "add", "file")
    git(project, "commit", "-m", "one")
    with serving(tmp_path / "served") as address:
        git(project, "remote", "add", "origin", f"http://{address}/repo.git")
        yield address, bare, project


@pytest.mark.spec("A19")
def test_an_approval_that_names_the_host_lets_git_push(tmp_path: Path, remote: Any) -> None:
    address, bare, project = remote
    runtime = _runtime(tmp_path)
    plain = run(runtime.approve(_held(runtime, "git push origin main").call.id))
    assert plain.state is State.FAILED and "network off" in plain.text
    assert git(bare, "branch") == ""
    pushed = _approve(runtime, _held(runtime, "git push origin main"), hosts=(address,))
    assert pushed.state is State.DONE, pushed
    assert git(bare, "rev-parse", "main") == git(project, "rev-parse", "main")
    again = run(runtime.approve(_held(runtime, "git push origin main").call.id))
    assert again.state is State.FAILED, "what was widened is not remembered"


@pytest.mark.spec("A19")
def test_only_the_named_host_can_be_reached(tmp_path: Path, remote: Any) -> None:
    address, bare, _ = remote
    runtime = _runtime(tmp_path)
    refused = _approve(runtime, _held(runtime, "git push origin main"), hosts=("github.com",))
    assert refused.state is State.FAILED and "403" in refused.text
    assert git(bare, "branch") == "", address


@pytest.mark.spec("A19")
def test_a_rule_can_widen_its_command_and_the_prompt_shows_it(tmp_path: Path, remote: Any) -> None:
    address, bare, project = remote
    runtime = _runtime(tmp_path, _config(CommandRule(rule="git push", verdict="ask", network=(address,))))
    pending = _held(runtime, "git push origin main")
    assert _around(pending) == f"contained by bubblewrap; network only {address}"
    assert pending.proposal is not None and pending.proposal.surroundings is not None
    assert run(runtime.approve(pending.call.id)).state is State.DONE
    assert git(bare, "rev-parse", "main") == git(project, "rev-parse", "main")
    assert _around(_held(runtime, "git pull")) == "contained by bubblewrap; network off"


@pytest.mark.spec("A19", "A20")
@pytest.mark.parametrize(
    ("command", "verdict", "widening"),
    [
        ("fetch", Verdict.APPROVE, HOSTS),
        ("cat file && fetch", Verdict.APPROVE, HOSTS),
        ("build && fetch", Verdict.ASK, HOSTS),
        ("other && fetch", Verdict.ASK, HOSTS),
        ("cat file", Verdict.APPROVE, None),
        ("fetch --more", Verdict.APPROVE, None),
        ("sh -c fetch", Verdict.APPROVE, None),
    ],
)
def test_a_command_without_approval_is_widened_only_if_all_its_parts_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, verdict: Verdict, widening: Widening | None
) -> None:
    """A list approves every command of the tool, so only the widening of the rule can be a reason to ask."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("fetch", "build", "other"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    config = _config(
        CommandRule(rule="fetch", verdict="approve", network=("example.com",)),
        CommandRule(rule="build", verdict="approve"),
    )
    approval = ApprovalConfig(commands=config.approval.commands, auto_approve=("$shell-readonly", "shell.exec"))
    runtime = _runtime(tmp_path, Config(approval=approval, sandbox=config.sandbox))
    (tmp_path / "project" / "file").write_text("x")

    asked = CallRequest("shell.exec", {"command": command}, runtime.caller, str(tmp_path / "project"), stages=[])
    decision, prepared = run(runtime.dry_run.judge(asked))
    assert prepared is not None
    assert (decision.verdict, prepared.call.widening) == (verdict, widening)


@pytest.mark.spec("A19", "A20")
@pytest.mark.parametrize(
    ("command", "verdict"), [("fetch", Verdict.APPROVE), ("cat .env && fetch", Verdict.ASK), ("ls", Verdict.APPROVE)]
)
def test_a_path_that_a_rule_opens_is_not_printed_by_another_program_without_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, verdict: Verdict
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "fetch").write_text("#!/bin/sh\n")
    (programs / "fetch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    rules = (CommandRule(rule="fetch", verdict="approve", read=(".env",)),)
    approval = ApprovalConfig(commands=rules, auto_approve=("$shell-readonly",))
    runtime = _runtime(tmp_path, Config(approval=approval, sandbox=_config().sandbox))
    (tmp_path / "project" / ".env").write_text(SECRET)
    asked = CallRequest("shell.exec", {"command": command}, runtime.caller, str(tmp_path / "project"), stages=[])
    decision, _ = run(runtime.dry_run.judge(asked))
    assert decision.verdict is verdict, decision


@pytest.mark.spec("A19")
def test_a_widened_call_has_another_digest_and_the_pending_call_is_unchanged(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path)
    pending = _held(runtime, "true")
    wide = run(runtime.lifecycle.with_widening(pending, Widening(hosts=("example.com",))))
    assert _around(wide) == "contained by bubblewrap; network only example.com"
    assert wide.proposal is not None and wide.proposal.surroundings is not None
    assert wide.digest != pending.digest
    assert runtime.pending.list() == [pending]
    answer = Answer(kind="approve", by="ann", widen=Widening(hosts=("example.com",)))
    assert run(runtime.answer(pending.call.id, answer, digest=wide.digest)).state is State.DONE
    ledger = open_ledger(tmp_path / "state")
    record = ledger.call(pending.call.id)
    assert record.call.widening == Widening(hosts=("example.com",))
    assert [given.digest for given in record.answers] == [wide.digest]
    assert ledger.verify().ok


@pytest.mark.spec("A19", "A13")
def test_a_widened_approval_is_void_if_the_call_changes_and_it_becomes_pending_unwidened(tmp_path: Path) -> None:
    script = tmp_path / "project" / "go.sh"
    script.parent.mkdir()
    script.write_text("echo one")
    runtime = _runtime(tmp_path)
    pending = _held(runtime, "sh go.sh")
    wide = Answer(kind="approve", by="ann", widen=Widening(network=True))
    approved = run(runtime.lifecycle.answer(pending.call.id, wide))
    assert (approved.state, approved.widened) == (State.APPROVED, Widening(network=True))
    script.write_text("echo two")
    assert run(runtime.lifecycle.resume(approved)) is not None
    (now,) = runtime.pending.list()
    assert (now.state, now.widened, now.call.widening) == (State.PENDING, None, None)
    assert _around(now) == "contained by bubblewrap; network off"
    script.write_text("echo three")
    with pytest.raises(StaleApproval, match=r"go\.sh"):
        run(runtime.answer(now.call.id, wide))


@pytest.mark.spec("A19", "N2")
def test_an_approval_can_open_a_denied_path_for_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    keys = home / ".ssh"
    keys.mkdir(parents=True)
    (keys / "id").write_text(SECRET)
    (keys / "other").write_text("another")
    monkeypatch.setenv("HOME", str(home))
    runtime = _runtime(tmp_path)
    line = f"cat {keys}/id; cat ~/.ssh/id; cat {keys}/other"
    assert SECRET not in run(runtime.approve(_held(runtime, line).call.id)).text
    pending = _held(runtime, line)
    wide = run(runtime.lifecycle.with_widening(pending, Widening(read=("~/.ssh/id",))))
    assert _around(wide) == f"contained by bubblewrap; network off; also reads {keys}/id"
    read = _approve(runtime, pending, read=("~/.ssh/id",)).text
    assert read.count(SECRET) == 2 and "another" not in read
    assert "another" in _approve(runtime, _held(runtime, line), read=("~/.ssh",)).text
    assert SECRET not in run(runtime.approve(_held(runtime, line).call.id)).text


@pytest.mark.spec("A19", "X11")
@pytest.mark.parametrize("undo", ["auto", "copy"])
def test_an_approval_can_open_a_folder_for_writing_and_the_changes_can_be_undone(tmp_path: Path, undo: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "f").write_text("before")
    runtime = _runtime(tmp_path, _config(undo=undo))
    line = f"echo after > {other}/f"
    assert run(runtime.approve(_held(runtime, line).call.id)).state is State.FAILED
    done = _approve(runtime, _held(runtime, line), write=(str(other),))
    assert (done.state, (other / "f").read_text()) == (State.DONE, "after\n")
    run(runtime.undo(done.call_id))
    assert (other / "f").read_text() == "before"


@pytest.mark.spec("A19", "X11")
def test_a_folder_that_cannot_be_read_can_be_written_and_undone(tmp_path: Path) -> None:
    denied = tmp_path / "denied"
    (denied / "part").mkdir(parents=True)
    (denied / "key").write_text(SECRET)
    runtime = _runtime(tmp_path, _config(undo="auto", read_deny=(str(denied),)))
    line = f"echo x > {denied}/part/f && cat {denied}/part/f; cat {denied}/key"
    done = _approve(runtime, _held(runtime, line), write=(str(denied / "part"),))
    assert "x" in done.text and SECRET not in done.text
    assert (denied / "part" / "f").read_text() == "x\n"
    run(runtime.undo(done.call_id))
    assert not (denied / "part" / "f").exists()


@pytest.mark.spec("A19")
def test_an_approval_can_run_one_call_outside_the_sandbox_unless_it_is_required(tmp_path: Path) -> None:
    config = Config(approval=ApprovalConfig(auto_approve=()), sandbox=SandboxConfig(mode="auto", undo="off"))
    runtime = _runtime(tmp_path, config)
    target = tmp_path / "outside"
    pending = _held(runtime, f"echo x > {target}")
    wide = run(runtime.lifecycle.with_widening(pending, Widening(outside=True)))
    assert _around(wide) == "not contained; network on"
    assert wide.proposal is not None and wide.proposal.risk == "high"
    assert _approve(runtime, pending, outside=True).state is State.DONE
    assert target.read_text() == "x\n"
    required = _runtime(tmp_path / "required")
    with pytest.raises(CallError, match="required"):
        _approve(required, _held(required, "true"), outside=True)


@pytest.mark.spec("A19", "P8")
def test_the_configuration_can_forbid_a_widening(tmp_path: Path) -> None:
    rule = CommandRule(rule="true", verdict="ask", network="on")
    runtime = _runtime(tmp_path, _config(rule, approval={"widen": ("hosts",)}))
    pending = _held(runtime, "true")
    assert _around(pending) == "contained by bubblewrap; network off"
    with pytest.raises(CallError, match=r"network.*approval\.widen"):
        _approve(runtime, pending, network=True)
    assert runtime.pending.list() == [pending]
    assert _approve(runtime, pending, hosts=("example.com",)).state is State.DONE


@pytest.mark.spec("A19")
@pytest.mark.parametrize(
    ("widening", "words"),
    [
        ({"hosts": ("a b",)}, "is not a host"),
        ({"read": ("/no/such/path",)}, "/no/such/path does not exist"),
        ({"write": ("/",)}, "cannot be made writable"),
        ({"write": ("/proc",)}, "cannot be made writable"),
        ({"write": ("/etc/passwd",)}, "is not a folder"),
    ],
)
def test_an_impossible_widening_is_refused_and_the_call_stays_pending(
    tmp_path: Path, widening: dict[str, Any], words: str
) -> None:
    runtime = _runtime(tmp_path)
    pending = _held(runtime, "true")
    with pytest.raises(HoldfastError, match=words):
        _approve(runtime, pending, **widening)
    assert runtime.pending.list() == [pending]


@pytest.mark.spec("A19", "N7")
def test_the_state_of_holdfast_stays_hidden_with_any_widening(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path)
    state = tmp_path / "state"
    with pytest.raises(HoldfastError, match="belongs to holdfast"):
        _approve(runtime, _held(runtime, "true"), read=(str(state),))
    (state / "secret").write_text(SECRET)
    whole = _approve(runtime, runtime.pending.list()[0], read=(str(tmp_path),))
    assert whole.state is State.DONE
    looked = _approve(runtime, _held(runtime, f"cat {state}/secret"), read=(str(tmp_path),), write=(str(tmp_path),))
    assert SECRET not in looked.text


@pytest.mark.spec("A19")
def test_only_a_command_can_be_widened_and_only_by_an_approval(tmp_path: Path) -> None:
    note, seen = recorder()
    runtime = runtime_in(tmp_path, note, nobody="pending")
    run(runtime.call("note", {"text": "x"}))
    (pending,) = runtime.pending.list()
    with pytest.raises(CallError, match="runs no command"):
        _approve(runtime, pending, network=True)
    with pytest.raises(CallError, match="Only an approval can widen"):
        run(runtime.answer(pending.call.id, Answer(kind="reject", by="ann", widen=Widening(network=True))))
    assert seen == []


@pytest.mark.spec("A19", "A14")
def test_an_asker_can_widen_and_edit_at_once(tmp_path: Path, remote: Any) -> None:
    address, bare, project = remote

    async def asker(pending: PendingCall) -> Answer:
        widen = Widening(hosts=(address,))
        return Answer(kind="edit", by="ann", args={"command": "git push origin main"}, widen=widen)

    runtime = runtime_in(tmp_path, SHELL_EXEC, config=_config(), asker=asker)
    assert run(runtime.call("shell.exec", {"command": "git push"})).state is State.DONE
    assert git(bare, "rev-parse", "main") == git(project, "rev-parse", "main")


@pytest.mark.spec("A19")
@pytest.mark.parametrize(
    ("widening", "words"),
    [
        ({}, "changes to files can be undone"),
        ({"network": True}, "changes to files can be undone; what it sends cannot"),
    ],
)
def test_undo_is_promised_for_files_only(tmp_path: Path, widening: dict[str, Any], words: str) -> None:
    runtime = _runtime(tmp_path, _config(undo="auto"))
    wide = run(runtime.lifecycle.with_widening(_held(runtime, "true"), Widening(**widening)))
    assert wide.proposal is not None and wide.proposal.surroundings is not None
    assert wide.proposal.surroundings.undo == words
