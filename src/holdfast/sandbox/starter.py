"""Started as a script, alone: the parent of one command, which it confines as it was told and ends with all it started.

Standard library only; it reads what to do from the open file whose number is its argument.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.sandbox import confine
else:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - beside it lies `confine`
    import confine

FIRST_FD, HIGH_FD = 3, 300
PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1


def main() -> int:
    told = int(sys.argv[1])
    with os.fdopen(told, "rb") as file:
        launch = json.load(file)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    stopping = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, (*stopping, signal.SIGCHLD))
    child = os.fork()
    if child == 0:
        _become(launch)
    while True:
        got = signal.sigwait((*stopping, signal.SIGCHLD))
        status = _reaped(child)
        if got in stopping or status is not None:
            break
    _end_all()
    status = status if status is not None else _waited(child)
    return _as_code(status)


def _become(launch: dict[str, Any]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(launch["cwd"])
        confine.join_groups(launch["cgroups"])
        argv = confine.filled(launch["argv"], _placed(launch["files"], launch["opened"]))
        confine.apply_rlimits(launch["rlimits"])
        if launch["landlock"] is not None:
            confine.apply_landlock(launch["landlock"], launch["landlock_net"])
        if launch["seccomp"]:
            confine.apply_seccomp(bytes.fromhex(launch["seccomp"]))
        os.execve(argv[0], argv, launch["env"])  # noqa: S606
    except BaseException as error:
        os.write(2, f"holdfast: the command could not be started: {error}\n".encode())
    finally:
        os._exit(127)


def _placed(files: list[str], opened: list[int]) -> list[int]:
    """The open files under the numbers the command expects: contents first. It gets no other."""
    contents = [confine.open_file(bytes.fromhex(content)) for content in files]
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD) for fd in (*contents, *opened)]
    for fd in (*contents, *opened):
        os.close(fd)
    return [os.dup2(fd, FIRST_FD + index) for index, fd in enumerate(high)]


_ended: dict[int, int] = {}


def _reaped(child: int) -> int | None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        _ended[pid] = status
    return _ended.get(child)


def _waited(child: int) -> int:
    return _ended.get(child, 9)


def _end_all() -> None:
    """Kill children until there are none: orphans become ours, so in the end every descendant is a child."""
    while True:
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        _ended.setdefault(pid, status)


def _children() -> list[int]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123
        return [int(pid) for pid in file.read().split()]


def _as_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
