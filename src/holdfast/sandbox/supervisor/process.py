"""Starts a command from a request, and finds, kills and reaps its descendants.

Loaded by the supervisor's workers and by the parent of a single command, so it imports little of the standard library.
"""

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import time

from holdfast import privileges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGKILL, SIGPIPE, SIGTERM, SIGXFSZ = 9, 13, 15, 25
FIRST_FD, HIGH_FD = 3, 300
KILL_SECONDS = 3.0
"""Seconds after which unkillable processes are given up."""

_libc = ctypes.CDLL(None)
_signal, _prctl = _libc.signal, getattr(_libc, "prctl", None)  # resolved once here, not in every child


def start(request: dict[str, Any], fds: list[int]) -> int:
    """Start the command and return its pid. Raises `OSError` if it could not be started as requested."""
    if request["confined"] or len(fds) > 3:
        return _fork(request, fds)
    # posix_spawn is faster than fork and exec, but cannot change directory: the worker does it around the call.
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


def main(request_fd: str) -> None:
    """Run a single command as its parent: read the request from an open file, confine the command, and kill all its
    descendants at the end."""
    import signal  # the workers, which load this module too, do without its enums

    with os.fdopen(int(request_fd), "rb") as file:
        request, fds = marshal.load(file)
    become_subreaper()
    if _prctl is not None:
        # If the runtime dies, stop the command as for any SIGTERM.
        _prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0)
    stopping = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, (*stopping, signal.SIGCHLD))
    child = os.fork()
    if child == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            high = _duplicate_high(fds)
            for fd in fds:
                os.close(fd)  # the command gets only the descriptors it expects
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
    """Kill all descendants. Never a process group: the command may have joined one of the session it was started in."""
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
    # Reports a failed exec: the pipe is close-on-exec, so it just closes if exec succeeds.
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
    failure = os.read(reading, 1 << 16)
    os.close(reading)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(*marshal.loads(failure))
    return pid


def _duplicate_high(fds: list[int]) -> list[int]:
    """Duplicate the descriptors to high numbers, so that dup2 to their final numbers cannot overwrite one of them."""
    return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD) for fd in fds]


def _become_command(request: dict[str, Any], fds: list[int], first: int) -> None:
    """Replace this process by the program, with the descriptors from number `first` on."""
    # Python ignores these signals, and ignored signals survive exec: restore the defaults.
    for number in (SIGPIPE, SIGXFSZ):
        _signal(number, None)
    os.chdir(request["cwd"])
    for number, fd in enumerate(fds, first):
        os.dup2(fd, number, inheritable=True)
    # Landlock and seccomp come last: they would deny the calls before them.
    privileges.join_groups(request["cgroups"])
    privileges.apply_rlimits(request["rlimits"])
    if request["landlock"] is not None:
        privileges.apply_landlock(request["landlock"], request["landlock_net"])
    if request["seccomp"]:
        privileges.apply_seccomp(request["seccomp"])
    os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606 - this is what it is for


def remove_groups(folders: list[str], *, patient: bool) -> list[str]:
    """Remove control groups and return those that are still busy, as they are for a moment after their last process."""
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
    """Kill and reap all descendants of this process; return how many did not die."""
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
    """Kill the init processes of PID namespaces if they are the only descendants left and have no children.

    For a command that ended by itself. Its init exits on its own, but tearing down the namespaces is slow, so it
    is not awaited. The kill makes sure that it runs no instruction after the command's end was reported.
    """
    inits = _children(os.getpid())
    if inits is None or any(_children(pid) != [] for pid in inits):
        return False
    for pid in inits:
        send_signal(pid, SIGKILL)
    return True


def _children(pid: int) -> list[int] | None:
    """Return the children of a single-threaded process; None if the kernel does not provide the list."""
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
    """Reap all ended children; return (pid, status) pairs."""
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
    """Return (pid, process group) of every descendant of `root`."""
    table = processes()
    below: list[tuple[int, int]] = []
    level = {root}
    while level:
        found = [(pid, group) for pid, parent, group in table if parent in level]
        below += found
        level = {pid for pid, _ in found}
    return below


def processes() -> list[tuple[int, int, int]]:
    """Return (pid, parent, process group) of every visible process."""
    found: list[tuple[int, int, int]] = []
    for name in os.listdir("/proc") if os.path.exists("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()  # the name may contain spaces and brackets
                found.append((int(name), int(fields[1]), int(fields[2])))
            except (OSError, IndexError, ValueError):
                continue
    return found


def kill_group(pid: int, group: int) -> None:
    """Kill a process and its group: the group at once, so that no member can fork in between. Never the worker's own
    group."""
    if group > 1 and group != os.getpgrp():
        send_signal(-group, SIGKILL)
    send_signal(pid, SIGKILL)


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that setsid and double forks do not escape."""
    if _prctl is not None:
        _prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
