"""Advances a document: opens it, runs the loop, asks about pending calls, handles Ctrl-C, and reports the outcome.

Used by `holdfast chat FILE`, its `--watch`, and `holdfast chat run`.
"""

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
from holdfast.cli.chat.documents import location
from holdfast.cli.chat.trust_prompt import untrusted_notices
from holdfast.cli.chat.view import JsonView, TerminalView, View, pending_lines
from holdfast.cli.elicitation import TerminalElicitor
from holdfast.cli.errors import CANCELLED, FAILED, INTERRUPTED, PIPE_CLOSED, REJECTED, silence_stdout
from holdfast.cli.layout import print_message, wrap_sentence
from holdfast.cli.pending_view import PendingView, record_shown
from holdfast.cli.project_context import Flags, whoami
from holdfast.cli.prompt import restore_terminal
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Failure, State
from holdfast.contract.result import Result
from holdfast.factory.chat import ChatSession, open_chat
from holdfast.models.protocol import protocol_choice
from holdfast.store.process_identity import own_identity
from holdfast.text.escape import escape, escape_block_once

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


async def first_completed(*work: Coroutine[Any, Any, object]) -> list[asyncio.Task[object]]:
    """Run the coroutines until one ends, and cancel the others; return the tasks in order."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return tasks


class Interrupt:
    """A request to stop (Ctrl-C, SIGTERM). The first cancels the running turn, a second one exits at once."""

    def __init__(self) -> None:
        self.wanted = asyncio.Event()
        self.cancel: Callable[[], object] | None = None
        """Cancels the running turn; None between turns."""

    @property
    def pressed(self) -> bool:
        return self.wanted.is_set()

    def press(self) -> None:
        if self.pressed:
            restore_terminal()
            console.print_err()
            os._exit(INTERRUPTED)  # safe: the ledger recovers from processes that die at any point
        self.wanted.set()
        if self.cancel is not None:
            console.print_err("\nStopping. Press Ctrl-C again to quit at once.")
            self.cancel()

    async def run_until_pressed(self, work: Coroutine[Any, Any, object]) -> None:
        """Run the coroutine until it is done or the interrupt is pressed."""
        task, _ = await first_completed(work, self.wanted.wait())
        if not task.cancelled():
            task.result()

    def reset(self) -> None:
        """Forget the press, once the turn has stopped: the next one can be interrupted again."""
        self.wanted.clear()

    @contextmanager
    def cancelling(self, cancel: Callable[[], object]) -> Generator[None]:
        """Inside this context the first press calls `cancel`."""
        self.cancel = cancel
        try:
            yield
        finally:
            self.cancel = None


@contextmanager
def interrupts() -> Generator[Interrupt]:
    """Handle SIGINT and SIGTERM in the running event loop."""
    loop = asyncio.get_running_loop()
    interrupt = Interrupt()
    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt.press)
    try:
        yield interrupt
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


_DENIED: Final = "A call needed approval and was denied, because nobody could be asked."
_NO_PROJECT: Final = (
    "There is no project here, so the tools that change or search files and run commands are missing. "
    "Create one with `holdfast init` or `git init`."
)
_ENDS: Final = {
    State.DONE: "is done",
    State.INVALID: "is invalid and did not run",
    State.DENIED: "was denied",
    State.REJECTED: "was rejected",
    State.TIMED_OUT: "timed out and was stopped",
    State.UNKNOWN: "may have run: its outcome is unknown",
    State.CANCELLED: "was cancelled",
}


def _has_message(document: Document) -> bool:
    return any(message.role != "System" for message in document.messages)


def _describe_end(use_id: str, result: Result, path: Path) -> str:
    end = _ENDS.get(result.state, "failed")
    return f"Call '{escape(use_id)}' {end}. Continue with `holdfast chat {location(path)}`."


_POLL_SECONDS: Final = 0.2
"""How often an open question checks for an answer from another process, or a change to the document."""


class ApprovalQueue:
    """Asks about the pending calls of a document, one after another.

    Keeps one asker per call, which tells the person if the call changed since it was last shown.
    """

    def __init__(self, chat: ChatSession, interrupt: Interrupt) -> None:
        self._chat = chat
        self._interrupt = interrupt
        self._askers: dict[str, TerminalAsker] = {}
        self._changed = False
        self.dismissed = False
        """The person left a question unanswered, so no more are asked."""

    async def ask(self, slots: Sequence[Slot]) -> bool:
        """Ask about each pending call; return whether the document should be advanced again."""
        news = self._changed = False
        for slot in slots:
            pending = self._pending_call(slot)
            if pending is None:
                news = news or slot.call is not None
                continue
            if own_identity() in pending.approved_by:
                continue  # another person must approve it, too
            if self.dismissed:
                break
            news = await self._ask_one(slot, pending) or news
            if self._document_changed():
                return True
        return news

    async def _ask_one(self, slot: Slot, pending: PendingCall) -> bool:
        """Return whether the call was answered, here or elsewhere."""
        asker = self._askers.setdefault(pending.call.id, TerminalAsker(self._chat.runtime))
        console.print_err()
        console.print_err_lines(wrap_sentence(f"At {location(self._chat.path, slot.line)}", sys.stderr, "dim"))
        asker.answered = False
        _, elsewhere, _ = await first_completed(
            asker(pending), self._wait_for_others(slot), self._interrupt.wanted.wait()
        )
        if self._interrupt.pressed:
            self._stop(pending.call.id)
            return False
        if asker.answered:
            return True
        if elsewhere.cancelled():
            self.dismissed = True
            return False
        console.print_err("The call was answered elsewhere, or the document changed.")
        return True

    def _stop(self, call_id: str) -> None:
        """Handle Ctrl-C at a question, or right after its answer: a call that was just approved must not run."""
        self.dismissed = True
        pending_calls = self._chat.runtime.pending
        found = pending_calls.get(call_id)
        if found is not None and found.state is State.APPROVED:
            pending_calls.cancel(call_id)
        console.print_err(CANCELLED)

    def _pending_call(self, slot: Slot) -> PendingCall | None:
        if slot.call is None or slot.status is not Status.PENDING:
            return None
        found = self._chat.runtime.pending.ledger.find_pending(slot.call.call_id)
        return found if found is not None and found.state is State.PENDING else None

    async def _wait_for_others(self, slot: Slot) -> None:
        """Return once the call is answered at another interface, or the document is saved."""
        while self._pending_call(slot) is not None and not self._document_changed():  # noqa: ASYNC110 - no event crosses processes
            await asyncio.sleep(_POLL_SECONDS)

    def _document_changed(self) -> bool:
        self._changed = self._chat.conversation.refresh() or self._changed
        return self._changed


E = TypeVar("E")


class ChatOptions(Struct, frozen=True, kw_only=True):
    """The options of `holdfast chat FILE`."""

    flags: Flags
    message: str | None = None
    step: bool = False
    plan: bool = False
    headless: bool = False
    as_json: bool = False

    @property
    def asks(self) -> bool:
        """Whether the person at the terminal may be asked."""
        return not self.headless and console.can_ask()


class ChatRunner:
    """Opens a document and advances it until it is done or needs a person."""

    def __init__(self, path: Path, options: ChatOptions, interrupt: Interrupt, *, watching: bool = False) -> None:
        self._path = path
        self._asks = options.asks and not watching and not options.step
        self._watching = watching
        self.left = ""
        """The digest of the document when the last advance ended."""
        self._options = options
        self._interrupt = interrupt
        self._message = options.message
        self._denied_unasked = False
        """Whether a call was denied because nobody could be asked."""
        self._settled: dict[str, Result] = {}
        self._view: View = JsonView() if options.as_json else TerminalView(watching=watching)
        self._printed_notices: set[str] = set()
        self._chat: ChatSession | None = None
        self._only: str | None = None
        """The call that `run_one` runs."""
        self._output_closed = False
        """Standard output was closed (broken pipe); the work continues without output."""

    async def advance(self) -> Outcome:
        """Advance until it stops; reopen the document whenever its frontmatter, or the trust in it, changes."""
        while True:
            async with self.opened() as chat:
                outcome = await self._advance(chat)
                if outcome is not None:
                    return self._finish(chat, outcome)

    async def run_one(self, use_id: str, approved: LedgerCall | None = None) -> Outcome:
        """Run one call; reopen the document once if its frontmatter, or the trust in it, changes meanwhile."""
        again, self._only = True, use_id
        while True:
            async with self.opened() as chat:
                outcome = await self._run_one(chat, use_id, approved)
                if outcome.kind != "stale" or not again:
                    return self._finish(chat, outcome)
                again = False

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[ChatSession]:
        async with open_chat(
            self._path,
            flags=self._options.flags or None,
            nobody="deny" if self._options.headless else "pending",
            plan=self._options.plan,
            by=whoami(),
            on_event=self._on_event,
            elicitor=TerminalElicitor if self._options.asks else None,
        ) as chat:
            self._chat = chat
            self._view.attach(chat)
            self._print_notices(chat)
            stop = chat.runtime.events.listen(lambda event: self._show(self._view.runtime, event))
            try:
                yield chat
            finally:
                stop()
                self._view.finish_line()

    async def _advance(self, chat: ChatSession) -> Outcome | None:
        """Return the outcome, or None if the document must be reopened."""
        queue = ApprovalQueue(chat, self._interrupt)
        while not self._interrupt.pressed:
            if self._message is not None:
                try:
                    chat.conversation.say(self._message)
                except Conflict as conflict:
                    return self._emit(Outcome("conflict", str(conflict), exit_code=FAILED))
                self._message = None
            with self._interrupt.cancelling(chat.loop.cancel):
                outcome = await chat.loop.advance(step=self._options.step)
            self._view.finish_line()
            if outcome.kind == "stale":
                return None
            if outcome.kind != "pending" or not self._asks:
                return outcome
            if queue.dismissed or not await queue.ask(outcome.slots):
                if not self._interrupt.pressed:
                    return outcome
            elif chat.is_stale():
                return None
        return self._cancelled(chat)

    async def _run_one(self, chat: ChatSession, use_id: str, approved: LedgerCall | None) -> Outcome:
        if self._interrupt.pressed:
            return self._cancelled(chat)
        with self._interrupt.cancelling(chat.loop.cancel):
            outcome = await chat.loop.run_one(use_id, approved)
        result = self._settled.get(use_id)
        if outcome.kind != "stale" or result is None:
            return outcome
        # The call had its result before the frontmatter changed: nothing is left to run.
        return self._emit(replace(outcome, kind="stepped", message="", exit_code=result.exit_code))

    def _cancelled(self, chat: ChatSession) -> Outcome:
        """Interrupted between turns, when no turn could be cancelled."""
        return self._emit(Outcome("cancelled", slots=tuple(chat.conversation.slots()), exit_code=INTERRUPTED))

    def _emit(self, outcome: Outcome) -> Outcome:
        """Report an outcome that does not come from the loop."""
        self._on_event(outcome)
        return outcome

    def _on_event(self, event: AgentEvent) -> None:
        if isinstance(event, ResultWritten):
            self._settled[event.use.id] = event.result
            self._denied_unasked = self._denied_unasked or event.result.failure is Failure.NOBODY_TO_ASK
        self._show(self._view.agent, self._adjust(event) if isinstance(event, Outcome) else event)

    def _adjust(self, outcome: Outcome) -> Outcome:
        """Correct an outcome with what the loop cannot know: an empty document, `run_one`, a headless denial."""
        if outcome.kind == "done" and self._chat is not None and not _has_message(self._chat.conversation.document):
            message = f"{location(self._path)} has no message from you. Write one below a line with only @You:"
            return replace(outcome, kind="failed", message=message, exit_code=FAILED)
        if outcome.kind == "stepped" and self._only in self._settled:
            outcome = replace(outcome, message=_describe_end(self._only, self._settled[self._only], self._path))
        if self._denied_unasked and outcome.exit_code == 0:
            return replace(outcome, message=outcome.message or _DENIED, exit_code=REJECTED)
        return outcome

    def _show(self, view: Callable[[E], None], event: E) -> None:
        if self._output_closed:
            return
        try:
            view(event)
        except BrokenPipeError:
            self._output_closed = True
            silence_stdout()

    def _print_notices(self, chat: ChatSession) -> None:
        """Print once what did not take effect, or not as expected."""
        no_project = () if chat.project.root is not None else (_NO_PROJECT,)
        protocol = protocol_choice(chat.model).notice(chat.model.name)
        notices = (*chat.project.loaded.notices, *untrusted_notices(chat), *no_project, protocol)
        for notice in notices:
            if notice and notice not in self._printed_notices:
                self._printed_notices.add(notice)
                print_message(escape_block_once(notice), "Note:")

    def _finish(self, chat: ChatSession, outcome: Outcome) -> Outcome:
        self._view.finish_line()
        self.left = sha256(encode(chat.conversation.document.text)).hexdigest()
        outcome = replace(outcome, exit_code=PIPE_CLOSED) if self._output_closed else self._adjust(outcome)
        lines = () if self._options.as_json else pending_lines(chat, outcome.slots, watching=self._watching)
        self._view.outcome(outcome, list(lines))
        record_shown(chat.project.state, self._fully_shown(chat, outcome))
        return outcome

    def _fully_shown(self, chat: ChatSession, outcome: Outcome) -> list[PendingCall]:
        """Return the pending calls that were just printed in full, as text or as JSON."""
        if self._output_closed:
            return []
        ledger = chat.runtime.pending.ledger
        slots = [slot.call for slot in outcome.slots if slot.call is not None and slot.status is Status.PENDING]
        calls = [found for opened in slots if (found := ledger.find_pending(opened.call_id)) is not None]
        return [pending for pending in calls if self._options.as_json or PendingView(pending).short_is_whole]
