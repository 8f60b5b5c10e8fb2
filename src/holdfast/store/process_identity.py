"""Process identity that survives PID reuse: PID, boot id, container and start time; and whether it still runs."""

from __future__ import annotations

import os
import pwd
from functools import lru_cache
from pathlib import Path

from holdfast.contract.call import ProcessIdentity
from holdfast.fs.temporary import pid_namespace, process_start_time
from holdfast.helper_process import run, system_program


def os_user() -> str:
    """Return the account this process runs as, from its UID and not from environment variables."""
    if not hasattr(os, "getuid"):
        return ""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def own_identity() -> str:
    """Return the identity of a person who answers in this process, unless an interface authenticated another."""
    return f"os:{os_user()}"


def this_process() -> ProcessIdentity:
    return _own(os.getpid())


def owner_of(pid: int) -> ProcessIdentity:
    """Return the identity of a process. If it has already ended, the identity never counts as alive."""
    return ProcessIdentity(pid, _started(pid) or f"{_here()}:gone")


@lru_cache(maxsize=1)
def _own(pid: int) -> ProcessIdentity:
    return ProcessIdentity(pid, _started(pid) or "")


def is_alive(owner: ProcessIdentity) -> bool:
    """Whether the owner still runs. An owner that cannot be checked counts as alive, so its calls are left alone."""
    me = this_process()
    if owner == me or not owner.started or not me.started:
        return True
    try:
        boot, container = owner.started.split(":")[:2]
    except (AttributeError, ValueError, TypeError):
        return True  # the stored identity is damaged
    my_boot, my_container = me.started.split(":")[:2]
    # A PID of another container (PID namespace) on this machine says nothing here.
    in_other_container = boot == my_boot and container != my_container
    return in_other_container or _started(owner.pid) == owner.started


def _started(pid: int) -> str | None:
    """Return `boot:container:start time`, or None for a process that is gone or a zombie."""
    moment = process_start_time(pid) if Path("/proc/self/stat").exists() else _start_by_ps(pid)
    return None if moment is None else f"{_here()}:{moment}"


def _start_by_ps(pid: int) -> str | None:
    from subprocess import SubprocessError  # slow to import, needed only without /proc

    program = system_program("ps")
    if program is None:
        return None
    try:
        words = run((program, "-o", "stat=,lstart=", "-p", str(pid)), timeout=5).decode().split()
    except (OSError, SubprocessError):
        return None
    return None if not words or words[0].startswith("Z") else " ".join(words[1:])


def _here() -> str:
    boot, container = pid_namespace()
    return f"{boot}:{container}"
