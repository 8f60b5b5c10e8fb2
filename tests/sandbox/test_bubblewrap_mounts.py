"""Mounts: pinned paths stay in place, and exactly the listed files are mounted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox import bubblewrap, protected_mounts
from holdfast.sandbox import policy as policies
from holdfast.sandbox.launch import (
    Backend,
    Overlay,
    clean_up,
    run_launch,
)
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.supervisor.client import Supervisor
from tests.sandbox.sandboxed_commands import (
    bubblewraps,
    launched,
    policy,
    policy_with_installation,
    repository,
    run,
    run_with_violations,
)

each = pytest.mark.parametrize("backend", bubblewraps(), ids=lambda one: one.title.partition(" (")[0])
newest = bubblewraps()[0]
by_descriptor = pytest.mark.skipif(newest.version < (0, 10), reason="no bubblewrap that takes open files is installed")


@each
@pytest.mark.spec("N1", "N2")
def test_the_folder_above_the_interpreter_cannot_be_moved(tmp_path: Path, backend: Backend) -> None:
    place = policy_with_installation(tmp_path)
    script = "mv server s2; mkdir -p server/venv/bin; echo evil > server/venv/bin/python; echo x > server/made"
    run(backend, place, "sh", "-c", script, cwd=tmp_path)
    assert (tmp_path / "server" / "venv" / "bin" / "python").read_text() == "ours"
    assert (tmp_path / "server" / "made").read_text() == "x\n"
    assert not (tmp_path / "s2").exists()


@each
@pytest.mark.spec("N2")
def test_a_denied_path_cannot_be_moved_to_a_readable_place(tmp_path: Path, backend: Backend) -> None:
    (tmp_path / "a" / "deploy").mkdir(parents=True)
    (tmp_path / "a" / "deploy" / "key").write_text("TOP")
    place = policy(tmp_path, read_deny=("a/deploy/key",))
    run(backend, place, "sh", "-c", "mv a/deploy a/d2; mv a a2", cwd=tmp_path)
    done = run(backend, place, "sh", "-c", "cat a/deploy/key a/d2/key a2/deploy/key a2/d2/key", cwd=tmp_path)
    assert done.out == ""
    assert (tmp_path / "a" / "deploy" / "key").read_text() == "TOP"


@pytest.mark.skipif(not newest.overlays, reason="no bubblewrap with overlays is installed")
@pytest.mark.spec("N2")
def test_pins_do_not_bypass_an_overlay(tmp_path: Path) -> None:
    root = tmp_path / "root"
    place = policy_with_installation(root)
    overlay = Overlay(lower=root, upper=tmp_path / "upper", work=tmp_path / "work")
    overlay.upper.mkdir()
    overlay.work.mkdir()
    run(newest, place, "sh", "-c", "mv server s2; echo x > server/made", cwd=root, overlays=(overlay,))
    assert sorted(path.name for path in (root / "server").iterdir()) == ["venv"]
    assert (overlay.upper / "server" / "made").exists()


@pytest.mark.spec("N1")
def test_commands_are_refused_after_the_installation_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "venv"
    own.mkdir()
    monkeypatch.setattr(policies, "installation_folders", lambda: (own,))
    sandbox = Sandbox(SandboxConfig(), root=tmp_path, cwd=tmp_path)
    clean_up(sandbox.launch(Command(argv=("true",))))
    own.rename(tmp_path / "old")
    own.mkdir()
    with pytest.raises(SandboxRefused, match="was replaced"):
        sandbox.launch(Command(argv=("true",)))
    with pytest.raises(SandboxRefused, match="was replaced"):
        sandbox.wrap_command(["true"])


@each
@pytest.mark.spec("N2")
def test_a_project_inside_a_writable_folder_is_masked_and_pinned(tmp_path: Path, backend: Backend) -> None:
    root = repository(tmp_path / "work" / "project")
    place = policy(root, writable=(str(tmp_path),))
    script = "echo x > .envrc; mkdir .vscode; mv .git .g; mv ../../work ../../w2; mv ../project ../p2"
    done, violations = run_with_violations(backend, place, "sh", "-c", script, cwd=root)
    assert done.err.count("\n") == 5, done.err
    assert violations == ()
    assert [path.name for path in root.iterdir()] == [".git"]
    assert [path.name for path in tmp_path.iterdir()] == ["work"]


@pytest.mark.spec("N2")
def test_configured_patterns_do_not_use_up_the_mounts_of_built_in_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_mounts, "MAX_MOUNTED", 2)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / ".npmrc").write_text("x")
    for name in ("a.mine", "b.mine", "c.mine"):
        (tmp_path / name).write_text("x")
    place = replace(policy(tmp_path), protected=("*.mine",))
    done = run(newest, place, "sh", "-c", "echo evil > deep/er/.npmrc", cwd=tmp_path)
    assert "Read-only" in done.err


def _exchanged(monkeypatch: pytest.MonkeyPatch, name: str, act: Any) -> None:
    """Call `act` right after `bubblewrap` has called a function."""
    real = getattr(bubblewrap, name)

    def wrapped(*args: Any, **options: Any) -> Any:
        found = real(*args, **options)
        act()
        return found

    monkeypatch.setattr(bubblewrap, name, wrapped)


@each
@pytest.mark.spec("N2")
def test_a_path_swapped_for_a_symlink_is_not_mounted(
    tmp_path: Path, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, secrets = tmp_path / "root", tmp_path / "secrets"
    (root / "d").mkdir(parents=True)
    secrets.mkdir()
    (root / "d" / ".npmrc").write_text("plain")
    (secrets / ".npmrc").write_text("TOP")

    def exchange() -> None:
        (root / "d").rename(root / "e")
        (root / "d").symlink_to(secrets)

    _exchanged(monkeypatch, "choose_mounts", exchange)
    with pytest.raises(SandboxRefused, match="Try again"):
        launched(backend, policy(root, read_deny=(str(secrets),)), ["true"], cwd=root)
    assert {path.name for path in root.iterdir()} == {"d", "e"}


@by_descriptor
@pytest.mark.spec("N2")
def test_bubblewrap_gets_descriptors_instead_of_paths_in_writable_folders(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    place = replace(
        policy_with_installation(root / "a"), root=root, writable=(root,), read_deny=(root / "b" / "c" / "key",)
    )
    (root / "b" / "c").mkdir(parents=True)
    (root / "b" / "c" / "key").touch()
    (root / "b" / ".npmrc").touch()
    launch = launched(newest, place, ["true"], cwd=root)
    words = [os.fsdecode(word) for word in launch.files[0].split(b"\0")]
    sources = [words[at + 1] for at, word in enumerate(words) if word in ("--bind", "--ro-bind", "--ro-bind-try")]
    assert [source for source in sources if source.startswith(str(root))] == [str(root)]
    held = [words[at + 2] for at, word in enumerate(words) if word.endswith("bind-fd")]
    expected = ("a", "a/server", "a/server/venv", "b", "b/c", "b/.npmrc", ".git", ".git/hooks", ".git/config")
    assert sorted(held) == sorted(str(root / name) for name in expected)
    code, _out, err = run_launch(launch, 30)
    assert (code, err) == (0, b"")


@pytest.mark.spec("N2")
def test_saved_content_does_not_come_from_the_target_of_a_symlink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_mounts, "MAX_MOUNTED", 0)
    root, secrets = tmp_path / "root", tmp_path / "secrets"
    (root / "d").mkdir(parents=True)
    secrets.mkdir()
    (secrets / ".npmrc").write_text("TOP")
    (root / "d" / ".npmrc").write_text("plain")
    real = bubblewrap.find_protected

    def find(*args: Any, **options: Any) -> list[protected_mounts.ProtectedPath]:
        """As if somebody exchanged the folder while it was being looked at."""
        (item,) = real(*args, **options)
        (root / "d").rename(root / "e")
        (root / "d").symlink_to(secrets)
        about = (secrets / ".npmrc").stat()
        return [replace(item, identity=(about.st_dev, about.st_ino))]

    monkeypatch.setattr(bubblewrap, "find_protected", find)
    with pytest.raises(SandboxRefused, match="Try again"):
        launched(newest, policy(root), ["true"], cwd=root)


@by_descriptor
@pytest.mark.spec("N1", "N2")
def test_a_command_inherits_no_mount_descriptors(tmp_path: Path) -> None:
    root = repository(tmp_path / "root")
    for name in ("a", "b", "c"):
        (root / name).mkdir()
        (root / name / ".npmrc").touch()
    launch = launched(newest, policy(root), ["ls", "/proc/self/fd"], cwd=root)
    fds = list(launch.open_files.fds)
    assert len(fds) > 3
    _code, out, _err = run_launch(launch, 30)
    assert out.split() == [b"0", b"1", b"2", b"3"]
    assert launch.open_files.fds == []


@by_descriptor
@pytest.mark.spec("B4", "N2")
def test_a_supervised_command_inherits_no_mount_descriptors(tmp_path: Path) -> None:
    root, output = repository(tmp_path / "root"), tmp_path / "output"
    launch = launched(newest, policy(root), ["sh", "-c", "ls /proc/self/fd; echo x > .git/config"], cwd=root)
    supervisor = Supervisor()
    try:
        with output.open("wb") as out, Path(os.devnull).open("rb") as none:
            job = supervisor.run(launch, none.fileno(), out.fileno(), out.fileno())
        assert launch.open_files.fds == []
        job.wait_blocking(30)
    finally:
        supervisor.close()
        clean_up(launch)
    said = output.read_text()
    assert said.split()[:4] == ["0", "1", "2", "3"], said
    assert "Read-only" in said


@pytest.mark.spec("N2")
def test_build_files_of_a_project_inside_a_writable_folder_are_restored(tmp_path: Path) -> None:
    root = tmp_path / "work" / "project"
    root.mkdir(parents=True)
    (root / "Makefile").write_text("all:\n")
    place = policy(root, writable=(str(tmp_path),))
    script = "echo evil > Makefile; echo evil > conftest.py"
    done, violations = run_with_violations(newest, place, "sh", "-c", script, cwd=root)
    assert "Read-only" in done.err
    assert violations == (str(root / "conftest.py"),)
    assert {path.name: path.read_text() for path in root.iterdir()} == {"Makefile": "all:\n"}
