"""`Extractor`: a pool of processes that parse HTML, PDF and DOCX, and the texts that they found last."""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from threading import Lock
from typing import Final

from holdfast.helper_process import holdfast_module
from holdfast.tools.worker_process import Answer, WorkerFailed, WorkerProcess

_MAX_IDLE: Final = 2
"""Processes that are kept for the next page. Each has the parsers in memory already."""
_KEPT_TEXTS: Final = 32
_KEPT_CHARS: Final = 16 * 1024 * 1024


class Extractor:
    """A pool of extraction processes. Any thread and event loop can use it."""

    def __init__(self) -> None:
        self._idle: list[WorkerProcess] = []
        self._known: OrderedDict[bytes, Answer] = OrderedDict()
        self._lock = Lock()
        self._closed = False

    async def ask(self, request: Answer, body: bytes, seconds: float) -> Answer:
        """Return the answer of `process`. Raises `WorkerFailed`, at the latest after `seconds`."""
        process = self._take()
        try:
            answer, _ = await asyncio.to_thread(process.exchange, request, body, time.monotonic() + seconds)
        except BaseException as error:
            if isinstance(error, WorkerFailed) and error.answered:
                self._put(process)
            else:
                process.kill()  # also ends the thread, if the call was cancelled
            raise
        self._put(process)
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

    def _take(self) -> WorkerProcess:
        while True:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is None:
                return WorkerProcess(holdfast_module("holdfast.tools.extraction.process"))
            if process.is_alive:
                return process
            process.kill()

    def _put(self, process: WorkerProcess) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(process)
                return
        process.kill()


def _size(answers: Iterable[Answer]) -> int:
    return sum(len(answer.get("text", "")) for answer in answers)
