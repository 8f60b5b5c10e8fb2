"""`holdfast chat FILE --watch`: advances whenever the document is saved, or a call of it is answered elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.agent.conversation import Status
from holdfast.contract.errors import HoldfastError, LedgerCorrupt, UnknownCall
from holdfast.contract.vocabulary import State
from holdfast.doors.cli import failures, screen
from holdfast.doors.cli.chatting.documents import find_document, place
from holdfast.doors.cli.chatting.driving import Driver, Wishes
from holdfast.doors.cli.chatting.interrupting import Interrupt, interrupts
from holdfast.doors.watching import Watch

if TYPE_CHECKING:
    from holdfast.agent.events import Outcome
    from holdfast.assemble import Setting

_ATTEMPTS: Final = 5
"""Answers that come while we look are taken in at once, but nobody keeps us busy for ever."""


Stamp = tuple[int, int]


class Seen(Struct, frozen=True):
    """What an advance depends on. As long as it stays the same there is nothing to do."""

    content: str | None
    """Of the document; None while there is none."""
    calls: tuple[tuple[str, str], ...] = ()
    """How each of its open calls stands in the ledger."""
    trusted: tuple[str, ...] = ()


async def keep_up(path: Path, wishes: Wishes) -> int:
    """Until Ctrl-C."""
    from holdfast.assemble import load_setting

    setting = load_setting(path.parent, flags=wishes.flags or None, checked=False)
    async with Watch(_watched(path, setting)) as watch:
        with interrupts() as interrupt:
            keeper = Keeper(path, wishes, interrupt, setting)
            while True:
                await keeper.look()
                if await _interrupted(interrupt, watch):
                    return 0


class Keeper:
    def __init__(self, path: Path, wishes: Wishes, interrupt: Interrupt, setting: Setting) -> None:
        self._path = path
        self._driver = Driver(path, wishes, interrupt, watching=True)
        self._as_json = wishes.as_json
        self._interrupt = interrupt
        self._setting = setting
        self._seen: Seen | None = None
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
                self._tell(f"{place(self._path)} is gone; waiting for it to come back.")
                return
            outcome = await self._advance(now)
            if outcome is None or not self._answered(outcome):
                break
        self._tell(f"Watching {place(self._path)}; Ctrl-C ends.")

    def _rests(self, now: Seen) -> bool:
        """An answer elsewhere or a new trust lets a turn go on, but not one that somebody stopped."""
        return now == self._seen if self._stopped is None else (now.content, self._stamp()) == self._stopped

    async def _advance(self, now: Seen) -> Outcome | None:
        outcome: Outcome | None = None
        try:
            find_document(str(self._path))
            outcome = await self._driver.advance()
        except HoldfastError as error:
            failures.report_error(error, as_json=self._as_json)
            self._seen = now
        else:
            self._seen = Seen(self._driver.left, self._calls(), self._trusted())
        stopped = self._interrupt.pressed or (outcome is not None and outcome.kind == "cancelled")
        self._stopped = (self._seen.content, self._stamp()) if stopped else None
        self._interrupt.forget()
        if stopped:
            screen.note(f"Nothing goes on until {place(self._path)} is saved again.")
        return outcome

    def _stamp(self) -> Stamp | None:
        """Another one after every save, also after one that changed nothing."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns

    def _now(self) -> Seen:
        try:
            content = sha256(self._path.read_bytes()).hexdigest()
        except OSError:
            return Seen(None)
        return Seen(content, self._calls(), self._trusted())

    def _answered(self, outcome: Outcome) -> bool:
        """Whether a call that waited when the loop looked has been answered by now."""
        waiting = {slot.open.call_id for slot in outcome.slots if slot.open and slot.status is Status.PENDING}
        return any(state != State.PENDING for call_id, state in self._calls() if call_id in waiting)

    def _calls(self) -> tuple[tuple[str, str], ...]:
        """The open calls of the document, and where they stand."""
        from holdfast.assemble import open_ledger
        from holdfast.assemble.chat import chats_of
        from holdfast.chat.remembering import Memory

        opened = Memory(self._path, chats_of(self._setting)).read().open
        if not opened or not self._setting.ledger_path.exists():
            return ()
        found: list[tuple[str, str]] = []
        with open_ledger(self._setting, read_only=True) as ledger:
            for item in opened:
                try:
                    found.append((item.open.call_id, ledger.call(item.open.call_id).state))
                except (UnknownCall, LedgerCorrupt):
                    continue
        return tuple(found)

    def _trusted(self) -> tuple[str, ...]:
        return tuple(item.digest for item in self._setting.trust.list() if Path(item.path) == self._path.resolve())

    def _tell(self, words: str) -> None:
        if words != self._told:
            screen.note(words)
            self._told = words


def _watched(path: Path, setting: Setting) -> Iterator[Path]:
    setting.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    yield path
    for database in (setting.ledger_path, setting.user_db):
        yield database
        yield database.with_name(f"{database.name}-wal")


async def _interrupted(interrupt: Interrupt, watch: Watch) -> bool:
    """Until something changes, or somebody wants us to stop: whether that."""
    tasks = asyncio.create_task(watch.changed()), asyncio.create_task(interrupt.wanted.wait())
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return interrupt.pressed
