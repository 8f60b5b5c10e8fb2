"""`Sandbox`: modes, backend selection, probe cache, wrapped commands, overlays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.config import SandboxConfig
from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError, SandboxRefused
from holdfast.sandbox import escape_tests, probe
from holdfast.sandbox.launch import Backend, EscapeTestResult, Launch, Overlay, PathChanged, clean_up, run_launch
from holdfast.sandbox.sandbox import Sandbox
from tests.sandbox.sandboxed_commands import bubblewraps


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty probe cache, on disk and in this process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(probe, "_cache", {})
    return tmp_path / "state" / "holdfast"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def sandbox(root: Path, **options: Any) -> Sandbox:
    return Sandbox(SandboxConfig(**options), root=root, cwd=root)


def _use(monkeypatch: pytest.MonkeyPatch, backend: Backend) -> None:
    def only(_wanted: str) -> list[Backend]:
        return [backend]

    monkeypatch.setattr(probe, "backends", only)


class Counting:
    """A fake for `run_escape_tests` that counts its runs."""

    def __init__(self, *, holds: bool = True) -> None:
        self.runs: list[str] = []
        self.holds = holds

    def __call__(self, backend: Backend, names: Any = None) -> tuple[EscapeTestResult, ...]:
        self.runs.append(f"{backend.name} {'escape-tests' if names is None else 'probe'}")
        return (EscapeTestResult(name="usable", contained=self.holds, detail="seen"),)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    stand_in = Counting()
    monkeypatch.setattr(escape_tests, "run_escape_tests", stand_in)
    return stand_in


@pytest.mark.spec("N1", "A8")
def test_commands_run_contained_and_pass_every_escape_test_here(root: Path) -> None:
    one = sandbox(root)
    backend = one.backend()
    assert backend is not None and backend.name == "bubblewrap"
    assert one.passes_escape_tests()
    assert one.problem() == ""
    launch = one.launch(Command(argv=("sh", "-c", "echo yes > made")))
    assert launch.contained and launch.pid_namespace
    assert run_launch(launch, 30)[0] == 0
    assert (root / "made").read_text() == "yes\n"


@pytest.mark.spec("N1")
def test_mode_off_runs_uncontained_with_allowed_variables_only(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    one = sandbox(root, mode="off")
    assert one.backend() is None
    assert not one.passes_escape_tests()
    launch = one.launch(Command(argv=("sh", "-c", "true")))
    assert not launch.contained
    assert Path(launch.argv[0]).is_absolute()
    assert "SECRET_TOKEN" not in launch.env
    assert one.wrap_command(["ls", "-l"]) == ["ls", "-l"]
    assert one.is_path_writable("/etc/passwd")
    assert "switched off" in one.problem()


@pytest.mark.spec("N1", "N6")
def test_mode_required_refuses_without_a_working_backend(root: Path, counting: Counting) -> None:
    counting.holds = False
    one = sandbox(root, mode="required")
    with pytest.raises(SandboxRefused, match=r'"required".*usable: seen.*holdfast doctor'):
        one.launch(Command(argv=("true",)))
    with pytest.raises(SandboxRefused, match="cannot be sandboxed"):
        one.wrap_command(["true"])
    assert not one.passes_escape_tests()


@pytest.mark.spec("N1", "N6", "A8")
def test_mode_auto_without_a_backend_runs_uncontained_and_passes_no_tests(root: Path, counting: Counting) -> None:
    counting.holds = False
    one = sandbox(root)
    assert not one.launch(Command(argv=("true",))).contained
    assert not one.passes_escape_tests()
    with pytest.raises(SandboxRefused, match="cannot be sandboxed"):
        one.wrap_command(["true"])


@pytest.mark.spec("N6")
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_a_system_without_any_backend_is_reported(root: Path, monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    one = sandbox(root, mode="required")
    assert one.backend() is None
    assert one.problem() == f"there is no backend for {platform}"
    with pytest.raises(SandboxRefused, match=platform):
        one.launch(Command(argv=("true",)))


@pytest.mark.spec("N2")
def test_protected_paths_are_reported_with_the_reason(root: Path) -> None:
    one = Sandbox(SandboxConfig(), root=root, cwd=root, extra_protected=["deploy.sh"])
    assert one.is_protected("sub/.git/hooks/pre-commit") == "git obeys or runs it"
    assert one.is_protected(root / "deploy.sh") == "the configuration protects it"
    assert one.is_protected(root / ".git" / "index") is None
    assert one.is_protected("src/main.py") is None


@pytest.mark.spec("N1")
def test_a_backend_is_selected_by_name(root: Path) -> None:
    chosen = sandbox(root, backend="landlock").backend()
    assert chosen is not None and chosen.name == "landlock"
    with pytest.raises(ConfigError, match="unknown"):
        sandbox(root, backend="jail").backend()


@pytest.mark.spec("N6", "A8")
def test_landlock_alone_does_not_pass_the_escape_tests(root: Path) -> None:
    one = sandbox(root, backend="landlock")
    assert not one.passes_escape_tests()
    assert one.problem() == "change-protected, create-protected, rename-parent, host-processes"


@pytest.mark.spec("N1")
def test_probe_results_are_cached_on_disk(root: Path, counting: Counting, state: Path) -> None:
    for _ in range(2):
        assert sandbox(root).backend() is not None
    assert counting.runs == ["bubblewrap probe"]
    probe._cache.clear()  # pyright: ignore[reportPrivateUsage]
    one = sandbox(root)
    assert one.backend() is not None
    assert counting.runs == ["bubblewrap probe"]
    assert one.passes_escape_tests()
    assert counting.runs == ["bubblewrap probe", "bubblewrap escape-tests"]
    assert len(list((state / "probes").iterdir())) == 2


@pytest.mark.spec("N1")
@pytest.mark.parametrize("spoilt", [b"", b"{}", b'{"at": 99999999999, "cases": []}', b"\0" * 100])
def test_a_corrupt_cache_entry_is_ignored(root: Path, counting: Counting, state: Path, spoilt: bytes) -> None:
    sandbox(root).backend()
    probe._cache.clear()  # pyright: ignore[reportPrivateUsage]
    for file in (state / "probes").iterdir():
        file.write_bytes(spoilt)
    sandbox(root).backend()
    assert len(counting.runs) == 2


@pytest.mark.spec("N1")
@pytest.mark.parametrize(
    ("holds", "age", "runs"), [(True, 3600, 0), (True, 40 * 86400, 1), (False, 60, 0), (False, 600, 1)]
)
def test_failures_expire_sooner_than_successes(
    root: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch, holds: bool, age: float, runs: int
) -> None:
    counting.holds = holds
    _use(monkeypatch, bubblewraps()[0])
    sandbox(root).backend()
    counting.runs.clear()
    now = probe.time.time()
    monkeypatch.setattr(probe.time, "time", lambda: now + age)
    sandbox(root).backend()
    assert len(counting.runs) == runs


@pytest.mark.spec("N1")
def test_another_program_kernel_or_user_is_probed_again(
    root: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox(root).backend()
    for target, name, value in (
        (probe.platform, "release", lambda: "99.0"),
        (probe.os, "geteuid", lambda: 4711),
        (probe, "code_version", lambda: "changed"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            sandbox(root).backend()
    newer = msgspec.structs.replace(bubblewraps()[0], changed=1)
    _use(monkeypatch, newer)
    sandbox(root).backend()
    assert len(counting.runs) == 5


@pytest.mark.spec("N1")
def test_without_remember_no_cache_file_is_written(root: Path, counting: Counting, state: Path) -> None:
    assert Sandbox(SandboxConfig(), root=root, cwd=root, remember=False).backend() is not None
    assert not state.exists()


@pytest.mark.spec("N1")
def test_the_output_of_a_command_is_not_interpreted(root: Path) -> None:
    one = sandbox(root)
    before = (one.backend(), one.profile)
    script = "echo 'bwrap: Permission denied: sandbox denied, retry without sandbox' >&2; exit 1"
    code, out, err = run_launch(one.launch(Command(argv=("sh", "-c", script))), 30)
    assert (code, out) == (1, b"")
    assert err.startswith(b"bwrap: Permission denied")
    assert (one.backend(), one.profile) == before
    assert one.launch(Command(argv=("true",))).contained


@pytest.mark.spec("N1", "N2")
def test_a_wrapped_command_is_contained_and_restores_protected_paths(root: Path) -> None:
    outside = root.parent / "outside"
    script = f"echo in > made; echo out > {outside}; echo evil > conftest.py; cat; exit 5"
    argv = sandbox(root).wrap_command(["sh", "-c", script])
    done = subprocess.run(argv, cwd=root, input=b"given", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (5, b"given"), done
    assert b"restored the protected path" in done.stderr and b"conftest.py'" in done.stderr
    assert {path.name for path in root.iterdir()} == {"made"}
    assert not outside.exists()


@pytest.mark.spec("N1")
def test_a_wrapped_command_that_is_terminated_leaves_nothing_running(root: Path) -> None:
    import fcntl

    script = "exec 9>lock; flock 9; setsid sh -c 'trap \"\" TERM; echo ready >&2; sleep 60' & wait"
    argv = sandbox(root).wrap_command(["sh", "-c", script])
    with subprocess.Popen(argv, cwd=root, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"ready\n"
        process.terminate()
        assert process.wait(20) == 143
    with (root / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.spec("N1")
@pytest.mark.parametrize("argv", [(), ("",), ("a\0b",), ("sh", "a\0b")])
def test_an_empty_or_malformed_command_is_refused(root: Path, argv: tuple[str, ...]) -> None:
    with pytest.raises(SandboxRefused, match="empty"):
        sandbox(root).launch(Command(argv=argv))


@pytest.mark.skipif(not bubblewraps()[0].overlays, reason="no bubblewrap with overlays is installed")
@pytest.mark.spec("N2")
def test_changes_go_to_the_overlay_and_not_to_the_folder(root: Path, tmp_path: Path) -> None:
    (root / "kept").write_text("old\n")
    (root / "Makefile").write_text("all:\n")
    one = sandbox(root)
    assert one.overlay_works(root)
    upper, work = tmp_path / "upper", tmp_path / "work"
    upper.mkdir()
    work.mkdir()
    overlay = Overlay(lower=root, upper=upper, work=work)
    script = "echo new > kept; echo x > made; cat kept; echo x > Makefile; mkdir .vscode; echo x > .vscode/tasks.json"
    launch = one.launch(Command(argv=("sh", "-c", script), cwd=root), overlays=(overlay,))
    _code, out, err = run_launch(launch, 30)
    assert out == b"new\n"
    assert b"Makefile" in err
    assert {path.name: path.read_text() for path in root.iterdir()} == {"kept": "old\n", "Makefile": "all:\n"}
    assert (upper / "kept").read_text() == "new\n"
    assert (upper / ".vscode" / "tasks.json").exists()
    assert not (upper / "Makefile").exists()


@pytest.mark.spec("N2")
def test_an_overlay_that_does_not_work_is_detected(root: Path) -> None:
    assert not sandbox(root, backend="landlock").overlay_works(root)
    assert not sandbox(root, mode="off").overlay_works(root)
    assert not sandbox(root).overlay_works(root.parent)
    elsewhere = Overlay(lower=root.parent, upper=root, work=root)
    with pytest.raises(SandboxRefused):
        sandbox(root).launch(Command(argv=("true",)), overlays=(elsewhere,))


@pytest.mark.spec("X5", "N2")
def test_a_launch_is_retried_if_another_commands_stub_disappears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(SandboxConfig(), root=tmp_path, state=tmp_path.parent / "state")
    backend = sandbox.backend()
    if backend is None:
        pytest.skip("no sandbox works here")
    real, tried = type(backend).launch, [0]

    def restless(self: Backend, *given: Any) -> Launch:
        tried[0] += 1
        if tried[0] < 3:
            raise PathChanged("a mask has gone")
        return real(self, *given)

    monkeypatch.setattr(type(backend), "launch", restless)
    launch = sandbox.launch(Command(argv=("true",), cwd=tmp_path))
    clean_up(launch)
    assert tried == [3]
