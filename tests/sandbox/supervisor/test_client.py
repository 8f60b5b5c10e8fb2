"""The runtime's side of the supervisor: results, restarts, and forks."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.contract.errors import SandboxRefused
from holdfast.sandbox.supervisor import client
from holdfast.sandbox.supervisor.client import (
    CommandNotStarted,
    ExitStatus,
    LogTarget,
    Supervisor,
    SupervisorLost,
)
from tests.sandbox.supervisor.supervised_commands import CONFINED, run, shell_launch, start


@pytest.mark.parametrize("how", [{}, CONFINED], ids=["spawned", "forked"])
@pytest.mark.spec("B4")
def test_exit_codes_and_signals_are_reported(supervisor: Supervisor, tmp_path: Path, how: dict[str, Any]) -> None:
    assert run(supervisor, shell_launch("exit 7", **how), tmp_path)[0] == ExitStatus(7, None)
    assert run(supervisor, shell_launch("kill -SEGV $$", **how), tmp_path)[0] == ExitStatus(None, signal.SIGSEGV)
    assert run(supervisor, shell_launch("yes | head -1; echo ${PIPESTATUS[0]}", **how), tmp_path)[1] == "y\n141\n"


@pytest.mark.parametrize("how", [{}, CONFINED], ids=["spawned", "forked"])
@pytest.mark.parametrize("wrong", [{"argv": ("/nowhere/program",)}, {"cwd": "/nowhere"}, {"argv": ("/etc/hostname",)}])
@pytest.mark.spec("B4")
def test_a_failed_start_is_reported_and_the_worker_survives(
    supervisor: Supervisor, tmp_path: Path, how: dict[str, Any], wrong: dict[str, Any]
) -> None:
    with pytest.raises(CommandNotStarted):
        run(supervisor, shell_launch("true", **{**how, **wrong}), tmp_path)
    assert run(supervisor, shell_launch("echo fine", **how), tmp_path)[1] == "fine\n"


@pytest.mark.spec("X3")
def test_a_dead_supervisor_is_restarted(supervisor: Supervisor, tmp_path: Path) -> None:
    _, worker = run(supervisor, shell_launch("echo $PPID"), tmp_path)
    main = Path(f"/proc/{int(worker)}/stat").read_text().rpartition(")")[2].split()[1]
    for pid in (int(main), int(worker)):
        os.kill(pid, signal.SIGKILL)
    for attempt in range(3):
        try:
            assert run(supervisor, shell_launch("echo back"), tmp_path)[1] == "back\n"
            break
        except SupervisorLost:
            assert attempt < 2


@pytest.mark.spec("B4", "X3")
@pytest.mark.parametrize("idle", [False, True], ids=["a new worker", "an idle worker"])
def test_a_command_that_ends_before_the_send_returns_runs_once(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: bool
) -> None:
    if idle:
        run(supervisor, shell_launch("true"), tmp_path)
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
        launch = shell_launch(f"echo ran >>{tmp_path}/runs; exit 3")
        try:
            job = supervisor.run(launch, stdin, log=LogTarget(base=str(tmp_path / "log"), limit=1000))
        finally:
            os.close(stdin)
        return await asyncio.wait_for(job.wait(), 30)

    assert asyncio.run(main()) == ExitStatus(3, None)
    assert (tmp_path / "runs").read_text() == "ran\n"


@pytest.mark.spec("B4", "X3")
@pytest.mark.parametrize("deaths", [1, 2])
def test_a_supervisor_that_dies_before_it_accepts_a_command_is_restarted_once(
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
        assert run(supervisor, shell_launch("echo back"), tmp_path)[1] == "back\n"
    else:
        with pytest.raises(SandboxRefused, match="exiting before it accepts a command"):
            run(supervisor, shell_launch("echo back"), tmp_path)
    assert len(killed) == deaths


@pytest.mark.spec("B4", "N6")
def test_a_missing_interpreter_is_reported_in_a_sentence(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxRefused, match="cannot be started: /nowhere/python"):
        run(supervisor, shell_launch("true"), tmp_path)


@pytest.mark.spec("X3")
def test_a_fork_of_the_runtime_does_not_keep_its_commands_alive(supervisor: Supervisor, tmp_path: Path) -> None:
    reading, writing = os.pipe()

    async def main() -> None:
        job = start(supervisor, shell_launch("echo $$ > pid; exec sleep 100", cwd=str(tmp_path)), tmp_path / "out")
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
        await asyncio.wait_for(gone, 50)
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
def test_a_fork_of_the_runtime_does_not_hide_the_end_of_a_command(supervisor: Supervisor, tmp_path: Path) -> None:
    async def main() -> ExitStatus:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        waiting = asyncio.create_task(
            start(supervisor, shell_launch(f"read < {fifo}; exit 4"), tmp_path / "out").wait()
        )
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
        await asyncio.to_thread(fifo.write_text, "go\n")
        return await asyncio.wait_for(waiting, 60)

    assert asyncio.run(main()) == ExitStatus(4, None)


@pytest.mark.spec("X3")
def test_a_stopped_supervisor_does_not_block_the_runtime_from_closing(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_CLOSE_SECONDS", 0.1)
    _, worker = run(supervisor, shell_launch("echo $PPID"), tmp_path)
    main = int(Path(f"/proc/{int(worker)}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(main, signal.SIGSTOP)
    closing = threading.Thread(target=supervisor.close, daemon=True)
    closing.start()
    closing.join(60)
    stuck = closing.is_alive()
    if stuck:
        os.kill(main, signal.SIGCONT)
    assert not stuck
    with pytest.raises(ChildProcessError):
        os.waitpid(main, os.WNOHANG)
