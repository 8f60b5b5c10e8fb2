"""How a worker turns a request into a running command. Standard library only, and little of it."""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import time

from holdfast.sandbox import confine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG = 1
SIGKILL, SIGPIPE, SIGXFSZ = 9, 13, 25
EAGAIN, ENOMEM = 11, 12
HIGH_FD = 300

_libc = ctypes.CDLL(None)
_signal, _prctl = _libc.signal, getattr(_libc, "prctl", None)  # found here once, not in every child


def start(request: dict[str, Any], fds: list[int]) -> int:
    """The pid of the new process. Raises `OSError` if it could not be started as asked."""
    if request["confined"] or len(fds) > 3 or not _can_take_on(request):
        return _fork(request, fds)
    try:
        return _spawn(request, fds)
    except (NotImplementedError, MemoryError):
        return _fork(request, fds)
    except OSError as error:
        if error.errno not in (EAGAIN, ENOMEM):
            raise
        return _fork(request, fds)  # limits so low that this process did not get through with them itself


def _spawn(request: dict[str, Any], fds: list[int]) -> int:
    before = [(kind, resource.getrlimit(kind)) for kind, _ in request["rlimits"]]
    try:
        os.chdir(request["cwd"])
        confine.join_groups(request["cgroups"])
        confine.apply_rlimits(request["rlimits"])
        return os.posix_spawn(
            request["argv"][0],
            request["argv"],
            request["env"],
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)],
            setsid=True,
            setsigmask=(),
            setsigdef=(SIGPIPE, SIGXFSZ),
        )
    finally:
        _put_back(before, request["cgroups"])
        os.chdir("/")


def _can_take_on(request: dict[str, Any]) -> bool:
    """Whether this process can take on a command's limits and groups, spawn it, and put them back. The command has
    them from its first instruction then, as after a fork, which takes much longer. Limits that were given to a
    process from outside, once it runs, would not hold for what it had started until then."""
    if not request["rlimits"] and not request["cgroups"]:
        return True
    if any(kind == resource.RLIMIT_CPU for kind, _ in request["rlimits"]):
        return False  # this process has used some of that already, and would be killed
    if not all(os.access(f"{os.path.dirname(folder)}/tasks", os.W_OK) for folder in request["cgroups"]):
        return False  # in version 2 the group above may be one that no process can be in
    return _may_raise_limits()


def _may_raise_limits() -> bool:
    """Found by doing it: in a user namespace a process has the capability, and may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard + 1))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    except (ValueError, OSError, OverflowError):
        return False
    return True


def _put_back(limits: list[tuple[int, tuple[int, int]]], groups: list[str]) -> None:
    try:
        for kind, before in limits:
            resource.setrlimit(kind, before)
        confine.join_groups(os.path.dirname(folder) for folder in groups)
    except (ValueError, OSError) as error:
        raise RuntimeError("The limits of a command cannot be put down again") from error  # ends this worker


def _fork(request: dict[str, Any], fds: list[int]) -> int:
    import fcntl

    def high(fd: int) -> int:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become_command(request, [high(fd) for fd in fds])
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


def _become_command(request: dict[str, Any], fds: list[int]) -> None:
    os.setsid()
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)
    for number in (SIGPIPE, SIGXFSZ):
        _signal(number, None)
    os.chdir(request["cwd"])
    for number, fd in enumerate(fds):
        os.dup2(fd, number, inheritable=True)
    confine.join_groups(request["cgroups"])
    confine.apply_rlimits(request["rlimits"])
    if request["landlock"] is not None:
        confine.apply_landlock(request["landlock"], request["landlock_net"])
    if request["seccomp"]:
        confine.apply_seccomp(request["seccomp"])
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
