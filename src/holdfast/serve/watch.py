"""Notices changes of the ledgers, whichever process makes them, and wakes those who wait for one."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from holdfast.contract.errors import HoldfastError, LedgerError
from holdfast.runtime.live_calls import watch_live_calls
from holdfast.serve.projects import Projects, ServedProject

POLL_SECONDS: Final = 0.05
UPKEEP_SECONDS: Final = 2.0
"""How often pending calls expire, calls of dead processes end, and new projects are found."""


class ChangeCounter:
    """Counts changes and wakes its readers. Each keeps its own position, so a wake-up carries no data."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self.count = 0
        """How many changes were noticed; `wait` takes the number that a reader has seen."""
        self.stopped = False
        """Whether the daemon ends, so that streams end too."""

    def notify(self) -> None:
        self.count += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def stop(self) -> None:
        """End the streams."""
        self.stopped = True
        self.notify()

    async def wait(self, seen: int, seconds: float) -> int:
        """Wait until something changed since `seen`, at most so long; returns the new count."""
        if self.count == seen:
            changed = self._changed
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()
        return self.count


class LedgerWatch(ChangeCounter):
    """Polls a cheap number of each ledger."""

    def __init__(self, projects: Projects) -> None:
        super().__init__()
        self._projects = projects
        self._versions: dict[str, tuple[int, int]] = {}
        projects.on_stop(self.stop)

    async def run(self) -> None:
        upkeep = 0.0
        while True:
            if time.monotonic() >= upkeep:
                await asyncio.to_thread(self._upkeep)
                for project in self._projects:
                    with suppress(HoldfastError):
                        project.resume_approved()
                upkeep = time.monotonic() + UPKEEP_SECONDS
            self.poll()
            await asyncio.sleep(POLL_SECONDS)

    def poll(self) -> None:
        """Look at every ledger once."""
        versions = {project.key: version for project in self._projects if (version := _version(project)) is not None}
        if versions != self._versions:
            self._versions = versions
            self.notify()

    def _upkeep(self) -> None:
        self._projects.refresh()
        for project in self._projects:
            with suppress(HoldfastError):  # a damaged ledger is reported where it is read
                project.ledger.recover()
                project.expiry.expire(project.ledger)
            with suppress(OSError):
                watch_live_calls(project.project.state)


def _version(project: ServedProject) -> tuple[int, int] | None:
    try:
        return project.ledger.version()
    except LedgerError:
        return None
