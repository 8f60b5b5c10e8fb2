"""The seccomp filter: denies system calls that no command needs and escapes are made of.

The BPF program is assembled here, because the bindings to libseccomp need a C library that is often missing, and some
fifty rules are a page of numbers.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

_LOAD, _JEQ, _JGE, _JSET, _RET, _AND = 0x20, 0x15, 0x35, 0x45, 0x06, 0x54
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NR, _ARCH, _ARG0, _ARG1 = 0, 4, 16, 24
_ARG_SIZE: Final = 8
_X32: Final = 0x40000000  # the x32 ABI numbers its calls from here, past all rules below
_NEW_NAMESPACES: Final = 0x7E020000  # every CLONE_NEW* flag
_TERMINAL_INPUT: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_SOCK_TYPE, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_INET, _INET6, _NETLINK = 2, 10, 16


def _numbers(text: str) -> Mapping[str, tuple[int, int]]:
    """Parse rows of a name and its numbers on x86_64 and aarch64; -1: that machine does not have the call."""
    rows = (row.split() for row in text.split(","))
    return {name: (int(x86), int(arm)) for name, x86, arm in rows}


_DENIED: Final = _numbers("""
    ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440, pidfd_getfd 438 438,
    kcmp 312 272, io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, keyctl 250 219,
    add_key 248 217, request_key 249 218, mount 165 40, umount2 166 39, pivot_root 155 41, open_tree 428 428,
    move_mount 429 429, fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, mount_setattr 442 442,
    open_tree_attr 467 467, unshare 272 97, setns 308 268, chroot 161 51, bpf 321 280, perf_event_open 298 241,
    userfaultfd 323 282, fanotify_init 300 262, open_by_handle_at 304 265, lookup_dcookie 212 18, kexec_load 246 104,
    kexec_file_load 320 294, init_module 175 105, finit_module 313 273, delete_module 176 106, reboot 169 142,
    swapon 167 224, swapoff 168 225, acct 163 89, quotactl 179 60, quotactl_fd 443 443, syslog 103 116,
    settimeofday 164 170, clock_settime 227 112, clock_adjtime 305 266, adjtimex 159 171, sethostname 170 161,
    setdomainname 171 162, vhangup 153 58, iopl 172 -1, ioperm 173 -1, modify_ldt 154 -1, uselib 134 -1, ustat 136 -1,
    sysfs 139 -1
""")
_SPECIAL: Final = _numbers("clone 56 220, clone3 435 435, socket 41 198, socketpair 53 199, ioctl 16 29")
_MODES: Final = {
    1: _numbers("chmod 90 -1, fchmod 91 52, creat 85 -1, mknod 133 -1"),
    2: _numbers("fchmodat 268 53, fchmodat2 452 452, mknodat 259 33"),
}
"""Calls that set a file's mode, by the index of the mode argument."""
_OPENING: Final = {1: _numbers("open 2 -1"), 2: _numbers("openat 257 56")}
"""Calls that may create a file, by the index of the flags argument; the mode is the next one."""
_OPENAT2: Final = 437
_CREATES_FILE: Final = 0x40 | 0x400000  # O_CREAT, and the bit of O_TMPFILE that is not O_DIRECTORY
_SET_ID: Final = 0o6000
_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def supported() -> bool:
    return platform.machine() in _MACHINES


Instruction = tuple[int, ...]
_REFUSE: Final[Instruction] = (_RET, _ERRNO | errno.EPERM)
_MISSING: Final[Instruction] = (_RET, _ERRNO | errno.ENOSYS)
_PERMIT: Final[Instruction] = (_RET, _ALLOW)


@lru_cache(maxsize=8)
def filter_program(*, sockets: bool, machine: str | None = None) -> bytes:
    """Return the filter as a BPF program. `sockets`: internet sockets are allowed, since the network is contained by
    other means.

    Named Unix sockets are always denied, as they lead to services of the host; socket pairs are allowed.
    """
    column, arch = _MACHINES[machine or platform.machine()]
    number = {name: pair[column] for name, pair in _SPECIAL.items()}
    families = (_INET, _INET6, _NETLINK) if sockets else ()
    steps = [
        *((_LOAD, _ARCH), (_JEQ, arch, 1, 0), (_RET, _KILL), (_LOAD, _NR)),
        *(((_JGE, _X32, 0, 1), (_RET, _KILL)) if column == 0 else ()),
        *(step for pair in _DENIED.values() for step in _on(pair[column], _REFUSE)),
        # The flags of clone3 are in memory, which no filter can read. ENOSYS makes libc fall back to clone.
        *_on(number["clone3"], _MISSING),
        # clone may create processes and threads, but no namespaces.
        *_on(number["clone"], (_LOAD, _ARG0), (_JSET, _NEW_NAMESPACES, 0, 1), _REFUSE, _PERMIT),
        *_on(number["socket"], (_LOAD, _ARG0), *_each(families, _PERMIT), _REFUSE),
        # Only stream and seqpacket pairs: a datagram or raw pair can be reconnected to a named socket.
        *_on(
            number["socketpair"],
            *((_LOAD, _ARG1), (_AND, _SOCK_TYPE), (_JEQ, _SOCK_STREAM, 2, 0), (_JEQ, _SOCK_SEQPACKET, 1, 0)),
            *(_REFUSE, _PERMIT),
        ),
        # No injecting input into the user's terminal.
        *_on(number["ioctl"], (_LOAD, _ARG1), *_each(_TERMINAL_INPUT, _REFUSE), _PERMIT),
        *_on(_OPENAT2, _MISSING),  # its mode is in memory, which no filter can read
        *(step for at, calls in _MODES.items() for pair in calls.values() for step in _on(pair[column], *_mode(at))),
        # The mode argument counts only if a file may be created; otherwise the register holds leftovers.
        *(
            step
            for at, calls in _OPENING.items()
            for pair in calls.values()
            for step in _on(pair[column], _load(at), (_JSET, _CREATES_FILE, 0, 3), *_mode(at + 1))
        ),
        _PERMIT,
    ]
    return b"".join(struct.pack("=HBBI", code, *(jump or (0, 0)), value) for code, value, *jump in steps)


def _on(number: int, *steps: Instruction) -> tuple[Instruction, ...]:
    """Return the instructions for one system call, skipped by all others; none if the machine does not have the
    call."""
    return () if number < 0 else ((_JEQ, number, 0, len(steps)), *steps)


def _each(values: Iterable[int], step: Instruction) -> Iterator[Instruction]:
    for value in values:
        yield from ((_JEQ, value, 0, 1), step)


def _load(at: int) -> Instruction:
    return _LOAD, _ARG0 + at * _ARG_SIZE


def _mode(at: int) -> tuple[Instruction, ...]:
    """Deny set-user-ID and set-group-ID modes: on the host, such a file would run with its owner's rights."""
    return _load(at), (_JSET, _SET_ID, 0, 1), _REFUSE, _PERMIT
