"""How a worker turns a request into a running command. Standard library only, and little of it."""

from __future__ import annotations

import ctypes
import marshal
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG = 1
SIGKILL, SIGPIPE, SIGXFSZ = 9, 13, 25
HIGH_FD = 300

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


def _fork(request: dict[str, Any], fds: list[int]) -> int:
    import fcntl
    __import__("resource")  # loaded once here, not in every child

    from holdfast.sandbox import confine

    def high(fd: int) -> int:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become_command(request, [high(fd) for fd in fds], confine)
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


def _become_command(request: dict[str, Any], fds: list[int], confine: Any) -> None:
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
