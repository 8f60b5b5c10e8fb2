"""What `holdfast chat` prints while it advances a document: JSON events, or text for a person."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from holdfast.agent.conversation import Slot, Status
from holdfast.agent.events import AgentEvent, GuardrailApplied, Outcome, PhaseStarted, ReplyWritten, ResultWritten
from holdfast.agent.slot_state import SlotState, read_slot_state
from holdfast.cli import console
from holdfast.cli.attachment_view import print_attachments
from holdfast.cli.chat.documents import location
from holdfast.cli.chat.stream import StatusLine, TextStream
from holdfast.cli.layout import field_lines, format_log_event, print_log_line, print_message, quote, wrap_sentence
from holdfast.cli.pending_view import PendingView, diff_style, tool_use_lines
from holdfast.contract.call import PendingCall
from holdfast.contract.enums import Failure, State
from holdfast.contract.errors import HoldfastError
from holdfast.contract.event import (
    ElicitationStarted,
    Event,
    Finished,
    Output,
    Progress,
    ServerLogged,
    Started,
    WarningRaised,
)
from holdfast.contract.json import encode_json
from holdfast.contract.result import Result
from holdfast.factory.chat import ChatSession
from holdfast.json_output import OutcomeOutput, call_preview, event_output
from holdfast.models.from_config import OPERATOR
from holdfast.models.port import CallBegun, Retrying, TextDelta, ThinkingDelta, Usage
from holdfast.registry.source_loader import WAITING_FOR_SOURCES
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape, escape_block_once, escape_once

_MAX_LINES: Final = 6
_MAX_PLANNED: Final = 40
"""Result lines with --plan, where the result is the preview of a change."""
_MODEL: Final = "model"
_GUARD_ACTIONS: Final = {
    "changed": "A call was corrected",
    "refused": "A call was refused",
    "again": "The model is asked again",
    "acted": "holdfast makes a call itself",
    "answered": "holdfast answers itself",
    "stopped": "holdfast stops the model",
}


class View(Protocol):
    """Receives every event, in order, while a document is open."""

    def attach(self, chat: ChatSession) -> None: ...

    def agent(self, event: AgentEvent) -> None: ...

    def runtime(self, event: Event) -> None: ...

    def finish_line(self) -> None:
        """Clear the status line and end open lines, so that other output starts on an empty line."""
        ...

    def outcome(self, outcome: Outcome, pending: Sequence[str]) -> None:
        """Print how the advance ended. `pending` are lines about the calls that need a person."""
        ...


class JsonView:
    """Prints one JSON object per line."""

    def __init__(self) -> None:
        self._chat: ChatSession | None = None
        self._settled: str | None = None

    def attach(self, chat: ChatSession) -> None:
        self._chat = chat

    def agent(self, event: AgentEvent) -> None:
        if isinstance(event, ResultWritten):
            self._settled = event.use.id
        elif isinstance(event, ReplyWritten):
            self._settled = None
        if isinstance(event, Outcome):
            assert self._chat is not None
            self._put(OutcomeOutput.of(event, self._chat, self._settled), with_warnings=True)
        elif isinstance(event, ResultWritten) and event.result.attachments and self._chat is not None:
            written = self._chat.conversation.with_paths(event.result)
            self._put(event_output(replace(event, result=written)))
        else:
            self._put(event_output(event))

    def runtime(self, event: Event) -> None:
        self._put(event_output(event))

    def finish_line(self) -> None:
        sys.stdout.flush()

    def outcome(self, outcome: Outcome, pending: Sequence[str]) -> None:
        """Print nothing: the outcome was printed as an event."""

    def _put(self, written: object, *, with_warnings: bool = False) -> None:
        console.print_json(written, with_warnings=with_warnings)
        sys.stdout.flush()


class TerminalView:
    """Streams the reply to standard output; prints calls and their results, shortened, on standard error."""

    def __init__(self, *, watching: bool = False) -> None:
        self._watching = watching
        self._chat: ChatSession | None = None
        self._reply_text = TextStream()
        self._thinking = TextStream(dim=True)
        self._status = StatusLine()
        self._printed: set[str] = set()
        self._busy = False
        """Whether anything happened since the last outcome."""
        self._retry_reason = ""
        """The reason of the last retry in this reply."""

    def attach(self, chat: ChatSession) -> None:
        self._chat = chat

    def agent(self, event: AgentEvent) -> None:
        self._busy = self._busy or not isinstance(event, (Outcome, WarningRaised))
        match event:
            case TextDelta(text):
                self._write(self._reply_text, text)
            case ThinkingDelta(text):
                if sys.stderr.isatty():
                    self._write(self._thinking, text)
            case PhaseStarted("send"):
                self._retry_reason = ""
                self._status.begin(_MODEL, f"{escape(self._open.model.name)} replies")
            case CallBegun(_, name):
                self._reply_text.break_line()
                self._status.update(f"calls {escape(name)}")
            case Retrying():
                self._retrying(event)
            case GuardrailApplied():
                self._guarded(event)
            case ReplyWritten():
                self._reply(event)
            case ResultWritten(use, result):
                self._print_result(use.name, use.arguments, result)
            case WarningRaised():
                self._print_notice(event.message)
            case Outcome():
                self._status.end_all()
                self._reply_text.discard()
            case _:
                pass

    def runtime(self, event: Event) -> None:
        match event:
            case Started() if event.parent is None:
                self._status.begin(event.call_id, self._running(event))
            case Output():
                self._status.update(event.text)
            case Progress():
                self._status.update(event.message)
            case ServerLogged():
                line = format_log_event(event)
                if line is not None:
                    self.finish_line()
                    print_log_line(line)
            case ElicitationStarted():
                self.finish_line()
            case Finished():
                self._status.end(event.call_id)
            case WarningRaised() if event.message == WAITING_FOR_SOURCES:
                self._print_notice(event.message)  # other warnings were logged already
            case _:
                pass

    def finish_line(self) -> None:
        self._status.clear()
        self._thinking.end()
        self._reply_text.end()

    def outcome(self, outcome: Outcome, pending: Sequence[str]) -> None:
        self.finish_line()
        message = "" if outcome.message in self._printed else escape_block_once(outcome.message)
        match outcome.kind:
            case "pending" | "edited":
                for line in pending or [message]:
                    console.print_err(line.rstrip())
            case "stepped":
                print_message(message or self._next_step())
            case "failed" | "conflict" | "stopped" if message:
                print_message(message, "Error:", "red")
            case "done" if not self._busy:
                where = location(self._open.path)
                print_message(f"Nothing to do. Write a message below a line with only @You: in {where}.")
            case _:
                for line in pending if outcome.kind == "cancelled" else ():
                    console.print_err(line.rstrip())
                if message:
                    print_message(message)
        self._print_usage(outcome.usage)
        self._busy = False

    def _next_step(self) -> str:
        name = location(self._open.path)
        if self._watching:
            return f"One step done. Save {name} for the next."
        return f"One step done. Run `holdfast chat {name} --step` for the next."

    def _retrying(self, event: Retrying) -> None:
        """Print the reason of a retry once, and only the attempt while the reason stays the same."""
        self._reply_text.discard()
        self.finish_line()
        if event.reason == self._retry_reason:
            of = self._open.loop.settings.retries
            console.print_err(f"Retrying in {event.delay:.0f} s ({event.attempt} of {of}).")
        else:
            when = f" in {event.delay:.0f} s" if event.delay else ""
            print_message(f"Asking the model again{when}: {escape_once(event.reason)}")
        self._retry_reason = event.reason

    def _guarded(self, event: GuardrailApplied) -> None:
        """Print which guard-rail intervened, and what it did."""
        if event.what not in ("changed", "refused"):
            self._reply_text.discard()
        self.finish_line()
        words = _GUARD_ACTIONS[event.what] + (f": {escape_once(event.message)}" if event.message else ".")
        console.print_err_lines(wrap_sentence(f"{words} ({event.rule})", sys.stderr, "dim"))

    def _print_usage(self, usage: Usage) -> None:
        """Print the tokens and the cost, unless the free built-in operator replied."""
        if usage.output and sys.stderr.isatty() and self._open.model.provider != OPERATOR:
            cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
            line = f"{usage.input:,} tokens in, {usage.output:,} out{cost}"
            console.print_err(console.paint(line, "dim", stream=sys.stderr))

    @property
    def _open(self) -> ChatSession:
        assert self._chat is not None
        return self._chat

    def _write(self, stream: TextStream, text: str) -> None:
        self._status.end(_MODEL)
        other = self._thinking if stream is self._reply_text else self._reply_text
        if other.open:
            other.end()
        stream.write(text)

    def _reply(self, event: ReplyWritten) -> None:
        self._status.end(_MODEL)
        self.finish_line()
        self._reply_text.commit()
        if event.aborted is not None:
            self._printed.add(event.aborted)
            console.print_err_lines(
                wrap_sentence(f"The reply was cut off: {escape(event.aborted)}", sys.stderr, "yellow")
            )

    def _print_result(self, name: str, arguments: str, result: Result) -> None:
        self.finish_line()
        self._print_call("✓" if result.success else "✗", name, arguments, "green" if result.success else "red")
        planned = result.failure is Failure.PLANNED
        text = result.text.strip("\n")
        limit, style = (_MAX_PLANNED, diff_style) if planned else (_MAX_LINES, _dim)
        shown = quote(text, sys.stderr, limit, style=style, more="see the document for all of it", brief=True)
        console.print_err_lines(shown.lines if text else ())
        if result.attachments:
            print_attachments(self._open.conversation.with_paths(result).attachments)

    def _print_call(self, sign: str, name: str, arguments: str, colour: str) -> None:
        self.finish_line()
        words = call_preview(name, arguments, self._open.runtime, console.screen_width(sys.stderr) - 3)
        console.print_err(f"{console.paint(sign, colour, stream=sys.stderr)} {escape_once(words)}")

    def _running(self, event: Started) -> str:
        """Describe the running call, from the ledger if it is there already."""
        runtime = self._open.runtime
        if runtime.ledger is None:
            return escape(event.tool)
        try:
            call = runtime.ledger.call(event.call_id).call
        except HoldfastError:
            return escape(event.tool)
        width = console.screen_width(sys.stderr) // 2
        return call_preview(call.name_used, encode_json(call.args).decode(), runtime, width)

    def _print_notice(self, message: str) -> None:
        self.finish_line()
        self._printed.add(message)
        print_message(escape_block_once(message), "Note:")


def _dim(line: str, place: int) -> tuple[str, ...]:
    return ("dim",) if line else ()


def pending_lines(chat: ChatSession, slots: Sequence[Slot], *, watching: bool = False) -> Iterator[str]:
    """Yield the lines about every open call, and how to answer the pending ones without a terminal."""
    runtime, path = chat.runtime, chat.path
    resume = f"Save {location(path)}" if watching else f"Run `holdfast chat {location(path)}`"
    asked: list[PendingCall] = []
    for slot in slots:
        known = read_slot_state(runtime, slot)
        status = "new" if slot.status is None else slot.status
        yield from wrap_sentence(f"Open call at {location(path, slot.line)} ({status})", sys.stderr, "yellow")
        pending = known.pending
        if slot.status is Status.PENDING and pending is not None and pending.state is State.PENDING:
            asked.append(pending)
            tool = runtime.registry.find(pending.call.tool)
            yield from PendingView(pending, risk=None if tool is None else tool.risk).short()
        else:
            yield from field_lines("why", _explain(known, runtime, resume), sys.stderr)
            yield from tool_use_lines(slot.use.name, slot.use.arguments, sys.stderr)
    if asked:
        for hint in _how_to_answer(path, asked, watching=watching):
            yield from wrap_sentence(hint, sys.stderr)


def _explain(known: SlotState, runtime: Runtime, resume: str) -> str:
    """Return why the call needs no answer now, and what to do about it."""
    slot, pending = known.slot, known.pending
    if slot.status is None or slot.status in (Status.DENIED, Status.REJECTED, Status.ABORTED):
        return f"Not its turn yet. {resume} to continue."
    if slot.text.strip():
        return "Its result block contains text. Remove the fence to send the text, or the text to run the call."
    if known.state is State.RUNNING or (
        pending is not None and pending.state is State.APPROVED and pending.waiter is not None
    ):
        return f"Another process is running it. {resume} when it has ended to get the result."
    if runtime.registry.find(slot.use.name) is None:
        return f"There is no tool '{escape(slot.use.name)}' here. Restore it, or write status=rejected."
    if runtime.plan_mode:
        return "Approved, but --plan runs nothing that makes changes. Run it without --plan."
    if slot.status is Status.PENDING and pending is None:
        return "No pending call belongs to this block. Write the result into it, or remove it to be asked."
    return f"Approved, but it could not run here. {resume} to retry, or write status=rejected."


def _how_to_answer(path: Path, asked: Sequence[PendingCall], *, watching: bool) -> Iterator[str]:
    name = location(path)
    answers = [f"`holdfast respond {pending.call.id} TEXT`" for pending in asked if pending.definition_only]
    approvals = [f"`holdfast approve {pending.call.id}`" for pending in asked if not pending.definition_only]
    if answers:
        yield f"Answer with {', '.join(answers)}, or write the result into the block in {name}."
    if approvals:
        yield f"Approve with {', '.join(approvals)}, or by writing status=approved into the block in {name}."
    if watching:
        yield f"Then save {name} to continue."
    else:
        yield f"Then continue with `holdfast chat {name}`, which asks on a terminal."
