"""`Extractor`: sends pages to processes that parse them, and kills a process that takes too long.

Parsers of HTML, PDF and DOCX have bugs, and a page chooses what they see. In a process of its own, a page that hangs or
crashes its parser costs one result.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import time
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from holdfast.contract.errors import HoldfastError
from holdfast.helper_process import holdfast_module, start

_MAX_REPLY: Final = 64 * 1024 * 1024
"""More than any page of 10 MB needs (`web.max_bytes`), whose bytes JSON escapes in six each at worst."""
_MAX_IDLE: Final = 2
"""Processes that are kept for the next page. Each has the parsers in memory already."""
_KEPT_TEXTS: Final = 32
_KEPT_CHARS: Final = 16 * 1024 * 1024
_BLOCK: Final = 1 << 18

Answer = dict[str, Any]


class ExtractionFailed(HoldfastError):
    """Content could not be parsed; the message completes "… cannot be read: "."""


class Extractor:
    """A pool of extraction processes. Any thread and event loop can use it."""

    def __init__(self) -> None:
        self._idle: list[_Process] = []
        self._known: OrderedDict[bytes, Answer] = OrderedDict()
        self._lock = Lock()
        self._closed = False

    async def ask(self, request: Answer, body: bytes, seconds: float) -> Answer:
        """Return the answer of `process`. Raises `ExtractionFailed`, at the latest after `seconds`."""
        process = self._take()
        try:
            answer = await asyncio.to_thread(process.exchange, request, body, time.monotonic() + seconds)
        except BaseException:
            process.kill()  # also ends the thread, if the call was cancelled
            raise
        self._put(process)
        if "error" in answer:
            raise ExtractionFailed(str(answer["error"]))
        return answer

    async def ask_once(self, request: Answer, body: bytes, seconds: float) -> Answer:
        """Like `ask`, but the last answers are kept: the next page of a long text is not extracted again."""
        key = sha256(json.dumps(request).encode("ascii") + b"\0" + body).digest()
        with self._lock:
            known = self._known.get(key)
        if known is None:
            known = await self.ask(request, body, seconds)
            with self._lock:
                self._known[key] = known
                while len(self._known) > _KEPT_TEXTS or _size(self._known.values()) > _KEPT_CHARS:
                    self._known.popitem(last=False)
        return known

    @property
    def pids(self) -> list[int]:
        """The idle processes."""
        with self._lock:
            return [process.pid for process in self._idle]

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            process.kill()

    def _take(self) -> _Process:
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                return _Process()
            if process.is_alive:
                return process
            process.kill()

    def _put(self, process: _Process) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(process)
                return
        process.kill()


def _size(answers: Iterable[Answer]) -> int:
    return sum(len(answer.get("text", "")) for answer in answers)


class _Process:
    def __init__(self) -> None:
        self._child = start(
            holdfast_module("holdfast.tools.extraction.process"),
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

    def exchange(self, request: Answer, body: bytes, deadline: float) -> Answer:
        """Send a page and return the answer. Raises `ExtractionFailed`, also if the process is killed meanwhile."""
        with self._lock:
            if self._killed:
                raise ExtractionFailed("the parser was stopped")
            self._in_use = True
        try:
            return self._exchange(request, body, deadline)
        finally:
            with self._lock:
                self._in_use = False
                if self._killed:
                    self._close()

    def _exchange(self, request: Answer, body: bytes, deadline: float) -> Answer:
        head = json.dumps(request).encode("ascii")
        try:
            for frame in (head, body):
                self._send(len(frame).to_bytes(4, "big"), deadline)
                self._send(frame, deadline)
            size = int.from_bytes(self._receive(4, deadline), "big")
            if size > _MAX_REPLY:
                raise ExtractionFailed("its text is too long")
            return json.loads(self._receive(size, deadline))
        except (OSError, ValueError):  # the pipe is broken or the answer is: the process was killed or has exited
            raise ExtractionFailed("the parser crashed or exceeded a limit of its process") from None

    def kill(self) -> None:
        """Kill the process. A thread that still waits for its answer reads the end of the output and closes the pipes
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
            raise ExtractionFailed("parsing it takes too long")
