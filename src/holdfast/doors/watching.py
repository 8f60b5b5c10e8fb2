"""Waiting for files to change, saved in whatever way an editor saves; nobody polls, so that waiting costs nothing."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from holdfast.contract.errors import HoldfastError

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

QUIET: Final = 0.05
"""Seconds without a further change after which a save counts as complete: some editors need several steps."""
_MAX_ROUNDS: Final = 40
"""A file that never comes to rest is looked at all the same."""

Pause = Callable[[float], Awaitable[None]]


class CannotWatch(HoldfastError):
    """Changes of files cannot be seen here; the message says what to do."""


class Watch:
    """`async with Watch([file]) as watch:` then `await watch.changed()`, which forgets what it has told.

    Folders are watched, not files: a rename into place, a deletion and a new file of the same name are all seen.
    """

    def __init__(self, paths: Iterable[Path], *, pause: Pause = asyncio.sleep) -> None:
        self._names = {spelling for path in paths for spelling in _spellings(path)}
        self._pause = pause
        self._touched = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._observer: BaseObserver | None = None

    async def __aenter__(self) -> Watch:
        self._loop = asyncio.get_running_loop()
        self._observer = _start({os.path.dirname(name) for name in self._names}, self._seen)  # noqa: PTH120
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._observer is not None:
            self._observer.stop()
            await asyncio.to_thread(self._observer.join)

    async def changed(self) -> None:
        """Until one of the files may have changed, and has come to rest since."""
        await self._touched.wait()
        for _ in range(_MAX_ROUNDS):
            if not self._touched.is_set():
                return
            self._touched.clear()
            await self._pause(QUIET)

    def touch(self) -> None:
        """As if a file had changed."""
        self._touched.set()

    def _seen(self, event: Any) -> None:
        """In a thread of the observer."""
        places = {os.fsdecode(event.src_path), os.fsdecode(getattr(event, "dest_path", "") or "")}
        if self._loop is not None and places & self._names and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._touched.set)


def _spellings(path: Path) -> set[str]:
    """The file under the name given, and where it really is: a save may replace either."""
    real = os.path.realpath(path)
    return {os.path.join(os.path.realpath(path.parent), path.name), real}  # noqa: PTH118


def _start(folders: set[str], seen: Callable[[Any], None]) -> BaseObserver:
    try:
        from watchdog.events import (
            FileClosedEvent,
            FileCreatedEvent,
            FileDeletedEvent,
            FileModifiedEvent,
            FileMovedEvent,
            FileSystemEvent,
            FileSystemEventHandler,
        )
        from watchdog.observers import Observer
    except ImportError:
        raise CannotWatch(
            "Watching files needs the package watchdog; install it with `pip install 'holdfast[watch]'`."
        ) from None

    class Handler(FileSystemEventHandler):
        def dispatch(self, event: FileSystemEvent) -> None:
            seen(event)

    kinds: list[type[FileSystemEvent]] = [
        FileClosedEvent,
        FileCreatedEvent,
        FileDeletedEvent,
        FileModifiedEvent,
        FileMovedEvent,
    ]
    observer = Observer()
    for folder in sorted(folders):
        try:
            observer.schedule(Handler(), folder, event_filter=kinds)
        except OSError as error:
            raise CannotWatch(_why(folder, error)) from None
    try:
        observer.start()
    except OSError as error:
        raise CannotWatch(_why(", ".join(sorted(folders)), error)) from None
    return observer


def _why(folder: str, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EMFILE):
        return f"{folder} cannot be watched: too many files are watched already; raise fs.inotify.max_user_watches."
    return f"{folder} cannot be watched: {error.strerror or error}; check that it exists and can be read."
