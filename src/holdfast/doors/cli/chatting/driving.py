"""Advancing a document: once, step by step, or whenever it is saved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Conflict, Open, Status
from holdfast.agent.events import CallSettled, Outcome
from holdfast.chat.files import encode
from holdfast.contract.result import Result
from holdfast.contract.vocabulary import Failure
from holdfast.doors.cli import screen
from holdfast.doors.cli.arguments import read_text
from holdfast.doors.cli.chatting.answering import Questions
from holdfast.doors.cli.chatting.documents import find_document
from holdfast.doors.cli.chatting.ending import NO_PROJECT, UNASKED, became, has_words, no_words
from holdfast.doors.cli.chatting.interrupting import Interrupt, interrupts
from holdfast.doors.cli.chatting.trusting import settle_trust, untrusted_rest
from holdfast.doors.cli.chatting.viewing import JsonView, PersonView, View
from holdfast.doors.cli.chatting.waiting import waiting_lines
from holdfast.doors.cli.failures import FAILED, INTERRUPTED, PIPE_CLOSED, REJECTED, hush
from holdfast.doors.cli.folding import note_folded
from holdfast.doors.cli.held import HeldView
from holdfast.doors.cli.holding import note_shown
from holdfast.doors.cli.inquiring import TerminalInquirer
from holdfast.doors.cli.place import Flags, show_warnings, whoami
from holdfast.models.text_protocol.choosing import chosen_for

if TYPE_CHECKING:
    from holdfast.agent.events import AgentEvent
    from holdfast.assemble.chat import Chat
    from holdfast.contract.call import HeldCall

E = TypeVar("E")


class Wishes(Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    flags: Flags
    message: str | None = None
    step: bool = False
    plan: bool = False
    headless: bool = False
    as_json: bool = False

    @property
    def asks(self) -> bool:
        """Whether a person is there who may be asked."""
        return not self.headless and screen.can_ask()


def drive(file: str, wishes: Wishes, commands: Sequence[str], *, watch: bool) -> int:
    """The exit code of `holdfast chat FILE`."""
    path = find_document(file, commands)
    if wishes.message is not None:
        wishes = replace(wishes, message=read_text(wishes.message))
    show_warnings()
    if watch:
        from holdfast.doors.cli.chatting.keeping_up import keep_up

        return asyncio.run(keep_up(path, wishes))
    return asyncio.run(_once(path, wishes))


async def _once(path: Path, wishes: Wishes) -> int:
    with interrupts() as interrupt:
        await interrupt.ends(settle_trust(path, wishes.flags, ask=wishes.asks))
        return (await Driver(path, wishes, interrupt).advance()).exit_code


class Driver:
    """Opens a document, and drives it until nothing can be done without somebody else."""

    def __init__(self, path: Path, wishes: Wishes, interrupt: Interrupt, *, watching: bool = False) -> None:
        self._path = path
        self._asks = wishes.asks and not watching and not wishes.step
        self._watching = watching
        self.left = ""
        """A digest of the document as it was when we stopped."""
        self._wishes = wishes
        self._interrupt = interrupt
        self._message = wishes.message
        self._unasked = False
        """Whether something was denied because nobody was there to ask."""
        self._settled: dict[str, Result] = {}
        self._view: View = JsonView() if wishes.as_json else PersonView(watching=watching)
        self._told: set[str] = set()
        self._chat: Chat | None = None
        self._only: str | None = None
        """The call that is run alone."""
        self._alone = False
        """Whoever read what we write has gone; the work goes on."""

    async def advance(self) -> Outcome:
        """Until it stops; opened anew whenever its frontmatter, or the trust in it, has become another."""
        while True:
            async with self.opened() as chat:
                outcome = await self._advance(chat)
                if outcome is not None:
                    return self._ended(chat, outcome)

    async def run_one(self, use_id: str, approved: Open | None = None) -> Outcome:
        """One call alone; opened anew once if the frontmatter, or the trust in it, becomes another meanwhile."""
        again, self._only = True, use_id
        while True:
            async with self.opened() as chat:
                outcome = await self._run_one(chat, use_id, approved)
                if outcome.kind != "stale" or not again:
                    return self._ended(chat, outcome)
                again = False

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Chat]:
        from holdfast.assemble.chat import open_chat

        async with open_chat(
            self._path,
            flags=self._wishes.flags or None,
            nobody="deny" if self._wishes.headless else "park",
            plan=self._wishes.plan,
            by=whoami(),
            on_event=self._heard,
            inquirer=TerminalInquirer if self._wishes.asks else None,
        ) as chat:
            self._chat = chat
            self._view.attach(chat)
            self._tell_notices(chat)
            stop = chat.runtime.bus.listen(lambda event: self._show(self._view.runtime, event))
            try:
                yield chat
            finally:
                stop()
                self._view.rest()

    async def _advance(self, chat: Chat) -> Outcome | None:
        """None: the document has to be opened anew."""
        questions = Questions(chat, self._interrupt)
        while not self._interrupt.pressed:
            if self._message is not None:
                try:
                    chat.conversation.say(self._message)
                except Conflict as conflict:
                    return self._end(Outcome("conflict", str(conflict), exit_code=FAILED))
                self._message = None
            with self._interrupt.stops(chat.loop.cancel):
                outcome = await chat.loop.advance(step=self._wishes.step)
            self._view.rest()
            if outcome.kind == "stale":
                return None
            if outcome.kind != "pending" or not self._asks:
                return outcome
            if questions.left or not await questions.ask(outcome.slots):
                if not self._interrupt.pressed:
                    return outcome
            elif chat.stale():
                return None
        return self._cancelled(chat)

    async def _run_one(self, chat: Chat, use_id: str, approved: Open | None) -> Outcome:
        if self._interrupt.pressed:
            return self._cancelled(chat)
        with self._interrupt.stops(chat.loop.cancel):
            outcome = await chat.loop.run_one(use_id, approved)
        result = self._settled.get(use_id)
        if outcome.kind != "stale" or result is None:
            return outcome
        # It had its result before the rules became others: there is nothing left to run.
        return self._end(replace(outcome, kind="stepped", message="", exit_code=result.exit_code))

    def _cancelled(self, chat: Chat) -> Outcome:
        """Somebody wants us to stop, and nothing runs."""
        return self._end(Outcome("cancelled", slots=tuple(chat.conversation.slots()), exit_code=INTERRUPTED))

    def _end(self, outcome: Outcome) -> Outcome:
        """An end that the loop knows nothing of."""
        self._heard(outcome)
        return outcome

    def _heard(self, event: AgentEvent) -> None:
        if isinstance(event, CallSettled):
            self._settled[event.use.id] = event.result
            self._unasked = self._unasked or event.result.failure is Failure.NOBODY_TO_ASK
        self._show(self._view.agent, self._honest(event) if isinstance(event, Outcome) else event)

    def _honest(self, outcome: Outcome) -> Outcome:
        """What the loop cannot know: that nobody was there to ask, what one call alone came to, who has not written."""
        if outcome.kind == "done" and self._chat is not None and not has_words(self._chat.conversation.document):
            return replace(outcome, kind="failed", message=no_words(self._chat.path), exit_code=FAILED)
        if outcome.kind == "stepped" and self._only in self._settled:
            outcome = replace(outcome, message=became(self._only, self._settled[self._only], self._path))
        if self._unasked and outcome.exit_code == 0:
            return replace(outcome, message=outcome.message or UNASKED, exit_code=REJECTED)
        return outcome

    def _show(self, view: Callable[[E], None], event: E) -> None:
        if self._alone:
            return
        try:
            view(event)
        except BrokenPipeError:
            self._alone = True
            hush()

    def _tell_notices(self, chat: Chat) -> None:
        """What did not take effect, or not as one would expect; once."""
        homeless = () if chat.setting.root is not None else (NO_PROJECT,)
        written = chosen_for(chat.model).notice(chat.model.name)
        for notice in (*chat.setting.loaded.notices, *untrusted_rest(chat), *homeless, *([written] if written else ())):
            if notice not in self._told:
                self._told.add(notice)
                note_folded(screen.shown_block(notice), "Note:")

    def _ended(self, chat: Chat, outcome: Outcome) -> Outcome:
        self._view.rest()
        self.left = sha256(encode(chat.conversation.document.text)).hexdigest()
        outcome = replace(outcome, exit_code=PIPE_CLOSED) if self._alone else self._honest(outcome)
        waiting = () if self._wishes.as_json else waiting_lines(chat, outcome.slots, watching=self._watching)
        self._view.outcome(outcome, list(waiting))
        note_shown(chat.setting.state, self._shown(chat, outcome))
        return outcome

    def _shown(self, chat: Chat, outcome: Outcome) -> list[HeldCall]:
        """The pending calls of which the person, or whoever reads our JSON, was just shown everything."""
        ledger = chat.runtime.ledger_for_held()
        pending = [slot.open for slot in outcome.slots if slot.open is not None and slot.status is Status.PENDING]
        held = [found for opened in pending if (found := ledger.held(opened.call_id)) is not None]
        return [] if self._alone else [one for one in held if self._wishes.as_json or HeldView(one).short_is_whole]
