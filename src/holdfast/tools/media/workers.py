"""The runtime's side of the media processes: starts one for each file, and keeps one for each kind of recognition.

A file is decoded in a process of its own (`decode`), so that a file that takes over its decoder meets no other file.
Recognition models take seconds to load, so their process stays for the next request and ends when it is idle.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from threading import Lock
from typing import Final, Literal

from holdfast.helper_process import holdfast_module
from holdfast.tools.worker_process import Answer, OnProgress, WorkerFailed, WorkerGone, WorkerProcess

IDLE_SECONDS: Final = 300.0
"""How long a recognition process waits for the next request."""
_DECODER: Final = "holdfast.tools.media.decoder_process"
_RECOGNITION: Final = "holdfast.tools.media.recognition_process"
_ENVIRONMENT: Final = {"HF_HUB_OFFLINE": "1", "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
"""The Hugging Face library, which faster-whisper imports, must never download."""
_POLL_SECONDS: Final = 0.05


async def decode(request: Answer, data: bytes, *, max_reply: int, seconds: float) -> tuple[Answer, bytes]:
    """Return the facts and the data that `decoder_process` makes of a file. Raises `WorkerFailed`."""
    process = WorkerProcess(holdfast_module(_DECODER), _ENVIRONMENT)
    try:
        return await asyncio.to_thread(process.exchange, request, data, time.monotonic() + seconds, max_reply)
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
        self._process: WorkerProcess | None = None
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
        while not self._closed:
            process, fresh = self._process, False
            if process is None or not process.is_alive:
                self.stop()
                process, fresh = WorkerProcess(self._argv, _ENVIRONMENT), True
                self._process = process
            try:
                answer, _ = await asyncio.to_thread(process.exchange, request, data, deadline, 0, on_progress)
            except WorkerGone:
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
        raise WorkerFailed("its runtime was closed")

    def stop(self) -> None:
        """End the process; the next request starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def close(self) -> None:
        self._closed = True
        self.stop()
