"""How a request becomes a running command, and how all that is below a process is found, killed and reaped.

Standard library only, and little of it: the workers of the supervisor load this, and the parent of a single command.
"""

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import time

from holdfast.sandbox import privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ = 9, 13, 15, 25
FIRST_FD, HIGH_FD = 3, 300
KILL_SECONDS = 3.0
"""Seconds after which processes that do not die are given up."""

_libc = ctypes.CDLL(None)
_signal, _prctl = _libc.signal, getattr(_libc, "prctl", None)  # found here once, not in every child


def start(request: dict[str, Any], fds: list[int]) -> int:
    """The pid of the new process. Raises `OSError` if it could not be started as asked."""
    if request["confined"] or len(fds) > 3:
        return _fork(request, fds)
    os.chdir(request["cwd"])
    try:
        return os.posix_spawn(
            request["argv"][0],
            request["argv"],
            request["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
            setsid=True,
            setsigmask=(),
            setsigdef=(SIGPIPE, SIGXFSZ),
        )
    except NotImplementedError:
        return _fork(request, fds)
    finally:
        os.chdir("/")


def main(told: str) -> None:
    """The parent of a single command, which it confines as an open file says and ends with all that it started."""
    import signal

    with os.fdopen(int(told), "rb") as file:
        request, fds = marshal.load(file)
    become_subreaper()
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0)
    stopping = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, (*stopping, signal.SIGCHLD))
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            high = _duplicate_high(fds)
            for fd in fds:
                os.close(fd)  # the command gets no other than those it expects
            _become_command(request, high, FIRST_FD)
        except BaseException as error:
            os.write(2, f"holdfast: the command could not be started: {error}\n".encode())
        finally:
            os._exit(127)
    ended: dict[int, int] = {}
    while child not in ended:
        got = signal.sigwait((*stopping, signal.SIGCHLD))
        ended.update(reap())
        if got in stopping:
            break
    _kill_all(ended)
    code = os.waitstatus_to_exitcode(ended.get(child, SIGKILL))
    os._exit(code if code >= 0 else 128 - code)


def _kill_all(ended: dict[int, int]) -> None:
    """Kill until nothing is left. Never groups: the command may have joined one of the session it was started in."""
    while True:
        for pid, _group in descendants(os.getpid()):
            send_signal(pid, SIGKILL)
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        ended.setdefault(pid, status)


def _fork(request: dict[str, Any], fds: list[int]) -> int:
    __import__("resource")  # loaded once here, not in every child
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            if _prctl is not None:
                _prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
            _become_command(request, _duplicate_high(fds), 0)
        except OSError as error:
            os.write(writing, marshal.dumps((error.errno or 0, str(error))))
        finally:
            os._exit(127)
    os.close(writing)
    failure = os.read(reading, 1 << 16)  # ends when the program runs
    os.close(reading)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(*marshal.loads(failure))
    return pid


def _duplicate_high(fds: list[int]) -> list[int]:
    """The same open files under numbers that none of them is moved to."""
    return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD) for fd in fds]


def _become_command(request: dict[str, Any], fds: list[int], first: int) -> None:
    """Become the program, with these open files from number `first` on."""
    for number in (SIGPIPE, SIGXFSZ):
        _signal(number, None)
    os.chdir(request["cwd"])
    for number, fd in enumerate(fds, first):
        os.dup2(fd, number, inheritable=True)
    privileges.join_groups(request["cgroups"])
    privileges.apply_rlimits(request["rlimits"])
    if request["landlock"] is not None:
        privileges.apply_landlock(request["landlock"], request["landlock_net"])
    if request["seccomp"]:
        privileges.apply_seccomp(request["seccomp"])
    os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606 - this is what it is for


def remove_groups(folders: list[str], *, patient: bool) -> list[str]:
    """Remove control groups; those that are still busy, which they are for a moment after their last process."""
    left: list[str] = []
    for folder in folders:
        for _ in range(50 if patient else 1):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError:
                if patient:
                    time.sleep(0.002)
            else:
                break
        else:
            left.append(folder)
    return left


def kill_descendants() -> int:
    """Kill and reap all that is left below this process; how many did not die."""
    give_up = time.monotonic() + KILL_SECONDS
    pause = 0.0005
    while _has_children():
        for pid, group in descendants(os.getpid()):
            kill_group(pid, group)
        if time.monotonic() > give_up:
            return len(descendants(os.getpid()))
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return 0


def kill_idle_inits() -> bool:
    """If all that is left below this process is the first process of a namespace, with nothing below it: kill it.

    For a command that ended by itself. That process ends by itself too, and taking its namespaces down is slow, so
    nobody waits; but whatever it does instead, no instruction of it runs after the command's end was told.
    """
    inits = _children(os.getpid())
    if inits is None or any(_children(pid) != [] for pid in inits):
        return False
    for pid in inits:
        send_signal(pid, SIGKILL)
    return True


def _children(pid: int) -> list[int] | None:
    """Of a process with one thread; None where the kernel does not tell."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return None if os.path.exists(f"/proc/{pid}") else []


def _has_children() -> bool:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def reap() -> list[tuple[int, int]]:
    """Every child that has ended, with its status."""
    found: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found.append((pid, status))


def descendants(root: int) -> list[tuple[int, int]]:
    """Every process below `root`, with its group."""
    table = processes()
    below: list[tuple[int, int]] = []
    level = {root}
    while level:
        found = [(pid, group) for pid, parent, group in table if parent in level]
        below += found
        level = {pid for pid, _ in found}
    return below


def processes() -> list[tuple[int, int, int]]:
    """(pid, parent, group) of every process that can be seen."""
    found: list[tuple[int, int, int]] = []
    for name in os.listdir("/proc") if os.path.exists("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
                found.append((int(name), int(fields[1]), int(fields[2])))
            except (OSError, IndexError, ValueError):
                continue
    return found


def kill_group(pid: int, group: int) -> None:
    """A group dies as one, so that nothing in it can fork in between. Groups of the worker's own are never meant."""
    if group > 1 and group != os.getpgrp():
        send_signal(-group, SIGKILL)
    send_signal(pid, SIGKILL)


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def become_subreaper() -> None:
    if _prctl is not None:
        _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
