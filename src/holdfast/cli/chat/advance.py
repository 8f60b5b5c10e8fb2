"""`holdfast chat FILE`: drives a document until nothing can be done without a person; Ctrl-C stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.conversation import Conflict, LedgerCall, Slot, Status
from holdfast.agent.events import AgentEvent, Outcome, ResultWritten
from holdfast.chat.document import Document
from holdfast.chat.document_file import encode
from holdfast.cli import console
from holdfast.cli.approval_prompt import TerminalAsker
from holdfast.cli.arguments import read_text
from holdfast.cli.chat.documents import find_call, find_document, location, project_of
from holdfast.cli.chat.status import pending_lines
from holdfast.cli.chat.trust_prompt import ask_for_trust, untrusted_notices
from holdfast.cli.chat.view import JsonView, TerminalView, View
from holdfast.cli.elicitation import TerminalElicitor
from holdfast.cli.errors import CANCELLED, FAILED, INTERRUPTED, PENDING, PIPE_CLOSED, REJECTED, silence_stdout
from holdfast.cli.layout import print_message, wrap_sentence
from holdfast.cli.pending_view import PendingView, record_shown, review, was_shown
from holdfast.cli.project_context import Flags, install_warning_handler, whoami
from holdfast.cli.prompt import restore_terminal
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Failure, State
from holdfast.contract.result import Result
from holdfast.factory.chat import ChatSession, open_chat
from holdfast.factory.runtime import open_ledger
from holdfast.models.text_protocol.text_model import chosen_for
from holdfast.text.escape import escape

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def first_completed(*work: Coroutine[Any, Any, object]) -> list[asyncio.Task[object]]:
    """Run all until one of them ends; the others are cancelled."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tasks


class Interrupt:
    """Whether somebody wants us to stop, and what stops the work that runs now."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.cancel: Callable[[], object] | None = None
        """Set while a turn runs."""

    @property
    def pressed(self) -> bool:
        return self.wanted.is_set()

    def press(self) -> None:
        if self.pressed:
            restore_terminal()
            console.print_err()
            os._exit(INTERRUPTED)  # the ledger is made for processes that end like this
        self.wanted.set()
        if self.cancel is not None:
            console.print_err("\nStopping; Ctrl-C again stops at once.")
            self.cancel()

    async def ends(self, work: Coroutine[Any, Any, object]) -> None:
        """Until it is done, or somebody wants us to stop."""
        task, _ = await first_completed(work, self.wanted.wait())
        if not task.cancelled():
            task.result()

    def forget(self) -> None:
        """The turn has stopped, and whoever waits for the next one may be stopped anew."""
        self.wanted.clear()

    @contextmanager
    def stops(self, cancel: Callable[[], object]) -> Generator[None]:
        """While this runs, the first press calls `cancel`."""
        self.cancel = cancel
        try:
            yield
        finally:
            self.cancel = None


@contextmanager
def interrupts() -> Generator[Interrupt]:
    """Takes the signals that ask us to stop, in the running loop."""
    loop = asyncio.get_running_loop()
    found = Interrupt()
    for number in _SIGNALS:
        loop.add_signal_handler(number, found.press)
    try:
        yield found
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


DENIED_UNASKED: Final = "A call needed a person and nobody was asked."
NO_PROJECT: Final = (
    "There is no project here, so the tools that change or search files and run commands are missing; "
    "`holdfast init` or `git init` makes one."
)
_ENDS: Final = {
    State.DONE: "is done",
    State.INVALID: "is not valid, so it did not run",
    State.DENIED: "was denied",
    State.REJECTED: "was rejected",
    State.TIMED_OUT: "took too long and was stopped",
    State.UNKNOWN: "may have run: how it ended was not seen",
    State.CANCELLED: "was stopped",
}


def has_message(document: Document) -> bool:
    """Whether anybody but a system prompt has a message in it."""
    return any(message.role != "System" for message in document.messages)


def no_message(path: Path) -> str:
    return f"{location(path)} has no message of yours; write it under a line with only @You:"


def describe_end(use_id: str, result: Result, path: Path) -> str:
    """What a call came to that was run alone."""
    end = _ENDS.get(result.state, "failed")
    return f"Call '{escape(use_id)}' {end}. Continue with `holdfast chat {location(path)}`."


_LOOK: Final = 0.2
"""Seconds between two looks at what others do while a question stands."""


class ApprovalQueue:
    """Remembers who was asked what, so that a call that has changed since is shown as such."""

    def __init__(self, chat: ChatSession, interrupt: Interrupt) -> None:
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
            pending_call = self._pending(slot)
            if pending_call is None:
                news = news or slot.call is not None
                continue
            if self.left:
                break
            news = await self._ask_one(slot, pending_call) or news
            if self._document_changed():
                return True
        return news

    async def _ask_one(self, slot: Slot, pending_call: PendingCall) -> bool:
        """Whether it was answered, here or elsewhere."""
        asker = self._askers.setdefault(pending_call.call.id, TerminalAsker(self._chat.runtime))
        console.print_err()
        console.print_err_lines(wrap_sentence(f"At {location(self._chat.path, slot.line)}", sys.stderr, "dim"))
        asker.answered = False
        _, others, _ = await first_completed(asker(pending_call), self._others(slot), self._interrupt.wanted.wait())
        if self._interrupt.pressed:
            self._stop(pending_call.call.id)
            return False
        if asker.answered:
            return True
        if others.cancelled():
            self.left = True
            return False
        console.print_err("It was answered elsewhere, or the document has changed.")
        return True

    def _stop(self, call_id: str) -> None:
        """Ctrl-C at a question, or right after its answer: what was just approved does not run, now or later."""
        self.left = True
        pending = self._chat.runtime.pending
        found = pending.get(call_id)
        if found is not None and found.state is State.APPROVED:
            pending.cancel(call_id)
        console.print_err(CANCELLED)

    def _pending(self, slot: Slot) -> PendingCall | None:
        if slot.call is None or slot.status is not Status.PENDING:
            return None
        pending_call = self._chat.runtime.pending.ledger.find_pending(slot.call.call_id)
        return pending_call if pending_call is not None and pending_call.state is State.PENDING else None

    async def _others(self, slot: Slot) -> None:
        """Until the call was answered at another interface or somebody saved the document."""
        while self._pending(slot) is not None and not self._document_changed():  # noqa: ASYNC110 - others do not tell us
            await asyncio.sleep(_LOOK)

    def _document_changed(self) -> bool:
        self._changed = self._chat.conversation.refresh() or self._changed
        return self._changed


E = TypeVar("E")


class ChatOptions(Struct, frozen=True, kw_only=True):
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
        return not self.headless and console.can_ask()


def drive(
    file: str, wishes: ChatOptions, commands: Sequence[str], go: Callable[[Path, ChatOptions], Coroutine[Any, Any, int]]
) -> int:
    """The exit code of `holdfast chat FILE`, which is advanced by `go`."""
    path = find_document(file, commands)
    if wishes.message is not None:
        wishes = replace(wishes, message=read_text(wishes.message))
    install_warning_handler()
    return asyncio.run(go(path, wishes))


async def advance_once(path: Path, wishes: ChatOptions) -> int:
    with interrupts() as interrupt:
        await interrupt.ends(ask_for_trust(path, wishes.flags, ask=wishes.asks))
        return (await ChatRunner(path, wishes, interrupt).advance()).exit_code


class ChatRunner:
    """Opens a document, and drives it until nothing can be done without somebody else."""

    def __init__(self, path: Path, wishes: ChatOptions, interrupt: Interrupt, *, watching: bool = False) -> None:
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
        self._view: View = JsonView() if wishes.as_json else TerminalView(watching=watching)
        self._told: set[str] = set()
        self._chat: ChatSession | None = None
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

    async def run_one(self, use_id: str, approved: LedgerCall | None = None) -> Outcome:
        """One call alone; opened anew once if the frontmatter, or the trust in it, becomes another meanwhile."""
        again, self._only = True, use_id
        while True:
            async with self.opened() as chat:
                outcome = await self._run_one(chat, use_id, approved)
                if outcome.kind != "stale" or not again:
                    return self._ended(chat, outcome)
                again = False

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[ChatSession]:
        async with open_chat(
            self._path,
            flags=self._wishes.flags or None,
            nobody="deny" if self._wishes.headless else "pending",
            plan=self._wishes.plan,
            by=whoami(),
            on_event=self._heard,
            elicitor=TerminalElicitor if self._wishes.asks else None,
        ) as chat:
            self._chat = chat
            self._view.attach(chat)
            self._tell_notices(chat)
            stop = chat.runtime.events.listen(lambda event: self._show(self._view.runtime, event))
            try:
                yield chat
            finally:
                stop()
                self._view.rest()

    async def _advance(self, chat: ChatSession) -> Outcome | None:
        """None: the document has to be opened anew."""
        questions = ApprovalQueue(chat, self._interrupt)
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
            elif chat.is_stale():
                return None
        return self._cancelled(chat)

    async def _run_one(self, chat: ChatSession, use_id: str, approved: LedgerCall | None) -> Outcome:
        if self._interrupt.pressed:
            return self._cancelled(chat)
        with self._interrupt.stops(chat.loop.cancel):
            outcome = await chat.loop.run_one(use_id, approved)
        result = self._settled.get(use_id)
        if outcome.kind != "stale" or result is None:
            return outcome
        # It had its result before the rules became others: there is nothing left to run.
        return self._end(replace(outcome, kind="stepped", message="", exit_code=result.exit_code))

    def _cancelled(self, chat: ChatSession) -> Outcome:
        """Somebody wants us to stop, and nothing runs."""
        return self._end(Outcome("cancelled", slots=tuple(chat.conversation.slots()), exit_code=INTERRUPTED))

    def _end(self, outcome: Outcome) -> Outcome:
        """An end that the loop knows nothing of."""
        self._heard(outcome)
        return outcome

    def _heard(self, event: AgentEvent) -> None:
        if isinstance(event, ResultWritten):
            self._settled[event.use.id] = event.result
            self._unasked = self._unasked or event.result.failure is Failure.NOBODY_TO_ASK
        self._show(self._view.agent, self._honest(event) if isinstance(event, Outcome) else event)

    def _honest(self, outcome: Outcome) -> Outcome:
        """What the loop cannot know: that nobody was there to ask, what one call alone came to, who has not written."""
        if outcome.kind == "done" and self._chat is not None and not has_message(self._chat.conversation.document):
            return replace(outcome, kind="failed", message=no_message(self._chat.path), exit_code=FAILED)
        if outcome.kind == "stepped" and self._only in self._settled:
            outcome = replace(outcome, message=describe_end(self._only, self._settled[self._only], self._path))
        if self._unasked and outcome.exit_code == 0:
            return replace(outcome, message=outcome.message or DENIED_UNASKED, exit_code=REJECTED)
        return outcome

    def _show(self, view: Callable[[E], None], event: E) -> None:
        if self._alone:
            return
        try:
            view(event)
        except BrokenPipeError:
            self._alone = True
            silence_stdout()

    def _tell_notices(self, chat: ChatSession) -> None:
        """What did not take effect, or not as one would expect; once."""
        homeless = () if chat.project.root is not None else (NO_PROJECT,)
        written = chosen_for(chat.model).notice(chat.model.name)
        for notice in (
            *chat.project.loaded.notices,
            *untrusted_notices(chat),
            *homeless,
            *([written] if written else ()),
        ):
            if notice not in self._told:
                self._told.add(notice)
                print_message(console.shown_block(notice), "Note:")

    def _ended(self, chat: ChatSession, outcome: Outcome) -> Outcome:
        self._view.rest()
        self.left = sha256(encode(chat.conversation.document.text)).hexdigest()
        outcome = replace(outcome, exit_code=PIPE_CLOSED) if self._alone else self._honest(outcome)
        waiting = () if self._wishes.as_json else pending_lines(chat, outcome.slots, watching=self._watching)
        self._view.outcome(outcome, list(waiting))
        record_shown(chat.project.state, self._shown(chat, outcome))
        return outcome

    def _shown(self, chat: ChatSession, outcome: Outcome) -> list[PendingCall]:
        """The pending calls of which the person, or whoever reads our JSON, was just shown everything."""
        ledger = chat.runtime.pending.ledger
        pending = [slot.call for slot in outcome.slots if slot.call is not None and slot.status is Status.PENDING]
        pending_call = [found for opened in pending if (found := ledger.find_pending(opened.call_id)) is not None]
        return (
            []
            if self._alone
            else [one for one in pending_call if self._wishes.as_json or PendingView(one).short_is_whole]
        )


def run_one(flags: Flags, given: str, file: str | None, digest: str | None, *, as_json: bool) -> int:
    path, slot = find_call(given, file, flags)
    approved = None
    if slot.call is not None and slot.status is Status.PENDING and not slot.text.strip():
        with open_ledger(project_of(path, flags), read_only=True) as ledger:
            pending_call = ledger.find_pending(slot.call.call_id)
            if pending_call is not None and pending_call.state is State.PENDING and not pending_call.definition_only:
                if not was_shown(ledger, pending_call, digest) and not asyncio.run(review(pending_call)):
                    console.print_err(f"Call {pending_call.call.id} still waits.")
                    return PENDING
                approved = LedgerCall(call_id=pending_call.call.id, digest=pending_call.digest)
    install_warning_handler()
    return asyncio.run(_run(path, slot.use.id, approved, ChatOptions(flags=flags, as_json=as_json)))


async def _run(path: Path, use_id: str, approved: LedgerCall | None, wishes: ChatOptions) -> int:
    with interrupts() as interrupt:
        return (await ChatRunner(path, wishes, interrupt).run_one(use_id, approved)).exit_code
