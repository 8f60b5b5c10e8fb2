"""The supervisor process: starts commands, stops them, and leaves none behind. Standard library only, for a fast start.

The supervisor forks a worker for every socket it receives. A worker runs one command after another and, as a subreaper,
kills and reaps everything they leave behind: setsid and double forks do not escape it. When the runtime closes a
socket, its worker kills what it runs.
"""

from __future__ import annotations

import _socket  # not `socket`: building its enums takes longer than loading all of this
import gc
import marshal
import os
import select
import sys
import time

from holdfast.sandbox.supervisor import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_FDS = 253
LOG_BLOCK = 65_536
REAP_INTERVAL_MS = 1000
"""How often a worker reaps orphans while its command runs."""


def main(control: str) -> None:
    """Fork a worker for every socket that arrives; exit when the runtime closes the control socket."""
    control_fd = int(control)
    process.become_subreaper()
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.chdir("/")  # do not keep the project folder busy
    _close_inherited(control_fd)
    connection = _socket.socket(fileno=control_fd)
    workers: set[int] = set()
    poll = select.poll()
    poll.register(control_fd, select.POLLIN)
    while True:
        if poll.poll(REAP_INTERVAL_MS):
            received = _receive_fds(connection, 1)
            if received is None:
                os._exit(0)
            for fd in received[1]:
                pid = os.fork()
                if pid == 0:
                    connection.close()
                    _become_worker(fd)
                os.close(fd)
                workers.add(pid)
        _reap_workers(workers)


def _close_inherited(control_fd: int) -> None:
    """Close inheritable descriptors of the runtime, so that commands do not get them."""
    for name in os.listdir("/dev/fd"):
        if int(name) > 2 and int(name) != control_fd:
            try:
                os.close(int(name))
            except OSError:
                pass


def _reap_workers(workers: set[int]) -> None:
    """Reap workers, and kill the processes that a crashed worker left behind: they are now children of this one."""
    killed = False
    while reaped := process.reap():
        for pid, status in reaped:
            killed = killed or (pid in workers and status != 0)
            workers.discard(pid)
    if killed:
        for pid, parent, _ in process.processes():
            if parent == os.getpid() and pid not in workers:
                for below, group in process.descendants(pid):
                    process.kill_group(below, group)
                process.kill_group(pid, 0)


def _become_worker(fd: int) -> None:
    code = 1
    gc.disable()  # no reference cycles here, and a collection in a forked child would copy pages
    gc.freeze()
    try:
        process.become_subreaper()
        CommandWorker(_socket.socket(fileno=fd)).serve()
        code = 0
    finally:
        if code:
            process.kill_descendants()
        os._exit(code)


class CommandWorker:
    """Runs one command after another for the runtime at the other end of a socket."""

    def __init__(self, connection: _socket.socket) -> None:
        self._connection = connection
        self._received = b""
        self._disconnected = False
        """The runtime closed the socket."""
        self._first = 0
        self._pid_namespace = False
        self._stopping = False
        """The command was asked to stop."""
        self._groups: list[str] = []
        """Control groups that were busy when they should have been removed."""

    def serve(self) -> None:
        self._serve()
        process.remove_groups(self._groups, patient=True)

    def _serve(self) -> None:
        while (received := self._read_request(blocking=True)) is not None:
            request, fds = received
            if "argv" not in request:
                continue  # a stop request that came after the command had ended
            self._pid_namespace, self._stopping = request["pid_namespace"], False
            log = RotatingLog(request["log"]) if request["log"] else None
            try:
                streams = [fds[0], log.pipe, log.pipe, *fds[1:]] if log else fds
                self._first = process.start(request, streams)
            except OSError as error:
                if log is not None:
                    log.close()
                self._send("failed", error.errno or 0, str(error))
                continue
            finally:
                for fd in fds:
                    os.close(fd)
            if log is not None:
                self._listen_to_signals()
                log.started()
                self._send("started", self._first, os.getpid())
            status = self._watch(log, bool(request["detached"]))
            wait = self._stopping or request["wait_for_namespaces"]
            left = 0 if self._pid_namespace and not wait and process.kill_idle_inits() else process.kill_descendants()
            if log is not None:
                log.finish(status, alone=self._disconnected)
            self._send("ended", status, left)
            self._groups = process.remove_groups([*self._groups, *request["cgroups"]], patient=False)
            if self._disconnected or left or log is not None:
                return

    def _watch(self, log: RotatingLog | None, detached: bool) -> int:
        """Wait for the first process and return its wait status; meanwhile handle stop requests and pump the log."""
        poll = select.poll()
        if not self._disconnected:
            poll.register(self._connection.fileno(), select.POLLIN)
        # A pidfd becomes readable when the process exits; without it (old kernels), poll every 10 ms.
        pidfd = process.open_pidfd(self._first)
        if pidfd >= 0:
            poll.register(pidfd, select.POLLIN)
        if log is not None:
            poll.register(log.fd, select.POLLIN)
        deadline = None
        while True:
            for pid, status in process.reap():
                if pid == self._first:
                    if pidfd >= 0:
                        os.close(pidfd)
                    return status
            pause = REAP_INTERVAL_MS if pidfd >= 0 else 10
            if deadline is not None:
                pause = min(pause, max(0, int((deadline - time.monotonic()) * 1000)))
            for fd, _ in poll.poll(pause):
                if log is not None and fd == log.fd:
                    if log.pump() is False:
                        poll.unregister(fd)
                elif fd == self._connection.fileno():
                    grace = self._read_stop_request()
                    if self._disconnected:
                        poll.unregister(fd)
                        if detached:
                            continue
                    if grace is not None or self._disconnected:
                        deadline = self._stop(grace or 0.0)
            if deadline is not None and time.monotonic() >= deadline:
                deadline = time.monotonic() + 1
                self._kill_command()

    def _read_stop_request(self) -> float | None:
        received = self._read_request(blocking=False)
        return None if received is None else received[0]["kill"]

    def _stop(self, grace: float) -> float:
        """Send SIGTERM if there is a grace period; return the time for SIGKILL.

        A PID namespace is killed at once: a SIGTERM to its outer process would end it just as abruptly.
        """
        self._stopping = True
        if grace and not self._pid_namespace:
            self.signal(process.SIGTERM)
            return time.monotonic() + grace
        return time.monotonic()

    def _kill_command(self) -> None:
        process.kill_group(self._first, self._first)
        if not self._pid_namespace:
            for pid, group in process.descendants(os.getpid()):
                process.kill_group(pid, group)

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the command, except the outer process of a PID namespace, whose death would
        kill the others."""
        for pid, _ in process.descendants(os.getpid()):
            if pid != self._first or not self._pid_namespace:
                process.send_signal(pid, number)

    def _listen_to_signals(self) -> None:
        """Handle signals: a detached command that outlives the runtime is controlled by signals to its worker."""
        import signal  # only background commands need it

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, frame: self.signal(number))
        signal.signal(signal.SIGUSR1, lambda number, frame: self._kill_command())

    def _read_request(self, *, blocking: bool) -> tuple[dict[str, Any], list[int]] | None:
        """Return the next message and its descriptors; None if the runtime is gone, or if no complete message is there
        and `blocking` is false."""
        fds: list[int] = []
        while True:
            size = int.from_bytes(self._received[:4], "little")
            if len(self._received) >= 4 and len(self._received) >= 4 + size:
                message = marshal.loads(self._received[4 : 4 + size])
                self._received = self._received[4 + size :]
                return message, fds
            received = _receive_fds(self._connection, 1 << 16)
            if received is None:
                self._disconnected = True
                return None
            self._received += received[0]
            fds += received[1]
            if not blocking and len(self._received) < 4:
                return None

    def _send(self, *message: Any) -> None:
        if not self._disconnected:
            try:
                data = marshal.dumps(message)
                self._connection.sendall(len(data).to_bytes(4, "little") + data)
            except OSError:
                pass  # the runtime is gone, but its last request may still be unread


def _receive_fds(connection: _socket.socket, size: int) -> tuple[bytes, list[int]] | None:
    """Receive bytes and descriptors; None at the end of the stream."""
    space = _socket.CMSG_SPACE(MAX_FDS * 4)
    try:
        data, ancillary, _, _ = connection.recvmsg(size, space, getattr(_socket, "MSG_CMSG_CLOEXEC", 0))
    except OSError:
        return None
    if not data:
        return None
    fds: list[int] = []
    for level, kind, payload in ancillary:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            fds += [int.from_bytes(payload[at : at + 4], sys.byteorder) for at in range(0, len(payload) - 3, 4)]
    return data, fds


class RotatingLog:
    """The output of a background command, in two rotating files."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.fd, self.pipe = os.pipe()
        os.set_blocking(self.fd, False)
        self._base, self._half = wanted["base"], max(1, wanted["limit"] // 2)
        self._file = -1
        self._remaining = self._lines = 0
        self._files: list[str] = []

    def started(self) -> None:
        os.close(self.pipe)
        self._next_file()

    def close(self) -> None:
        """Close the pipe if the command was not started."""
        os.close(self.pipe)
        os.close(self.fd)

    def pump(self) -> bool | None:
        """Copy one block of output to the file. Returns False at the end, None if there is nothing to read now."""
        try:
            block = os.read(self.fd, LOG_BLOCK)
        except BlockingIOError:
            return None
        if not block:
            return False
        if self._remaining < len(block):
            end = block.rfind(b"\n") + 1  # rotate at a line boundary
            self._write(block[:end])
            self._next_file()
            block = block[end:]
        self._write(block)
        return True

    def _write(self, block: bytes) -> None:
        try:
            os.write(self._file, block)
        except OSError:
            pass  # a full disk must not stop the command
        self._remaining -= len(block)
        self._lines += block.count(b"\n")

    def finish(self, status: int, *, alone: bool) -> None:
        """Copy the rest and write the exit status to a file; `alone`: the runtime was gone by then."""
        while self.pump():
            pass
        new = f"{self._base}.end.new"
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            os.write(fd, f"{status} {time.time():.3f} {int(alone)}".encode())
            os.close(fd)
            os.rename(new, f"{self._base}.end")
        except OSError:
            pass  # the runtime then reports the process as lost

    def _next_file(self) -> None:
        """Start the next file; its name contains the number of lines before it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        name = f"{self._base}.out.{len(self._files)}.{self._lines}"
        self._files.append(name)
        self._remaining = self._half
        try:
            self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            if len(self._files) > 2:
                os.unlink(self._files[-3])
        except OSError:
            pass  # the folder may be gone; the command keeps running
