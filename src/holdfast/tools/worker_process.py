"""`WorkerProcess`: a process that parses what strangers wrote. It is killed if it takes too long or its call ends.

Parsers and decoders have bugs, and a file chooses what they see. In a process of its own, a file that hangs or crashes
its parser costs one result. `worker_frames` is the other side of the pipes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Final, cast

from holdfast.contract.errors import HoldfastError
from holdfast.helper_process import start
from holdfast.text.escape import clip, escape

_MAX_JSON: Final = 64 * 1024 * 1024
"""More than any page of 10 MB needs (`web.max_bytes`), whose bytes JSON escapes in six each at worst."""
_MAX_ERROR: Final = 1000
_BLOCK: Final = 1 << 18
DAMAGED_REPLY: Final = "its parser sent a damaged reply"

Answer = dict[str, Any]
OnProgress = Callable[[float | None], None]
"""Called with the share that is done, or None while models are loaded."""


class WorkerFailed(HoldfastError):
    """Content could not be read; the message completes "… cannot be read: "."""

    answered: bool = False
    """Whether the process is still fine: it said itself why it failed."""


class WorkerGone(WorkerFailed):
    """The process ended before it replied."""


def _refuse_constant(name: str) -> float:
    """NaN and the infinities are not JSON."""
    raise ValueError(name)


def _ignore(_: float | None) -> None:
    return None


class WorkerProcess:
    """One process. Any thread can use it, one at a time."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._child = start(
            argv,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
        for pipe in (self._in, self._out):
            os.set_blocking(pipe, False)
        self._lock = Lock()
        self._in_use = False
        self._killed = False

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        return self._child.poll() is None

    def exchange(
        self, request: Answer, data: bytes, deadline: float, max_reply: int = 0, on_progress: OnProgress = _ignore
    ) -> tuple[Answer, bytes]:
        """Send a request and return the reply: JSON, and at most `max_reply` bytes of data.

        Raises `WorkerFailed`, also if the process is killed meanwhile.
        """
        with self._lock:
            if self._killed:
                raise WorkerFailed("it was stopped")
            self._in_use = True
        try:
            return self._exchange(request, data, deadline, max_reply, on_progress)
        finally:
            with self._lock:
                self._in_use = False
                if self._killed:
                    self._close()

    def _exchange(
        self, request: Answer, data: bytes, deadline: float, max_reply: int, on_progress: OnProgress
    ) -> tuple[Answer, bytes]:
        try:
            for frame in (json.dumps(request).encode("ascii"), data):
                self._send(len(frame).to_bytes(4, "big"), deadline)
                self._send(frame, deadline)
            while True:
                answer = self._receive_answer(deadline)
                if "progress" not in answer:
                    break
                share = answer["progress"]
                on_progress(float(share) if isinstance(share, int | float) else None)
            body = self._receive_frame(max_reply, deadline)
        except BrokenPipeError:
            raise WorkerGone("its parser crashed or exceeded a limit of its process") from None
        except (OSError, ValueError, TypeError, OverflowError, RecursionError):
            raise WorkerFailed(DAMAGED_REPLY) from None
        if "error" in answer:
            failed = WorkerFailed(clip(escape(str(answer["error"])), _MAX_ERROR))  # the file may have written it
            failed.answered = True
            raise failed
        return answer, body

    def kill(self) -> None:
        """Kill the process. A thread that still waits for its reply reads the end of the output and closes the pipes
        itself: if they were closed before, it could read and write another file that got their numbers."""
        self._child.kill()
        self._child.wait()
        with self._lock:
            self._killed = True
            if not self._in_use:
                self._close()

    def _close(self) -> None:
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            self._wait(self._in, select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._in, view[:_BLOCK]) :]

    def _receive_answer(self, deadline: float) -> Answer:
        answer: object = json.loads(self._receive_frame(_MAX_JSON, deadline), parse_constant=_refuse_constant)
        if not isinstance(answer, dict):
            raise TypeError
        return cast(Answer, answer)

    def _receive_frame(self, most: int, deadline: float) -> bytes:
        size = int.from_bytes(self._receive(4, deadline), "big")
        if size > most:
            raise WorkerFailed("its content is too long")
        return self._receive(size, deadline)

    def _receive(self, size: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            self._wait(self._out, select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                block = os.read(self._out, min(_BLOCK, size - len(found)))
                if not block:
                    raise BrokenPipeError
                found += block
        return bytes(found)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise WorkerFailed("it takes too long")
