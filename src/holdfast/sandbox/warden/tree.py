"""Finding, killing and reaping everything below a process. Standard library only, and little of it."""

from __future__ import annotations

import ctypes
import os
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
SIGKILL = 9
PATIENCE = 3.0
"""Seconds after which processes that do not die are given up."""


def clear() -> int:
    """Kill and reap all that is left below this process; how many did not die."""
    give_up = time.monotonic() + PATIENCE
    pause = 0.0005
    while _has_children():
        for pid, group in descendants(os.getpid()):
            kill(pid, group)
        if time.monotonic() > give_up:
            return len(descendants(os.getpid()))
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return 0


def end_inits() -> bool:
    """If all that is left below this process is the first process of a namespace, with nothing below it: kill it.

    For a command that ended by itself. That process ends by itself too, and taking its namespaces down is slow, so
    nobody waits; but whatever it does instead, no instruction of it runs after the command's end was told.
    """
    inits = _children(os.getpid())
    if inits is None or any(_children(pid) != [] for pid in inits):
        return False
    for pid in inits:
        send(pid, SIGKILL)
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


def kill(pid: int, group: int) -> None:
    """A group dies as one, so that nothing in it can fork in between. Groups of the worker's own are never meant."""
    if group > 1 and group != os.getpgrp():
        send(-group, SIGKILL)
    send(pid, SIGKILL)


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def be_reaper() -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
