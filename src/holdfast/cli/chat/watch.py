"""`holdfast chat FILE --watch`: waits for saves, in whatever way an editor saves, and advances what has changed."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.agent.conversation import Status
from holdfast.agent.events import Outcome
from holdfast.chat.state_file import StateFile
from holdfast.cli import console, errors
from holdfast.cli.chat.advance import ChatOptions, ChatRunner, Interrupt, first_completed, interrupts
from holdfast.cli.chat.documents import find_document, location
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, LedgerCorrupt, UnknownCall
from holdfast.factory.chat import chats_dir
from holdfast.factory.runtime import Project, load_project, open_ledger

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

QUIET: Final = 0.05
"""Seconds without a further change after which a save counts as complete: some editors need several steps."""
_MAX_ROUNDS: Final = 40
"""A file that never comes to rest is looked at all the same."""

Pause = Callable[[float], Awaitable[None]]


class CannotWatch(HoldfastError):
    """Changes of files cannot be seen here; the message says what to do."""


class FileWatch:
    """`async with Watch([file]) as watch:` then `await watch.changed()`, which forgets what it has told.

    Folders are watched, not files: a rename into place, a deletion and a new file of the same name are all seen.
    """

    def __init__(self, paths: Iterable[Path], *, pause: Pause = asyncio.sleep) -> None:
        self._names = {spelling for path in paths for spelling in _spellings(path)}
        self._pause = pause
        self._touched = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._observer: BaseObserver | None = None

    async def __aenter__(self) -> FileWatch:
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


_ATTEMPTS: Final = 5
"""Answers that come while we look are taken in at once, but nobody keeps us busy for ever."""


Stamp = tuple[int, int]


class Snapshot(Struct, frozen=True):
    """What an advance depends on. As long as it stays the same there is nothing to do."""

    content: str | None
    """Of the document; None while there is none."""
    calls: tuple[tuple[str, str], ...] = ()
    """How each of its open calls stands in the ledger."""
    trusted: tuple[str, ...] = ()


async def watch_document(path: Path, wishes: ChatOptions) -> int:
    """Until Ctrl-C."""
    project = load_project(path.parent, flags=wishes.flags or None, checked=False)
    async with FileWatch(_watched(path, project)) as watch:
        with interrupts() as interrupt:
            keeper = DocumentWatcher(path, wishes, interrupt, project)
            while True:
                await keeper.look()
                await first_completed(watch.changed(), interrupt.wanted.wait())
                if interrupt.pressed:
                    return 0


class DocumentWatcher:
    def __init__(self, path: Path, wishes: ChatOptions, interrupt: Interrupt, project: Project) -> None:
        self._path = path
        self._driver = ChatRunner(path, wishes, interrupt, watching=True)
        self._as_json = wishes.as_json
        self._interrupt = interrupt
        self._project = project
        self._seen: Snapshot | None = None
        self._stopped: tuple[str | None, Stamp | None] | None = None
        """Somebody stopped a turn: how it left the document. Until somebody saves that again nothing goes on."""
        self._told = ""

    async def look(self) -> None:
        """Advance if anything is not as we left it."""
        for _ in range(_ATTEMPTS):
            now = self._now()
            if self._rests(now):
                break
            if now.content is None:
                self._seen = now
                self._tell(f"{location(self._path)} is gone; waiting for it to come back.")
                return
            outcome = await self._advance(now)
            if outcome is None or not self._answered(outcome):
                break
        self._tell(f"Watching {location(self._path)}; Ctrl-C ends.")

    def _rests(self, now: Snapshot) -> bool:
        """An answer elsewhere or a new trust lets a turn go on, but not one that somebody stopped."""
        return now == self._seen if self._stopped is None else (now.content, self._stamp()) == self._stopped

    async def _advance(self, now: Snapshot) -> Outcome | None:
        outcome: Outcome | None = None
        try:
            find_document(str(self._path))
            outcome = await self._driver.advance()
        except HoldfastError as error:
            errors.report_error(error, as_json=self._as_json)
            self._seen = now
        else:
            self._seen = Snapshot(self._driver.left, self._calls(), self._trusted())
        stopped = self._interrupt.pressed or (outcome is not None and outcome.kind == "cancelled")
        self._stopped = (self._seen.content, self._stamp()) if stopped else None
        self._interrupt.forget()
        if stopped:
            console.print_err(f"Nothing goes on until {location(self._path)} is saved again.")
        return outcome

    def _stamp(self) -> Stamp | None:
        """Another one after every save, also after one that changed nothing."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _now(self) -> Snapshot:
        try:
            content = sha256(self._path.read_bytes()).hexdigest()
        except OSError:
            return Snapshot(None)
        return Snapshot(content, self._calls(), self._trusted())

    def _answered(self, outcome: Outcome) -> bool:
        """Whether a call that waited when the loop looked has been answered by now."""
        waiting = {slot.call.call_id for slot in outcome.slots if slot.call and slot.status is Status.PENDING}
        return any(state != State.PENDING for call_id, state in self._calls() if call_id in waiting)

    def _calls(self) -> tuple[tuple[str, str], ...]:
        """The open calls of the document, and where they stand."""
        opened = StateFile(self._path, chats_dir(self._project)).read().calls
        if not opened or not self._project.ledger_path.exists():
            return ()
        found: list[tuple[str, str]] = []
        with open_ledger(self._project, read_only=True) as ledger:
            for item in opened:
                try:
                    found.append((item.call.call_id, ledger.call(item.call.call_id).state))
                except (UnknownCall, LedgerCorrupt):
                    continue
        return tuple(found)

    def _trusted(self) -> tuple[str, ...]:
        return tuple(item.digest for item in self._project.trust.list() if Path(item.path) == self._path.resolve())

    def _tell(self, words: str) -> None:
        if words != self._told:
            console.print_err(words)
            self._told = words


def _watched(path: Path, project: Project) -> Iterator[Path]:
    project.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    yield path
    for database in (project.ledger_path, project.user_db):
        yield database
        yield database.with_name(f"{database.name}-wal")
