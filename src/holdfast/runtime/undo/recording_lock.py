"""The lock around recorded commands: commands of different processes run one after the other, those of one process
may run together.

Commands that run at the same time share one recording, so that their changes are undone together. An overlay gives
each command a private view of the folder, so commands that run together are recorded by copying instead.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from holdfast.contract.errors import LedgerUnavailable
from holdfast.fs.replace import open_lock, try_lock
from holdfast.runtime.cancellation import ThreadPool
from holdfast.runtime.undo.recorder import CommandRecording, Recorder
from holdfast.sandbox.launch import Changes, Overlay

_POLL_SECONDS: Final = 0.01
_threads: Final = ThreadPool()


class RecordingLock:
    """One per runtime, on a lock file that all processes of a project share."""

    def __init__(self, state: Path) -> None:
        self._path = state / "undo" / "turn"
        self._joinable: dict[Recorder, SharedRecording] = {}

    async def acquire(
        self, recorder: Recorder, call_id: str, *, has_company: Callable[[], bool]
    ) -> RecordedCommand | None:
        """Wait for the lock and start to record a call; None if it cannot be recorded.

        `has_company` says whether other commands are about to run here: an overlay would make them wait.
        """
        lock_fd = open_lock(self._path)
        try:
            while not try_lock(lock_fd):
                # Polled, because a file lock held by another process cannot be awaited.
                await asyncio.sleep(_POLL_SECONDS)
                if (shared := self._joinable.get(recorder)) is not None and (
                    joined := shared.join(call_id)
                ) is not None:
                    os.close(lock_fd)
                    return joined
            beginning = asyncio.ensure_future(_threads.run(_begin, recorder, call_id, has_company()))
            try:
                recording = await asyncio.shield(beginning)
            except asyncio.CancelledError:
                # The thread still runs: the lock stays held until it has finished.
                beginning.add_done_callback(lambda done: _abandon(done, lock_fd))
                lock_fd = -1
                raise
            if recording is None:
                os.close(lock_fd)
                return None
        except BaseException:
            if lock_fd >= 0:
                os.close(lock_fd)
            raise
        shared = SharedRecording(recording, lock_fd)
        if not recording.overlays:
            self._joinable[recorder] = shared
        joined = shared.join(call_id)
        assert joined is not None
        return joined


def _begin(recorder: Recorder, call_id: str, has_company: bool) -> CommandRecording | None:
    """Record with overlays, unless other commands are about to run and copying is possible."""
    shareable = recorder.begin(call_id, overlays=False) if has_company else None
    return shareable or recorder.begin(call_id)


def _abandon(beginning: asyncio.Future[CommandRecording | None], lock_fd: int) -> None:
    """Discard a recording whose call was cancelled before its command started."""
    recording = None if beginning.cancelled() or beginning.exception() is not None else beginning.result()
    if recording is not None:
        recording.discard()
    os.close(lock_fd)


class SharedRecording:
    """The commands that share one recording.

    A command cannot join an overlay, and cannot join after a command has ended: the ended ones wait for the rest, and
    a steady stream of newcomers would make them wait forever.
    """

    def __init__(self, recording: CommandRecording, lock_fd: int) -> None:
        self._recording = recording
        self._lock_fd = lock_fd
        self._mutex = threading.Lock()
        self._calls: list[str] = []
        self._ended = 0
        self._any_ran = False
        self._finished = threading.Event()
        self._changes: Changes | None = None

    @property
    def overlays(self) -> tuple[Overlay, ...]:
        return self._recording.overlays

    def join(self, call_id: str) -> RecordedCommand | None:
        with self._mutex:
            if self._ended or (self._calls and self.overlays):
                return None
            self._calls.append(call_id)
        return RecordedCommand(self)

    def leave(self, *, ran: bool) -> Callable[[], Changes]:
        """End one command. Returns a function that waits for the others and returns the changes of all of them."""
        with self._mutex:
            self._ended += 1
            self._any_ran = self._any_ran or ran
            last = self._ended == len(self._calls)
        if last:
            try:
                if self._any_ran:
                    self._changes = self._recording.finish(tuple(self._calls))
                else:
                    self._recording.discard()
                    self._changes = Changes()
            finally:
                os.close(self._lock_fd)
                self._finished.set()
        return self._wait

    def _wait(self) -> Changes:
        self._finished.wait()
        if self._changes is None:
            raise LedgerUnavailable("The changes of the commands that ran at the same time could not be recorded.")
        return self._changes


class RecordedCommand:
    """One command of a shared recording; satisfies `Recording`."""

    def __init__(self, shared: SharedRecording) -> None:
        self._shared: SharedRecording | None = shared
        self.overlays = shared.overlays

    def finish(self) -> Changes:
        shared, self._shared = self._shared, None
        return Changes() if shared is None else shared.leave(ran=True)()

    def discard(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave(ran=False)
