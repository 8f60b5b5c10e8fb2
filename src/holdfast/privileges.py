"""Drops privileges of the calling process for good: Landlock, seccomp, capabilities, rlimits, control groups.

Standard library only, so that the smallest process can use it. Every function raises `OSError` rather than doing less.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable, Sequence

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
CAPABILITY_VERSION_3 = 0x20080522
SECCOMP_MODE_FILTER = 2
LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
MAKE_DEVICES = 1 << 6 | 1 << 11
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_ALL_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_NET = 0b11
_SCOPED = 0b11

_libc = ctypes.CDLL(None, use_errno=True)


def file_rights(abi: int) -> int:
    """Return every file access right that this Landlock version knows."""
    return _ALL_BY_ABI.get(abi, (1 << 16) - 1)


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 if it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(0, int(_libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)))


def set_no_new_privs() -> None:
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise _failed("prctl")


def drop_capabilities() -> None:
    """Drop every capability from all sets, including the bounding set: Landlock alone leaves root most of its power."""
    number = 0
    # The kernel refuses the first number it does not know: no list of capabilities to keep up to date.
    while _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) == 0:
        number += 1
    header, nothing = struct.pack("=Ii", CAPABILITY_VERSION_3, 0), bytes(24)
    if _libc.capset(header, nothing):
        raise _failed("capset")


def apply_landlock(rules: Iterable[tuple[str, int]], net: bool) -> None:
    """Restrict this process to the rights in `rules`; with `net`, also deny TCP, abstract sockets and signals to
    outside processes."""
    abi = landlock_abi()
    if abi < 1:
        raise OSError("This kernel does not support Landlock.")
    rights = file_rights(abi)
    ruleset = struct.pack("=QQQ", rights, _NET if net and abi >= 4 else 0, _SCOPED if net and abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    fd = int(_libc.syscall(LANDLOCK_CREATE_RULESET, ruleset, size, 0))
    if fd < 0:
        raise _failed("landlock_create_ruleset")
    try:
        for path, allowed in rules:
            _add(fd, path, allowed & rights)
        # landlock_restrict_self needs no_new_privs or CAP_SYS_ADMIN, and the latter has just been dropped.
        drop_capabilities()
        set_no_new_privs()
        if _libc.syscall(LANDLOCK_RESTRICT_SELF, fd, 0):
            raise _failed("landlock_restrict_self")
    finally:
        os.close(fd)


def apply_seccomp(program: bytes) -> None:
    """Install a seccomp filter; it survives exec."""
    set_no_new_privs()
    code = ctypes.create_string_buffer(program, len(program))
    prog = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if _libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, prog, 0, 0):
        raise _failed("seccomp")


def apply_rlimits(limits: Iterable[tuple[int, int]]) -> None:
    import resource  # only commands with limits need it

    for kind, value in limits:
        resource.setrlimit(kind, (value, value))


def join_groups(folders: Iterable[str]) -> None:
    """Move this process into control groups; its children are counted there, too."""
    for folder in folders:
        # Under cgroup v1, a single-threaded process moves itself through `tasks` without taking a machine-wide fork
        # lock.
        name = "tasks" if os.access(f"{folder}/tasks", os.W_OK) else "cgroup.procs"
        fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"0")
        finally:
            os.close(fd)


def fill_descriptors(argv: Sequence[str], fds: Sequence[int]) -> list[str]:
    """Return the argv with `{fd0}`, … replaced by descriptor numbers; arguments after the first `--` are left alone."""
    numbers = {f"{{fd{index}}}": str(fd) for index, fd in enumerate(fds)}
    end = argv.index("--") if "--" in argv else len(argv)
    return [numbers.get(word, word) if index < end else word for index, word in enumerate(argv)]


def memory_file(content: bytes) -> int:
    """Return an inheritable descriptor of an anonymous file (memfd) with this content."""
    fd = os.memfd_create("holdfast", 0)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _add(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # a missing path gets no rights
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            # The kernel rejects directory rights on a file.
            rights &= FILE_RIGHTS
        rule = struct.pack("=Qi", rights, fd)
        if rights and _libc.syscall(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, rule, 0):
            raise _failed("landlock_add_rule")
    finally:
        os.close(fd)


def _failed(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")
