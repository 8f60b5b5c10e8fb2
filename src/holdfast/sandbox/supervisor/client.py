"""The runtime's side of the supervisor: starts it with the first command, and hands commands to its workers over
sockets."""

from __future__ import annotations

import asyncio
import contextlib
import marshal
import os
import select
import signal
import socket
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.contract.errors import SandboxRefused
from holdfast.helper_process import spawn
from holdfast.privileges import memory_file
from holdfast.sandbox.launch import FIRST_FD, Launch, isolated_module_argv

MAX_IDLE: Final = 4
_CLOSE_SECONDS: Final = 2.0
"""Seconds a supervisor has to exit on its own."""
_supervisors: Final[weakref.WeakSet[Supervisor]] = weakref.WeakSet()


class SupervisorLost(Exception):
    """The worker died: whether its command ended is unknown."""


class CommandNotStarted(Exception):
    """The command could not be started; nothing ran."""

    def __init__(self, number: int, reason: str) -> None:
        self.errno = number
        super().__init__(reason)


class ExitStatus(Struct, frozen=True):
    """How a command ended. All its processes are gone, except survivors."""

    code: int | None
    signal: int | None
    survivors: int = 0
    """Number of processes that could not be killed."""

    @classmethod
    def from_wait_status(cls, status: int, survivors: int = 0) -> ExitStatus:
        if os.WIFSIGNALED(status):
            return cls(None, os.WTERMSIG(status), survivors)
        return cls(os.waitstatus_to_exitcode(status), None, survivors)


class LogTarget(Struct, frozen=True, kw_only=True):
    """Where a worker writes the output of a background command."""

    base: str
    """Path prefix of the log files."""
    limit: int
    """Bytes kept."""


class Supervisor:
    """Starts commands for one runtime. Closing it or dropping it ends everything it started, except detached
    commands."""

    def __init__(self) -> None:
        self._sockets: set[socket.socket] = set()
        self._idle: list[socket.socket] = []
        self._control: socket.socket | None = None
        self._pids: list[int] = []
        self._commands: weakref.WeakSet[SupervisedCommand] = weakref.WeakSet()
        self._finalizer = weakref.finalize(self, _close_all, self._sockets, self._pids)
        _supervisors.add(self)

    def run(
        self,
        launch: Launch,
        stdin: int,
        stdout: int = -1,
        stderr: int = -1,
        *,
        passed_fds: Sequence[int] = (),
        log: LogTarget | None = None,
        detached: bool = False,
        wait_for_namespaces: bool = False,
    ) -> SupervisedCommand:
        """Start a command in a worker. With a log, the worker keeps the output, and `stdout` and `stderr` are not used.

        The command gets the launch's files from descriptor 3 on, then its open files, then `passed_fds`; the open files
        are closed in this process. `wait_for_namespaces`: report the end only after its namespaces are gone, too.
        """
        contents = [memory_file(content) for content in launch.files]
        try:
            request = _request(launch, log, detached=detached, wait_for_namespaces=wait_for_namespaces)
            streams = [stdin] if log is not None else [stdin, stdout, stderr]
            fds = [*streams, *contents, *launch.open_files.fds, *passed_fds]
            job = SupervisedCommand(self, self._send(request, fds), once=log is not None)
        finally:
            for fd in contents:
                os.close(fd)
            launch.open_files.close()
        self._commands.add(job)
        return job

    def _send(self, request: bytes, fds: list[int]) -> socket.socket:
        while self._idle:
            worker = self._idle.pop()
            try:
                _send(worker, request, fds)
            except OSError:
                self.close_worker(worker)
            else:
                return worker
        # A fresh worker can still fail if the supervisor itself was killed; the second attempt starts a new one.
        for _ in range(2):
            worker = self._new_worker()
            try:
                _send(worker, request, fds)
            except (BrokenPipeError, ConnectionResetError):
                self.close_worker(worker)
            else:
                return worker
        raise SandboxRefused("The supervisor process keeps exiting before it accepts a command. Nothing was run.")

    def _new_worker(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._sockets.add(ours)
        try:
            for attempt in (1, 2):
                if self._control is None:
                    self._start()
                assert self._control is not None
                try:
                    socket.send_fds(self._control, [b"w"], [theirs.fileno()])
                except OSError:
                    self.close_worker(self._control)
                    self._control = None
                    if attempt == 2:
                        raise SandboxRefused("The supervisor process cannot be started.") from None
                else:
                    break
        finally:
            theirs.close()
        return ours

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._sockets.add(ours)
        argv = isolated_module_argv("holdfast.sandbox.supervisor.server", str(FIRST_FD))
        try:
            null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
            actions = [(os.POSIX_SPAWN_DUP2, null, number) for number in (0, 1, 2)]
            actions.append((os.POSIX_SPAWN_DUP2, theirs.fileno(), FIRST_FD))
            try:
                self._pids.append(spawn(argv, {"LC_ALL": "C.UTF-8"}, actions))
            finally:
                os.close(null)
                theirs.close()
        except OSError as error:
            self.close_worker(ours)
            raise SandboxRefused(f"The supervisor process cannot be started: {argv[0]}: {error.strerror}.") from None
        self._control = ours

    def release(self, worker: socket.socket) -> None:
        """Reuse the worker: its command has ended."""
        if len(self._idle) < MAX_IDLE and worker in self._sockets:
            self._idle.append(worker)
        else:
            self.close_worker(worker)

    def close_worker(self, worker: socket.socket) -> None:
        """Disconnect the worker, which kills what it still runs unless that is detached."""
        self._sockets.discard(worker)
        worker.close()

    def close_after_fork(self) -> None:
        """Close this copy in a forked child: the processes and the event loop belong to the parent."""
        self._pids.clear()
        for job in list(self._commands):
            job.forget_loop()
        self.close()

    def close(self) -> None:
        for job in list(self._commands):
            if not job.finished:
                job.abandon()
        self._idle.clear()
        self._control = None
        _close_all(self._sockets, self._pids)


class SupervisedCommand:
    """A command that a worker runs: `wait` for it, or `abandon` it."""

    def __init__(self, supervisor: Supervisor, worker: socket.socket, *, once: bool) -> None:
        self._supervisor = supervisor
        self._worker = worker
        self._once = once
        self._unread = b""
        self._loop: asyncio.AbstractEventLoop | None = None
        self.exit: ExitStatus | None = None
        self.finished = False
        """The worker was released or closed."""

    def stop(self, grace: float = 0.0) -> None:
        """Stop the command: SIGTERM, then SIGKILL for all its processes after `grace` seconds."""
        with contextlib.suppress(OSError):
            _send(self._worker, marshal.dumps({"kill": grace}), ())

    def read(self) -> tuple[Any, ...] | None:
        """Return the worker's next message, or None if there is none yet. Raises `SupervisorLost` or
        `CommandNotStarted`."""
        size = int.from_bytes(self._unread[:4], "little")
        if len(self._unread) < 4 or len(self._unread) < 4 + size:
            try:
                data = self._worker.recv(4096, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if not data:
                self.abandon()
                raise SupervisorLost("The supervisor's worker was killed, so whether the command ended is not known.")
            self._unread += data
            return self.read()
        message: tuple[Any, ...] = marshal.loads(self._unread[4 : 4 + size])
        self._unread = self._unread[4 + size :]
        if message[0] == "failed":
            self._release()
            raise CommandNotStarted(message[1], message[2])
        if message[0] == "ended":
            self.exit = ExitStatus.from_wait_status(message[1], message[2])
            if self.exit.survivors or self._once:
                self.abandon()
            else:
                self._release()
        return message

    def _release(self) -> None:
        self.finished = True
        self.stop_listening()
        self._supervisor.release(self._worker)

    async def message(self) -> tuple[Any, ...]:
        """Wait for the next message."""
        loop = asyncio.get_running_loop()
        while (found := self.read()) is None:
            ready = loop.create_future()
            loop.add_reader(self._worker, _wake, ready)
            self._loop = loop
            try:
                await ready
            finally:
                self.stop_listening()
        return found

    def on_message(self, callback: Callable[[], None]) -> None:
        """Call a function when `read` may return a message."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._worker, callback)

    async def wait(self) -> ExitStatus:
        """Wait until every process of the command has ended."""
        while self.exit is None:
            await self.message()
        return self.exit

    def wait_blocking(self, seconds: float) -> None:
        """The blocking version of `wait`, for a thread, after `stop`."""
        try:
            poll = select.poll()
            poll.register(self._worker, select.POLLIN)
            while not self.finished and poll.poll(seconds * 1000):
                self.read()
        except (OSError, ValueError, SupervisorLost, CommandNotStarted):
            pass
        if not self.finished:
            self.abandon()

    def abandon(self) -> None:
        """Disconnect the worker, which kills what it still runs and exits."""
        self.finished = True
        self.stop_listening()
        self._supervisor.close_worker(self._worker)

    def stop_listening(self) -> None:
        """Remove the reader from the event loop."""
        if self._loop is not None:
            if self._worker.fileno() >= 0:
                with contextlib.suppress(RuntimeError):  # the loop may be closed already
                    self._loop.remove_reader(self._worker)
            self._loop = None

    def forget_loop(self) -> None:
        """Forget the event loop in a forked child: its epoll descriptor is shared, so removing a reader would also
        remove the parent's."""
        self._loop = None


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _request(launch: Launch, log: LogTarget | None, *, detached: bool, wait_for_namespaces: bool) -> bytes:
    confined = bool(launch.rlimits or launch.cgroups or launch.landlock is not None or launch.seccomp)
    logged = None if log is None else {"base": log.base, "limit": log.limit}
    more = {"confined": confined, "log": logged, "detached": detached, "wait_for_namespaces": wait_for_namespaces}
    return marshal.dumps({**launch.request(), **more})


def _send(worker: socket.socket, request: bytes, fds: Sequence[int]) -> None:
    """Send a message. Raises `OSError` only if the worker did not receive all of it: nothing runs then, and another
    worker can be tried."""
    message = memoryview(len(request).to_bytes(4, "little") + request)
    sent = socket.send_fds(worker, [message], list(fds)) if fds else 0
    if sent < len(message):  # no empty send: the worker may have run the command and exited already
        worker.sendall(message[sent:])


def _close_all(sockets: set[socket.socket], pids: list[int]) -> None:
    while sockets:
        sockets.pop().close()
    while pids:
        with contextlib.suppress(ChildProcessError):
            _reap(pids.pop())


def _reap(pid: int) -> None:
    """Wait for the supervisor, which exits when its socket closes; kill it if it is stopped or stuck."""
    deadline = time.monotonic() + _CLOSE_SECONDS
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.001)


def _forget_in_child() -> None:
    """A forked child must not hold the sockets open: commands would outlive the runtime."""
    for supervisor in list(_supervisors):
        supervisor.close_after_fork()


os.register_at_fork(after_in_child=_forget_in_child)
