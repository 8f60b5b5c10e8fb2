"""The runtime's side of the media processes: starts them, talks to them, and kills one that takes too long.

A file is decoded in a process of its own (`decode`), so that a file that takes over its decoder meets no other file.
Recognition models take seconds to load, so their process stays for the next request and ends when it is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from holdfast.contract.errors import HoldfastError
from holdfast.helper_process import holdfast_module, start

IDLE_SECONDS: Final = 300.0
"""How long a recognition process waits for the next request."""
_DECODER: Final = "holdfast.tools.media.decoder_process"
_RECOGNITION: Final = "holdfast.tools.media.recognition_process"
_ENVIRONMENT: Final = {"HF_HUB_OFFLINE": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
"""The Hugging Face library, which faster-whisper imports, must never download."""
_MAX_JSON: Final = 16 * 1024 * 1024
_BLOCK: Final = 1 << 18
_POLL_SECONDS: Final = 0.05

Answer = dict[str, Any]
OnProgress = Callable[[float | None], None]
"""Called with the share that is done, or None while models are loaded."""


class WorkerFailed(HoldfastError):
    """Content could not be read; the message completes "… cannot be read: "."""

    answered: bool = False
    """Whether the process is still fine: it said itself why it failed."""


class _WorkerGone(WorkerFailed):
    """The process ended before it replied."""


async def decode(request: Answer, data: bytes, *, max_reply: int, seconds: float) -> tuple[Answer, bytes]:
    """Return the facts and the data that `decoder_process` makes of a file. Raises `WorkerFailed`."""
    process = _Process(holdfast_module(_DECODER))
    try:
        return await asyncio.to_thread(process.exchange, request, data, time.monotonic() + seconds, max_reply, _ignore)
    finally:
        process.kill()  # also ends the thread, if the call was cancelled


class Recognition:
    """One process that recognises text or speech, shared by all calls: they take turns, so that memory stays bounded.

    Any thread and event loop can use it.
    """

    def __init__(
        self, kind: Literal["text", "speech"], folder: Path | None = None, *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        """`folder` holds the model for speech."""
        self._argv = holdfast_module(_RECOGNITION, kind, "" if folder is None else str(folder), str(idle_seconds))
        self._process: _Process | None = None
        self._turn = Lock()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The process that is ready for the next request, if there is one."""
        process = self._process
        return process.pid if process is not None and process.is_alive else None

    async def ask(self, request: Answer, data: bytes, *, seconds: float, on_progress: OnProgress) -> Answer:
        """Return the answer of `recognition_process`. Raises `WorkerFailed`, at the latest after `seconds`."""
        deadline = time.monotonic() + seconds
        await self._take_turn(deadline)
        try:
            return await self._ask({**request, "seconds": seconds}, data, deadline, on_progress)
        finally:
            self._turn.release()

    async def _take_turn(self, deadline: float) -> None:
        # Polls: callers can be in several event loops, and one that is cancelled must not keep a thread waiting.
        while not self._turn.acquire(blocking=False):
            if time.monotonic() >= deadline:
                raise WorkerFailed("another call uses the model. Try again later")
            await asyncio.sleep(_POLL_SECONDS)

    async def _ask(self, request: Answer, data: bytes, deadline: float, on_progress: OnProgress) -> Answer:
        while True:
            process, fresh = self._process, False
            if process is None or not process.is_alive:
                self.stop()
                process, fresh = _Process(self._argv), True
                self._process = process
            try:
                answer, _ = await asyncio.to_thread(process.exchange, request, data, deadline, 0, on_progress)
            except _WorkerGone:
                self.stop()
                if fresh:
                    raise
            except WorkerFailed as error:
                if not error.answered:
                    self.stop()
                raise
            except BaseException:
                self.stop()
                raise
            else:
                if self._closed:
                    self.stop()
                return answer

    def stop(self) -> None:
        """End the process; the next request starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def close(self) -> None:
        self._closed = True
        self.stop()


def _ignore(_: float | None) -> None:
    return None


class _Process:
    def __init__(self, argv: tuple[str, ...]) -> None:
        self._child = start(
            argv,
            env=_ENVIRONMENT,
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
        self, request: Answer, data: bytes, deadline: float, max_reply: int, on_progress: OnProgress
    ) -> tuple[Answer, bytes]:
        """Send a request and return the reply. Raises `WorkerFailed`, also if the process is killed meanwhile."""
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
                answer: Answer = json.loads(self._receive_frame(_MAX_JSON, deadline))
                if "progress" not in answer:
                    break
                share = answer["progress"]
                on_progress(float(share) if isinstance(share, int | float) else None)
            body = self._receive_frame(max_reply, deadline)
        except BrokenPipeError:
            raise _WorkerGone("its decoder crashed or exceeded a limit of its process") from None
        except (OSError, ValueError, TypeError):
            raise WorkerFailed("its decoder sent a damaged reply") from None
        if "error" in answer:
            failed = WorkerFailed(str(answer["error"]))
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

    def _receive_frame(self, most: int, deadline: float) -> bytes:
        size = int.from_bytes(self._receive(4, deadline), "big")
        if size > most:
            raise WorkerFailed("its content is too large")
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
