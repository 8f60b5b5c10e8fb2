"""Approvals and grants of a command are bound to the project files it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Config, Result, Runtime, State
from holdfast.config.config import SandboxConfig, ToolsConfig
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Failure
from holdfast.contract.errors import StaleApproval
from holdfast.tools.shell import SHELL_EXEC
from tests.runtime.command_helpers import PROCESS_TOOLS
from tests.runtime.support import run, runtime_in

BARE = Config(sandbox=SandboxConfig(mode="off"))


def _runtime(folder: Path, config: Config = BARE) -> Runtime:
    return runtime_in(folder, SHELL_EXEC, *PROCESS_TOOLS, nobody="pending", config=config)


def _write(folder: Path, name: str, content: str) -> None:
    path = folder / "project" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)


def _pending(runtime: Runtime, tool: str = "shell.exec", **args: Any) -> PendingCall:
    result = run(runtime.call(tool, args))
    assert result.state is State.PENDING, result
    return next(pending for pending in runtime.pending.list() if pending.call.id == result.call_id)


def _made(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "project").rglob("*.made"))


@pytest.mark.spec("A12b")
@pytest.mark.parametrize(
    "command",
    ["sh build.sh", "./build.sh", "bash -c 'sh build.sh'", "cat build.sh | sh", "sh < build.sh", ". ./build.sh",
     "cd sub && sh ../build.sh", "X=1 sh build.sh", "A=(build.sh); sh ${A[0]}", "read X <<< build.sh; sh $X",
     "for f in build.sh; do sh $f; done", "printf 'sh build.sh' | sh", "${X:-sh build.sh}", "sh $(cat <<< build.sh)"],
)  # fmt: skip
def test_a_script_that_changed_since_it_was_approved_is_not_run(tmp_path: Path, command: str) -> None:
    _write(tmp_path, "build.sh", "touch good.made\n")
    _write(tmp_path, "sub/x", "")
    pending = _pending(_runtime(tmp_path), command=command)
    assert "build.sh" in [file.path for file in pending.files]
    _write(tmp_path, "build.sh", "touch evil.made\n")
    again = _runtime(tmp_path)
    result = run(again.approve(pending.call.id, digest=pending.digest))
    assert (result.state, result.failure) == (State.PENDING, Failure.STALE)
    assert "the content of build.sh" in (result.error or "")
    assert _made(tmp_path) == []
    (now,) = again.pending.list()
    assert run(again.approve(now.call.id, digest=now.digest)).success
    assert _made(tmp_path) == ["evil.made"], "it was shown as what it is now, and approved as that"


@pytest.mark.spec("A12b")
@pytest.mark.parametrize("change", ["appears", "is removed"])
def test_a_script_that_appears_or_disappears_makes_the_call_pending_again(tmp_path: Path, change: str) -> None:
    _write(tmp_path, "other", "")
    if change == "is removed":
        _write(tmp_path, "build.sh", "touch good.made\n")
    pending = _pending(_runtime(tmp_path), command="sh build.sh")
    if change == "appears":
        _write(tmp_path, "build.sh", "touch evil.made\n")
    else:
        (tmp_path / "project" / "build.sh").unlink()
    result = run(_runtime(tmp_path).approve(pending.call.id))
    assert result.failure is Failure.STALE
    assert "the content of build.sh" in (result.error or "")
    assert _made(tmp_path) == []


@pytest.mark.spec("A12b")
@pytest.mark.parametrize(
    "args",
    [{"command": "make -f x.mk -C sub"}, {"command": "f() { make -f x.mk; }; cd sub && f"},
     {"command": "ls -d a b c d e f g h; cd sub && make -f x.mk"},
     {"tool": "process.start", "command": "make", "args": ["-f", "x.mk", "-C", "sub"], "detached": True}],
)  # fmt: skip
def test_named_files_are_found_in_folders_with_matching_names(tmp_path: Path, args: dict[str, Any]) -> None:
    for folder in "abcdefgh":
        _write(tmp_path, f"{folder}/x", "")
    _write(tmp_path, "sub/x.mk", "all:\n\ttouch good.made\n")
    pending = _pending(_runtime(tmp_path), **args)
    _write(tmp_path, "sub/x.mk", "all:\n\ttouch evil.made\n")
    assert run(_runtime(tmp_path).approve(pending.call.id)).failure is Failure.STALE
    assert _made(tmp_path) == []


@pytest.mark.spec("A12b")
def test_a_command_with_too_many_names_is_bound_to_every_file_in_the_project(tmp_path: Path) -> None:
    _write(tmp_path, "build.sh", "touch good.made\n")
    _write(tmp_path, "other", "one")
    command = f"echo {'{a,b}' * 9}; sh build.sh"
    pending = _pending(_runtime(tmp_path), command=command)
    assert [file.path for file in pending.files] == ["every file in the project"]
    _write(tmp_path, "other", "two")
    result = run(_runtime(tmp_path).approve(pending.call.id))
    assert result.failure is Failure.STALE
    assert "every file in the project" in (result.error or "")
    assert _made(tmp_path) == []
    again = _runtime(tmp_path)
    (pending,) = again.pending.list()
    run(again.allow(pending, "project", by="ann"))
    _write(tmp_path, "other", "three")
    assert run(again.call("shell.exec", {"command": command})).state is State.PENDING
    _write(tmp_path, "other", "two")
    (pending, _) = again.pending.list()
    assert run(again.approve(pending.call.id)).failure is Failure.STALE
    assert run(again.approve(pending.call.id)).success
    assert _made(tmp_path) == ["good.made"]


@pytest.mark.spec("A12b")
@pytest.mark.parametrize(
    "args", [{"command": "sh build.sh"}, {"command": "sh", "args": ["build.sh"]}, {"command": "./build.sh", "args": []}]
)
def test_a_process_is_started_only_with_the_approved_script(tmp_path: Path, args: dict[str, Any]) -> None:
    _write(tmp_path, "build.sh", "touch good.made\n")
    pending = _pending(_runtime(tmp_path), "process.start", **args, detached=True)
    _write(tmp_path, "build.sh", "touch evil.made\n")
    result = run(_runtime(tmp_path).approve(pending.call.id))
    assert result.failure is Failure.STALE
    assert _made(tmp_path) == []


@pytest.mark.spec("A12b")
def test_named_files_are_found_in_the_folder_of_the_cwd_argument(tmp_path: Path) -> None:
    _write(tmp_path, "sub/build.sh", "touch good.made\n")
    pending = _pending(_runtime(tmp_path), command="sh build.sh", cwd="sub")
    assert [file.path for file in pending.files] == ["sub/build.sh"]


@pytest.mark.spec("A12b")
def test_a_command_that_only_reads_is_not_bound_to_the_content(tmp_path: Path) -> None:
    _write(tmp_path, "notes.txt", "one\n")
    runtime = _runtime(tmp_path)
    for command in ("cat notes.txt", "wc -l notes.txt", "grep one notes.txt | head -3"):
        pending = _pending(runtime, command=command)
        assert pending.files == ()
        _write(tmp_path, "notes.txt", f"one\nand {command}\n")
        assert run(runtime.approve(pending.call.id)).success


@pytest.mark.spec("A12b")
def test_a_grant_for_a_script_covers_only_its_present_content(tmp_path: Path) -> None:
    _write(tmp_path, "build.sh", "touch good.made\n")
    runtime = _runtime(tmp_path)
    run(runtime.allow(_pending(runtime, command="sh build.sh"), "project", by="ann"))
    assert run(_runtime(tmp_path).call("shell.exec", {"command": "sh build.sh"})).success
    _write(tmp_path, "build.sh", "touch evil.made\n")
    assert run(_runtime(tmp_path).call("shell.exec", {"command": "sh build.sh"})).state is State.PENDING
    assert _made(tmp_path) == ["good.made"]
    _write(tmp_path, "build.sh", "touch good.made\n")
    assert run(_runtime(tmp_path).call("shell.exec", {"command": "sh build.sh"})).success


@pytest.mark.spec("A12b")
@pytest.mark.parametrize("change", ["the script", "the sandbox"])
def test_a_grant_is_refused_if_the_call_changed_since_it_was_shown(tmp_path: Path, change: str) -> None:
    """Otherwise the grant would cover something that no person has seen."""
    _write(tmp_path, "build.sh", "touch good.made\n")
    pending = _pending(_runtime(tmp_path), command="sh build.sh")
    if change == "the script":
        _write(tmp_path, "build.sh", "touch evil.made\n")
    runtime = _runtime(tmp_path, BARE if change == "the script" else Config(sandbox=SandboxConfig(network="on")))
    with pytest.raises(StaleApproval, match="build.sh" if change == "the script" else "sandbox"):
        run(runtime.allow(pending, "project", by="ann"))
    assert runtime.ledger is not None
    assert runtime.ledger.grants.list() == []
    assert run(runtime.call("shell.exec", {"command": "sh build.sh"})).state is State.PENDING


def _called(folder: Path, sandbox: SandboxConfig) -> Result:
    return run(_runtime(folder, Config(sandbox=sandbox)).call("shell.exec", {"command": "echo hi > x"}), 60)


@pytest.mark.spec("A12a")
def test_a_grant_is_used_in_its_sandbox_and_in_stricter_ones_only(tmp_path: Path) -> None:
    given = SandboxConfig(network=("example.org", "example.com"))
    runtime = _runtime(tmp_path, Config(sandbox=given))
    grant = run(runtime.allow(_pending(runtime, command="echo hi > x"), "project", by="ann"))
    kept: Any = grant.pattern["given_under"]
    assert (kept["backend"], tuple(kept["network"])) == ("bubblewrap", ("example.org", "example.com"))
    stricter = (
        given,
        SandboxConfig(network="off"),
        SandboxConfig(network=("example.org",)),
        SandboxConfig(network="off", mode="required"),
        SandboxConfig(network="off", writable=("$root",)),
    )
    for same in stricter:
        assert _called(tmp_path, same).success, same
    less = (
        SandboxConfig(mode="off", network="off"),
        SandboxConfig(network="on"),
        SandboxConfig(network=("example.org", "example.com", "evil.example")),
        SandboxConfig(network="off", backend="landlock"),
        SandboxConfig(network="off", writable=("$root", str(tmp_path / "elsewhere"))),
        SandboxConfig(network="off", read_deny=()),
        SandboxConfig(network="off", environment=("*",)),
    )
    for looser in less:
        assert _called(tmp_path, looser).state is State.PENDING, looser


@pytest.mark.spec("A12a")
@pytest.mark.parametrize("tool", ["shell.exec", "process.start"])
def test_a_grant_is_used_only_with_the_same_shell_and_variables(tmp_path: Path, tool: str) -> None:
    """Otherwise `BASH_ENV` in the configuration would make a granted command run another script."""
    _write(tmp_path, "env.sh", "touch evil.made\n")
    args: dict[str, Any] = {"command": "echo hi > x", **({"detached": True} if tool == "process.start" else {})}

    def configured(**given: Any) -> Runtime:
        return _runtime(tmp_path, replace(BARE, tools=ToolsConfig(config={tool: given} if given else {})))

    runtime = configured(env={"A": "1"})
    run(runtime.allow(_pending(runtime, tool, **args), "project", by="ann"))
    for other in ({}, {"env": {"A": "2"}}, {"env": {"A": "1", "BASH_ENV": "./env.sh"}},
                  {"env": {"A": "1"}, "shell": "/bin/sh"}):  # fmt: skip
        assert run(configured(**other).call(tool, args)).state is State.PENDING, other
    assert run(configured(env={"A": "1"}).call(tool, args)).success
    assert _made(tmp_path) == []


@pytest.mark.spec("A12a")
def test_a_grant_for_a_reading_program_is_bound_to_its_sandbox(tmp_path: Path) -> None:
    _write(tmp_path, "notes.txt", "one\n")
    contained = Config(sandbox=SandboxConfig())
    runtime = _runtime(tmp_path, contained)
    run(runtime.allow(_pending(runtime, command="wc -l notes.txt"), "project", by="ann", width="command"))
    assert run(_runtime(tmp_path, contained).call("shell.exec", {"command": "wc notes.txt"}), 60).success
    assert run(_runtime(tmp_path, BARE).call("shell.exec", {"command": "wc notes.txt"})).state is State.PENDING


@pytest.mark.spec("A12a")
def test_a_single_approval_is_bound_to_its_sandbox(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path, Config())
    pending = _pending(runtime, command="echo hi")
    run(runtime.allow(pending, "session", by="ann"))
    runtime.commands.__dict__.pop("sandbox", None)
    runtime.commands.config = BARE
    assert run(runtime.call("shell.exec", {"command": "echo hi"})).state is State.PENDING
