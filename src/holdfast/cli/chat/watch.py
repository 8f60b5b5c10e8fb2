"""`holdfast chat FILE --watch`: advances the document when it is saved, answered elsewhere, or newly trusted."""

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
from holdfast.cli.chat.documents import find_document, location
from holdfast.cli.chat.runner import ChatOptions, ChatRunner, Interrupt, first_completed, interrupts
from holdfast.contract.enums import State
from holdfast.contract.errors import HoldfastError, LedgerCorrupt, UnknownCall
from holdfast.factory.runtime import Project, chats_dir, load_project, open_ledger

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

DEBOUNCE_SECONDS: Final = 0.05
"""Time without further changes after which a save counts as complete: some editors save in several steps."""
_MAX_ROUNDS: Final = 40
"""Debounce rounds, after which a file that keeps changing is read anyway."""

Pause = Callable[[float], Awaitable[None]]


class CannotWatch(HoldfastError):
    """File changes cannot be watched here; the message says what to do."""


class FileWatch:
    """Waits for changes to files: `async with FileWatch([file]) as watch:`, then `await watch.changed()`.

    Watches the folders, not the files: editors save by renaming a new file into place.
    """

    def __init__(self, paths: Iterable[Path], *, pause: Pause = asyncio.sleep) -> None:
        self._names = {spelling for path in paths for spelling in _spellings(path)}
        self._pause = pause
        self._touched = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._observer: BaseObserver | None = None

    async def __aenter__(self) -> FileWatch:
        self._loop = asyncio.get_running_loop()
        self._observer = _start({os.path.dirname(name) for name in self._names}, self._on_event)  # noqa: PTH120
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._observer is not None:
            self._observer.stop()
            await asyncio.to_thread(self._observer.join)

    async def changed(self) -> None:
        """Return when a file may have changed, and no further change came within the debounce time."""
        await self._touched.wait()
        for _ in range(_MAX_ROUNDS):
            if not self._touched.is_set():
                return
            self._touched.clear()
            await self._pause(DEBOUNCE_SECONDS)

    def touch(self) -> None:
        """Act as if a file had changed."""
        self._touched.set()

    def _on_event(self, event: Any) -> None:
        # Runs in a thread of watchdog's observer.
        paths = {os.fsdecode(event.src_path), os.fsdecode(getattr(event, "dest_path", "") or "")}
        if self._loop is not None and paths & self._names and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._touched.set)


def _spellings(path: Path) -> set[str]:
    """Return the path as given and with symlinks resolved: a save may replace either."""
    real = os.path.realpath(path)
    return {os.path.join(os.path.realpath(path.parent), path.name), real}  # noqa: PTH118


def _start(folders: set[str], on_event: Callable[[Any], None]) -> BaseObserver:
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
            "--watch needs the package watchdog. Install it with `pip install 'holdfast[watch]'`."
        ) from None

    class Handler(FileSystemEventHandler):
        def dispatch(self, event: FileSystemEvent) -> None:
            on_event(event)

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
            raise CannotWatch(_explain(folder, error)) from None
    try:
        observer.start()
    except OSError as error:
        raise CannotWatch(_explain(", ".join(sorted(folders)), error)) from None
    return observer


def _explain(folder: str, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EMFILE):
        return f"Cannot watch {folder}: too many files are watched already. Raise fs.inotify.max_user_watches."
    return f"Cannot watch {folder}: {error.strerror or error}. Check that it exists and is readable."


_MAX_ADVANCES: Final = 5
"""Advances in a row for answers that arrive meanwhile, before the watcher waits for the next event."""


Stamp = tuple[int, int]


class Snapshot(Struct, frozen=True):
    """Everything an advance depends on. While it is unchanged, there is nothing to do."""

    content: str | None
    """The digest of the document; None if the file is gone."""
    calls: tuple[tuple[str, str], ...] = ()
    """The id and the state of each open call in the ledger."""
    trusted: tuple[str, ...] = ()
    """The digests of the frontmatter that are trusted."""


async def watch_document(path: Path, options: ChatOptions) -> int:
    """Advance the document on every change until Ctrl-C; return the exit code."""
    project = load_project(path.parent, flags=options.flags or None, checked=False)
    async with FileWatch(_watched(path, project)) as watch:
        with interrupts() as interrupt:
            watcher = DocumentWatcher(path, options, interrupt, project)
            while True:
                await watcher.check()
                await first_completed(watch.changed(), interrupt.wanted.wait())
                if interrupt.pressed:
                    return 0


class DocumentWatcher:
    """Advances a document if its snapshot differs from the one after the last advance."""

    def __init__(self, path: Path, options: ChatOptions, interrupt: Interrupt, project: Project) -> None:
        self._path = path
        self._runner = ChatRunner(path, options, interrupt, watching=True)
        self._as_json = options.as_json
        self._interrupt = interrupt
        self._project = project
        self._last: Snapshot | None = None
        self._stopped: tuple[str | None, Stamp | None] | None = None
        """The document after a turn was cancelled; it is not advanced again until it is saved."""
        self._printed = ""

    async def check(self) -> None:
        """Advance the document if anything changed since the last time."""
        for _ in range(_MAX_ADVANCES):
            now = self._now()
            if self._is_unchanged(now):
                break
            if now.content is None:
                self._last = now
                self._print_once(f"{location(self._path)} is gone. Waiting for it to reappear.")
                return
            outcome = await self._advance(now)
            if outcome is None or not self._answered(outcome):
                break
        self._print_once(f"Watching {location(self._path)}. Press Ctrl-C to end.")

    def _is_unchanged(self, now: Snapshot) -> bool:
        # After a cancelled turn only a save counts, not an answer from elsewhere or new trust.
        return now == self._last if self._stopped is None else (now.content, self._stamp()) == self._stopped

    async def _advance(self, now: Snapshot) -> Outcome | None:
        outcome: Outcome | None = None
        try:
            find_document(str(self._path))
            outcome = await self._runner.advance()
        except HoldfastError as error:
            errors.report_error(error, as_json=self._as_json)
            self._last = now
        else:
            self._last = Snapshot(self._runner.left, self._calls(), self._trusted())
        stopped = self._interrupt.pressed or (outcome is not None and outcome.kind == "cancelled")
        self._stopped = (self._last.content, self._stamp()) if stopped else None
        self._interrupt.reset()
        if stopped:
            console.print_err(f"Stopped. Save {location(self._path)} to continue.")
        return outcome

    def _stamp(self) -> Stamp | None:
        """Return a value that changes with every save, even one that leaves the content as it was."""
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
        """Return whether a call that was pending at the end of the advance has been answered by now."""
        pending = {slot.call.call_id for slot in outcome.slots if slot.call and slot.status is Status.PENDING}
        return any(state != State.PENDING for call_id, state in self._calls() if call_id in pending)

    def _calls(self) -> tuple[tuple[str, str], ...]:
        """Return the id and the state of each open call of the document."""
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

    def _print_once(self, message: str) -> None:
        if message != self._printed:
            console.print_err(message)
            self._printed = message


def _watched(path: Path, project: Project) -> Iterator[Path]:
    project.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    yield path
    for database in (project.ledger_path, project.user_db):
        yield database
        yield database.with_name(f"{database.name}-wal")
