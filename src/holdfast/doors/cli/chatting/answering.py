"""Asking the person at the terminal about the calls of a document that wait, one after the other."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from holdfast.agent.conversation import Slot, Status
from holdfast.contract.call import HeldCall
from holdfast.contract.vocabulary import State
from holdfast.doors.cli import screen
from holdfast.doors.cli.asking import TerminalAsker
from holdfast.doors.cli.chatting.documents import place
from holdfast.doors.cli.folding import sentence

if TYPE_CHECKING:
    from holdfast.assemble.chat import Chat
    from holdfast.doors.cli.chatting.interrupting import Interrupt

_LOOK: Final = 0.2
"""Seconds between two looks at what others do while a question stands."""


class Questions:
    """Remembers who was asked what, so that a call that has changed since is shown as such."""

    def __init__(self, chat: Chat, interrupt: Interrupt) -> None:
        self._chat = chat
        self._interrupt = interrupt
        self._askers: dict[str, TerminalAsker] = {}
        self._changed = False
        self.left = False
        """The person went away: nothing more is asked."""

    async def ask(self, slots: Sequence[Slot]) -> bool:
        """Ask about each call that waits; whether there is any reason to look at the document again."""
        news = self._changed = False
        for slot in slots:
            held = self._held(slot)
            if held is None:
                news = news or slot.open is not None
                continue
            if self.left:
                break
            news = await self._ask_one(slot, held) or news
            if self._document_changed():
                return True
        return news

    async def _ask_one(self, slot: Slot, held: HeldCall) -> bool:
        """Whether it was answered, here or elsewhere."""
        asker = self._askers.setdefault(held.call.id, TerminalAsker(self._chat.runtime))
        screen.note()
        for line in sentence(f"At {place(self._chat.path, slot.line)}", sys.stderr, "dim"):
            screen.note(line)
        asker.answered = False
        asking = asyncio.create_task(asker(held))
        others = asyncio.create_task(self._others(slot))
        stopped = asyncio.create_task(self._interrupt.wanted.wait())
        tasks = (asking, others, stopped)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if asker.answered:
            return True
        if self._interrupt.pressed or not others.done() or others.cancelled():
            self.left = True
            return False
        screen.note("It was answered elsewhere, or the document has changed.")
        return True

    def _held(self, slot: Slot) -> HeldCall | None:
        if slot.open is None or slot.status is not Status.PENDING:
            return None
        held = self._chat.runtime.ledger_for_held().held(slot.open.call_id)
        return held if held is not None and held.state is State.PENDING else None

    async def _others(self, slot: Slot) -> None:
        """Until the call was answered at another door or somebody saved the document."""
        while self._held(slot) is not None and not self._document_changed():  # noqa: ASYNC110 - others do not tell us
            await asyncio.sleep(_LOOK)

    def _document_changed(self) -> bool:
        self._changed = self._chat.conversation.refresh() or self._changed
        return self._changed
