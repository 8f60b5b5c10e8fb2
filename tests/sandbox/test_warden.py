"""The supervisor: starts what a launch says, as it says, and nothing that it started gets away."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox import privileges
from holdfast.sandbox.launch import Launch
from holdfast.sandbox.supervisor import client
from holdfast.sandbox.supervisor.client import (
    CommandNotStarted,
    ExitStatus,
    LogTarget,
    SupervisedCommand,
    Supervisor,
    SupervisorLost,
)

PATH = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def supervisor() -> Generator[Supervisor]:
    made = Supervisor()
    yield made
    made.close()


def _launch(script: str, **changes: Any) -> Launch:
    fields: dict[str, Any] = {"argv": ("/bin/bash", "-c", script), "cwd": "/", "env": PATH, **changes}
    return Launch(**fields)


def _start(supervisor: Supervisor, launch: Launch, output: Path, passed: tuple[int, ...] = ()) -> SupervisedCommand:
    stdin = os.open(os.devnull, os.O_RDONLY)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        return supervisor.run(launch, stdin, written, written, passed_fds=passed)
    finally:
        os.close(stdin)
        os.close(written)


def _run(supervisor: Supervisor, launch: Launch, folder: Path, passed: tuple[int, ...] = ()) -> tuple[ExitStatus, str]:
    output = folder / "output"

    async def main() -> ExitStatus:
        return await asyncio.wait_for(_start(supervisor, launch, output, passed).wait(), 30)

    return asyncio.run(main()), output.read_text()


CONFINED: dict[str, Any] = {"rlimits": ((resource.RLIMIT_NOFILE, 256),)}


@pytest.mark.parametrize("how", [{}, CONFINED], ids=["spawned", "forked"])
@pytest.mark.spec("B4", "N2")
def test_a_command_gets_what_the_launch_says_and_nothing_else(
    supervisor: Supervisor, tmp_path: Path, how: dict[str, Any]
) -> None:
    os.environ["LEAKED"] = "yes"
    secret = os.open("/etc/hostname", os.O_RDONLY)
    os.set_inheritable(secret, True)
    sid = "sed 's/.*) //' /proc/$$/stat | cut -d' ' -f4"
    script = f"pwd; env | sort; readlink /proc/$$/fd/0; ls /proc/$$/fd; {sid}; echo $$"
    try:
        ended, text = _run(supervisor, _launch(script, cwd=str(tmp_path), env={**PATH, "GIVEN": "1"}, **how), tmp_path)
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


@pytest.mark.parametrize("how", [{}, CONFINED], ids=["spawned", "forked"])
@pytest.mark.spec("B4")
def test_the_end_is_told_as_it_was(supervisor: Supervisor, tmp_path: Path, how: dict[str, Any]) -> None:
    assert _run(supervisor, _launch("exit 7", **how), tmp_path)[0] == ExitStatus(7, None)
    assert _run(supervisor, _launch("kill -SEGV $$", **how), tmp_path)[0] == ExitStatus(None, signal.SIGSEGV)
    assert _run(supervisor, _launch("yes | head -1; echo ${PIPESTATUS[0]}", **how), tmp_path)[1] == "y\n141\n"


@pytest.mark.parametrize("how", [{}, CONFINED], ids=["spawned", "forked"])
@pytest.mark.parametrize("wrong", [{"argv": ("/nowhere/program",)}, {"cwd": "/nowhere"}, {"argv": ("/etc/hostname",)}])
@pytest.mark.spec("B4")
def test_what_cannot_be_started_is_said_and_the_worker_stays(
    supervisor: Supervisor, tmp_path: Path, how: dict[str, Any], wrong: dict[str, Any]
) -> None:
    with pytest.raises(CommandNotStarted):
        _run(supervisor, _launch("true", **{**how, **wrong}), tmp_path)
    assert _run(supervisor, _launch("echo fine", **how), tmp_path)[1] == "fine\n"


@pytest.mark.spec("B4", "X3")
def test_what_is_left_of_a_namespace_is_dead_when_the_end_is_told(supervisor: Supervisor, tmp_path: Path) -> None:
    """Its first process ends by itself, unless the command got it to do something else."""
    script = "setsid sleep 300 >/dev/null 2>&1 & echo $!"
    ended, pid = _run(supervisor, _launch(script, pid_namespace=True), tmp_path)
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
def test_limits_and_locks_hold_from_the_first_instruction(supervisor: Supervisor, tmp_path: Path) -> None:
    limited = _launch("ulimit -n; ulimit -f", rlimits=((resource.RLIMIT_NOFILE, 99), (resource.RLIMIT_FSIZE, 1024)))
    assert _run(supervisor, limited, tmp_path)[1] == "99\n1\n"
    if privileges.landlock_abi():
        read = privileges.EXECUTE | privileges.READ_FILE | privileges.READ_DIR
        locked = _launch(f"echo x > {tmp_path}/planted; grep Seccomp: /proc/self/status", landlock=(("/", read),))
        text = _run(supervisor, locked, tmp_path)[1]
        assert "Permission denied" in text
        assert not (tmp_path / "planted").exists()


@pytest.mark.spec("N2")
def test_a_lock_that_cannot_be_put_on_keeps_the_command_from_starting(supervisor: Supervisor, tmp_path: Path) -> None:
    with pytest.raises(CommandNotStarted):
        _run(supervisor, _launch("true", seccomp=b"not a filter at all"), tmp_path)


@pytest.mark.spec("N2", "B4")
def test_files_are_handed_over_by_number_and_the_command_s_own_words_are_left_alone(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"passed")
    os.close(writing)
    script = 'cat "/proc/self/fd/$0"; cat <&5; echo " $2"'
    argv = ("/bin/bash", "-c", script, "{fd0}", "--", "{fd1}")
    launch = Launch(argv=argv, cwd="/", env=PATH, files=(b"first ", b"second "))
    try:
        _, text = _run(supervisor, launch, tmp_path, (reading,))
    finally:
        os.close(reading)
    assert text == "first passed {fd1}\n"


@pytest.mark.spec("B4")
def test_a_huge_request_arrives_whole(supervisor: Supervisor, tmp_path: Path) -> None:
    words = tuple("x" * 100_000 for _ in range(15))
    launch = Launch(argv=("/bin/bash", "-c", "echo $#; echo ${#9}", *words), cwd="/", env=PATH)
    assert _run(supervisor, launch, tmp_path)[1] == "14\n100000\n"


@pytest.mark.spec("B4")
def test_workers_are_used_again_and_commands_run_together(supervisor: Supervisor, tmp_path: Path) -> None:
    async def main() -> list[str]:
        for _ in range(3):
            jobs = [_start(supervisor, _launch("echo $PPID"), tmp_path / str(number)) for number in range(3)]
            for job in jobs:
                assert (await asyncio.wait_for(job.wait(), 30)).code == 0
        return [(tmp_path / str(number)).read_text() for number in range(3)]

    assert len(set(asyncio.run(main()))) == 3
    before = {(tmp_path / str(number)).read_text() for number in range(3)}
    _, again = _run(supervisor, _launch("echo $PPID"), tmp_path)
    assert again in before


@pytest.mark.spec("X3")
def test_a_dead_warden_is_started_again(supervisor: Supervisor, tmp_path: Path) -> None:
    _, worker = _run(supervisor, _launch("echo $PPID"), tmp_path)
    main = Path(f"/proc/{int(worker)}/stat").read_text().rpartition(")")[2].split()[1]
    for pid in (int(main), int(worker)):
        os.kill(pid, signal.SIGKILL)
    for attempt in range(3):
        try:
            assert _run(supervisor, _launch("echo back"), tmp_path)[1] == "back\n"
            break
        except SupervisorLost:
            assert attempt < 2


@pytest.mark.spec("B4", "X3")
@pytest.mark.parametrize("idle", [False, True], ids=["a new worker", "an idle worker"])
def test_a_command_that_is_over_before_its_worker_is_known_to_have_it_ran_once(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: bool
) -> None:
    if idle:
        _run(supervisor, _launch("true"), tmp_path)
    hand_over = socket.send_fds

    def slowly(worker: socket.socket, message: list[memoryview], fds: list[int]) -> int:
        sent = hand_over(worker, message, fds)
        if message != [b"w"]:
            ended = select.poll()
            ended.register(worker, 0)
            assert ended.poll(30_000), "the worker of a command in the background ends with it"
        return sent

    monkeypatch.setattr(client.socket, "send_fds", slowly)

    async def main() -> ExitStatus:
        stdin = os.open(os.devnull, os.O_RDONLY)
        launch = _launch(f"echo ran >>{tmp_path}/runs; exit 3")
        try:
            job = supervisor.run(launch, stdin, log=LogTarget(base=str(tmp_path / "log"), limit=1000))
        finally:
            os.close(stdin)
        return await asyncio.wait_for(job.wait(), 30)

    assert asyncio.run(main()) == ExitStatus(3, None)
    assert (tmp_path / "runs").read_text() == "ran\n"


@pytest.mark.spec("B4", "X3")
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_warden_that_dies_before_it_takes_a_command_is_started_again_once(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    hand_over, killed = socket.send_fds, list[int]()

    def deadly(worker: socket.socket, message: list[memoryview], fds: list[int]) -> int:
        sent = hand_over(worker, message, fds)
        if message == [b"w"] and len(killed) < deaths:
            killed.append(supervisor._pids[-1])  # pyright: ignore[reportPrivateUsage]
            os.kill(killed[-1], signal.SIGKILL)
            os.waitid(os.P_PID, killed[-1], os.WEXITED | os.WNOWAIT)
        return sent

    monkeypatch.setattr(client.socket, "send_fds", deadly)
    if deaths == 1:
        assert _run(supervisor, _launch("echo back"), tmp_path)[1] == "back\n"
    else:
        with pytest.raises(SandboxRefused, match="exiting before it accepts a command"):
            _run(supervisor, _launch("echo back"), tmp_path)
    assert len(killed) == deaths


@pytest.mark.spec("B4", "N6")
def test_without_an_interpreter_commands_are_refused_in_a_sentence(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxRefused, match="cannot be started: /nowhere/python"):
        _run(supervisor, _launch("true"), tmp_path)


@pytest.mark.spec("X3")
def test_a_fork_of_the_runtime_does_not_keep_its_commands_alive(supervisor: Supervisor, tmp_path: Path) -> None:
    reading, writing = os.pipe()

    async def main() -> None:
        job = _start(supervisor, _launch("echo $$ > pid; exec sleep 100", cwd=str(tmp_path)), tmp_path / "out")
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        fd = os.pidfd_open(int((tmp_path / "pid").read_text()))
        supervisor.close()
        gone = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(fd, lambda: gone.done() or gone.set_result(None))
        await asyncio.wait_for(gone, 20)
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        os.write(writing, b".")
        os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
        assert job.finished

    try:
        asyncio.run(asyncio.wait_for(main(), 60))
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.spec("B4", "X3")
def test_a_fork_of_the_runtime_does_not_keep_it_from_hearing_of_an_end(supervisor: Supervisor, tmp_path: Path) -> None:
    async def main() -> ExitStatus:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        waiting = asyncio.create_task(_start(supervisor, _launch(f"read < {fifo}; exit 4"), tmp_path / "out").wait())
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
        await asyncio.to_thread(fifo.write_text, "go\n")
        return await asyncio.wait_for(waiting, 10)

    assert asyncio.run(main()) == ExitStatus(4, None)


@pytest.mark.spec("X3")
def test_a_warden_that_was_stopped_does_not_keep_the_runtime_from_ending(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_CLOSE_SECONDS", 0.1)
    _, worker = _run(supervisor, _launch("echo $PPID"), tmp_path)
    main = int(Path(f"/proc/{int(worker)}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(main, signal.SIGSTOP)
    closing = threading.Thread(target=supervisor.close, daemon=True)
    closing.start()
    closing.join(10)
    stuck = closing.is_alive()
    if stuck:
        os.kill(main, signal.SIGCONT)
    assert not stuck
    with pytest.raises(ChildProcessError):
        os.waitpid(main, os.WNOHANG)
