"""How the supervisor starts a command, confines it, and kills what it leaves behind."""

from __future__ import annotations

import os
import resource
import select
from pathlib import Path
from typing import Any

import pytest

from holdfast import privileges
from holdfast.sandbox.launch import Launch
from holdfast.sandbox.supervisor.client import (
    CommandNotStarted,
    ExitStatus,
    Supervisor,
)
from tests.sandbox.supervisor.supervised_commands import CONFINED, PATH, run, shell_launch


@pytest.mark.parametrize("how", [{}, CONFINED], ids=["spawned", "forked"])
@pytest.mark.spec("B4", "N2")
def test_a_command_gets_exactly_what_the_launch_specifies(
    supervisor: Supervisor, tmp_path: Path, how: dict[str, Any]
) -> None:
    os.environ["LEAKED"] = "yes"
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    sid = "sed 's/.*) //' /proc/$$/stat | cut -d' ' -f4"
    script = f"pwd; env | sort; readlink /proc/$$/fd/0; ls /proc/$$/fd; {sid}; echo $$"
    try:
        ended, text = run(
            supervisor, shell_launch(script, cwd=str(tmp_path), env={**PATH, "GIVEN": "1"}, **how), tmp_path
        )
    finally:
        os.close(secret)
        del os.environ["LEAKED"]
    lines = text.split("\n")
    assert ended == ExitStatus(0, None)
    assert lines[0] == str(tmp_path)
    assert {"GIVEN=1", "PATH=/usr/bin:/bin"} <= set(lines)
    assert "LEAKED" not in text
    assert lines[lines.index("/dev/null") + 1 : -3] in (["0", "1", "2"], ["0", "1", "2", "255"])
    assert lines[-3] == lines[-2]


@pytest.mark.spec("B4", "X3")
def test_namespace_leftovers_are_dead_when_the_end_is_reported(supervisor: Supervisor, tmp_path: Path) -> None:
    """The first process ends on its own unless the command made it do something else."""
    script = "setsid sleep 300 >/dev/null 2>&1 & echo $!"
    ended, pid = run(supervisor, shell_launch(script, pid_namespace=True), tmp_path)
    assert ended == ExitStatus(0, None)
    try:
        left = os.pidfd_open(int(pid))
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(left, select.POLLIN)
    assert poll.poll(10_000), "it still runs"
    os.close(left)


@pytest.mark.spec("N2")
def test_limits_and_landlock_apply_from_the_first_instruction(supervisor: Supervisor, tmp_path: Path) -> None:
    limited = shell_launch(
        "ulimit -n; ulimit -f", rlimits=((resource.RLIMIT_NOFILE, 99), (resource.RLIMIT_FSIZE, 1024))
    )
    assert run(supervisor, limited, tmp_path)[1] == "99\n1\n"
    if privileges.landlock_abi():
        read = privileges.EXECUTE | privileges.READ_FILE | privileges.READ_DIR
        locked = shell_launch(f"echo x > {tmp_path}/planted; grep Seccomp: /proc/self/status", landlock=(("/", read),))
        text = run(supervisor, locked, tmp_path)[1]
        assert "Permission denied" in text
        assert not (tmp_path / "planted").exists()


@pytest.mark.spec("N2")
def test_a_command_does_not_start_if_its_filter_cannot_be_installed(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(CommandNotStarted):
        run(supervisor, shell_launch("true", seccomp=b"not a filter at all"), tmp_path)


@pytest.mark.spec("N2", "B4")
def test_descriptor_placeholders_are_filled_only_before_the_command(supervisor: Supervisor, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"passed")
    os.close(writing)
    script = 'cat "/proc/self/fd/$0"; cat <&5; echo " $2"'
    argv = ("/bin/bash", "-c", script, "{fd0}", "--", "{fd1}")
    launch = Launch(argv=argv, cwd="/", env=PATH, files=(b"first ", b"second "))
    try:
        _, text = run(supervisor, launch, tmp_path, (reading,))
    finally:
        os.close(reading)
    assert text == "first passed {fd1}\n"
