"""Whose turn it is: recorded commands of different processes run one after the other, those of one process together.

Commands that run at the same time share one recording, so that what they changed is undone together. An overlay shows
each command a folder of its own, so commands that are to run together are recorded by copying.
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
from holdfast.runtime.undo.recorder import Recorder, Running
from holdfast.sandbox.launch import Changes, Overlay

_PAUSE: Final = 0.01
_threads: Final = ThreadPool()


class Turns:
    """One per runtime."""

    def __init__(self, state: Path) -> None:
        self._lock = state / "undo" / "turn"
        self._open: dict[Recorder, Group] = {}

    async def take(self, recorder: Recorder, call_id: str, *, company: Callable[[], bool]) -> Member | None:
        """Wait for the turn of a call, and start to record it; None where it cannot be recorded.

        `company`: whether other commands are about to run here, so that an overlay would make them wait.
        """
        turn = open_lock(self._lock)
        try:
            while not try_lock(turn):
                await asyncio.sleep(_PAUSE)  # another process tells nobody when its turn ends
                if (group := self._open.get(recorder)) is not None and (member := group.join(call_id)) is not None:
                    os.close(turn)
                    return member
            beginning = asyncio.ensure_future(_threads.run(_begin, recorder, call_id, company()))
            try:
                recording = await asyncio.shield(beginning)
            except asyncio.CancelledError:
                beginning.add_done_callback(lambda done: _abandon(done, turn))
                turn = -1
                raise
            if recording is None:
                os.close(turn)
                return None
        except BaseException:
            if turn >= 0:
                os.close(turn)
            raise
        group = Group(recording, turn)
        if not recording.overlays:
            self._open[recorder] = group
        member = group.join(call_id)
        assert member is not None
        return member


def _begin(recorder: Recorder, call_id: str, company: bool) -> Running | None:
    """Alone in an overlay, unless there is company and it can be recorded without."""
    shared = recorder.begin(call_id, overlays=False) if company else None
    return shared or recorder.begin(call_id)


def _abandon(beginning: asyncio.Future[Running | None], turn: int) -> None:
    """The caller is gone: nothing was started."""
    recording = None if beginning.cancelled() or beginning.exception() is not None else beginning.result()
    if recording is not None:
        recording.discard()
    os.close(turn)


class Group:
    """The commands of one turn. Nobody joins an overlay, nor a group of which a command has ended: those who wait for
    its end must not wait without end."""

    def __init__(self, recording: Running, turn: int) -> None:
        self._recording = recording
        self._turn = turn
        self._lock = threading.Lock()
        self._calls: list[str] = []
        self._ended = 0
        self._ran = False
        self._over = threading.Event()
        self._changes: Changes | None = None

    @property
    def overlays(self) -> tuple[Overlay, ...]:
        return self._recording.overlays

    def join(self, call_id: str) -> Member | None:
        with self._lock:
            if self._ended or (self._calls and self.overlays):
                return None
            self._calls.append(call_id)
        return Member(self)

    def leave(self, *, ran: bool) -> Callable[[], Changes]:
        """A command has ended; the answer waits for the others and says what all of them changed."""
        with self._lock:
            self._ended += 1
            self._ran = self._ran or ran
            last = self._ended == len(self._calls)
        if last:
            try:
                if self._ran:
                    self._changes = self._recording.finish(tuple(self._calls))
                else:
                    self._recording.discard()
                    self._changes = Changes()
            finally:
                os.close(self._turn)
                self._over.set()
        return self._wait

    def _wait(self) -> Changes:
        self._over.wait()
        if self._changes is None:
            raise LedgerUnavailable("What the commands that ran at the same time changed could not be recorded.")
        return self._changes


class Member:
    """One command of a group; satisfies `Recording`."""

    def __init__(self, group: Group) -> None:
        self._group: Group | None = group
        self.overlays = group.overlays

    def finish(self) -> Changes:
        group, self._group = self._group, None
        return Changes() if group is None else group.leave(ran=True)()

    def discard(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            group.leave(ran=False)
