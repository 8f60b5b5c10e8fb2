"""The child's side of a `WorkerProcess`: frames on its pipes, and limits on what it can use.

A frame is four bytes of length and its content. A request is a JSON frame and a frame with the data; a reply is any
number of JSON frames with `progress`, one JSON frame, and a frame with data.
"""

from __future__ import annotations

import json
import os
import resource
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from holdfast import seccomp
from holdfast.privileges import READ_DIR, READ_FILE, apply_landlock, apply_seccomp

Request = dict[str, Any]
Reply = dict[str, Any]
Handler = Callable[[Request, bytes], tuple[Reply, bytes]]
_BLOCK: Final = 1 << 20


class Unreadable(Exception):
    """The content cannot be read; the message completes "… cannot be read: "."""


class Pipe:
    """Standard input and output as frames. Whatever a library prints goes to standard error instead."""

    def __init__(self) -> None:
        self._out = os.dup(1)
        os.dup2(2, 1)

    def read_request(self, idle_seconds: float | None = None) -> tuple[Request, bytes] | None:
        """Return the next request; None if the parent has closed the pipe or sends nothing for so long."""
        if idle_seconds is not None:
            poll = select.poll()
            poll.register(0, select.POLLIN)
            if not poll.poll(idle_seconds * 1000):
                return None
        head = self._read_frame()
        body = None if head is None else self._read_frame()
        return None if head is None or body is None else (json.loads(head), body)

    def write(self, reply: Reply, body: bytes | None = None) -> None:
        """Write a reply with its data, or one frame of progress without."""
        for frame in (json.dumps(reply).encode("ascii"), *(() if body is None else (body,))):
            self._write(len(frame).to_bytes(4, "big") + frame)

    def answer(self, handler: Handler, request: Request, data: bytes) -> None:
        """Reply with what the handler returns, or with the reason why it failed."""
        try:
            reply, body = handler(request, data)
        except Unreadable as error:
            reply, body = {"error": str(error)}, b""
        except MemoryError:
            reply, body = {"error": "it needs too much memory"}, b""
        except (Exception, RecursionError) as error:
            reply, body = {"error": f"the parser failed ({type(error).__name__})"}, b""
        self.write(reply, body)

    def _read_frame(self) -> bytes | None:
        size = self._read(4)
        return None if size is None else self._read(int.from_bytes(size, "big"))

    @staticmethod
    def _read(size: int) -> bytes | None:
        found = bytearray()
        while len(found) < size:
            block = os.read(0, min(size - len(found), _BLOCK))
            if not block:
                return None
            found += block
        return bytes(found)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._out, view) :]


def limit_resources(memory: int, *, threads: bool) -> None:
    """Bound the memory, the size of files and, except for root, the number of processes; threads count as processes."""
    limits = {"AS": memory, "FSIZE": 0, "CORE": 0, **({} if threads else {"NPROC": 0})}
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            hard = resource.getrlimit(kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))


def confine(*, reads: bool) -> None:
    """Give up the network, writing and other programs for good and, without `reads`, every file. Call it before any
    thread starts: it holds for this thread and those that it starts.

    A kernel without Landlock or seccomp leaves what they would take; the limits hold all the same.
    """
    with suppress(OSError):
        apply_landlock((("/", READ_FILE | READ_DIR),) if reads else (), net=True)
    if seccomp.supported():
        with suppress(OSError):
            apply_seccomp(seccomp.filter_program(sockets=False))


def allow_cpu_time(seconds: float) -> None:
    """Let the kernel end an endless loop even if the parent has died."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
