"""What a person sees while a document is driven: calls, results, streamed text, the status line."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from typing import Final, Protocol, TextIO
from unicodedata import category

from holdfast.agent.events import AgentEvent, GuardrailApplied, Outcome, PhaseStarted, ReplyWritten, ResultWritten
from holdfast.cli import console
from holdfast.cli.chat.documents import location
from holdfast.cli.json_output import OutcomeOutput as OutcomeOutput
from holdfast.cli.json_output import call_preview, event_output
from holdfast.cli.layout import format_log_event, print_log_line, print_message, quote, wrap_sentence
from holdfast.cli.pending_view import diff_style
from holdfast.cli.prompt import is_prompt_open
from holdfast.contract.enums import Failure
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
from holdfast.models.from_config import OPERATOR
from holdfast.models.port import CallBegun, Retrying, TextDelta, ThinkingDelta, Usage
from holdfast.registry.source_loader import WAITING_FOR_SOURCES
from holdfast.text.escape import clip, escape, escape_block

_CLEAR: Final = "\r\x1b[K"
_TICK: Final = 1.0


class StatusLine:
    """What runs, for how long, and the last it said. Whoever writes anything else clears it first."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._running: dict[str, tuple[str, float]] = {}
        self._last = ""
        self._drawn = False
        self._ticking: asyncio.Task[None] | None = None

    def begin(self, key: str, words: str) -> None:
        self._running[key] = (words, time.monotonic())
        if self._seen and (self._ticking is None or self._ticking.done()):
            self._ticking = asyncio.create_task(self._tick())

    def hear(self, text: str) -> None:
        """The end of what was said last."""
        lines = text.rstrip("\n").rsplit("\n", 1)
        if lines[-1].strip():
            self._last = escape(lines[-1][-console.screen_width(sys.stderr) :])

    def end(self, key: str) -> None:
        self._running.pop(key, None)
        self._last = ""
        self.clear()
        if not self._running and self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    def end_all(self) -> None:
        for key in tuple(self._running):
            self.end(key)

    def clear(self) -> None:
        if self._drawn:
            console.show_prompt(_CLEAR)
            self._drawn = False

    def draw(self) -> None:
        """As it is now; nothing where nobody looks or nothing runs."""
        if not self._seen or not self._running:
            return
        words, since = next(iter(self._running.values()))
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        line = f"… {words}{more}, {time.monotonic() - since:.0f} s"
        line = f"{line}: {self._last}" if self._last else line
        line = clip(line, console.screen_width(sys.stderr) - 1)
        console.show_prompt(f"{_CLEAR}{console.paint(line, 'dim', stream=sys.stderr)}")
        self._drawn = True

    async def _tick(self) -> None:
        while self._running:
            await asyncio.sleep(_TICK)
            if not is_prompt_open():
                self.draw()


_MAX_MARKS: Final = 200
"""A letter with more marks than this is shown as it is so far."""


class TextStream:
    """Text in pieces on standard output, or dimmed on standard error.

    It is made visible, and shown at once on a terminal. In a pipe it comes when it is certain to stay: what was said in
    a reply that is asked for again must not be there.
    """

    def __init__(self, *, dim: bool = False) -> None:
        self._dim = dim
        self._incomplete = ""
        self._buffer: list[str] = []
        """For a pipe, until it is known that it stays."""
        self.open = False
        """Whether something was written that no newline ended."""
        self._last = ""

    def write(self, piece: str) -> None:
        text = self._incomplete + piece
        cut = _complete(text)
        self._incomplete = text[cut:]
        self._put(text[:cut])

    def end(self) -> None:
        """All that is left, and the end of the line."""
        self._put(self._incomplete)
        self._incomplete = ""
        if self.open:
            self._put("\n")

    def keep(self) -> None:
        """What was said stays: a pipe gets it now."""
        self.end()
        if self._buffer:
            console.write_chunk(escape_block("".join(self._buffer)), self._target())
            self._buffer.clear()

    def break_line(self) -> None:
        """What comes next is not the same sentence."""
        if self.open:
            self._put(self._incomplete + "\n")
            self._incomplete = ""

    def drop(self) -> None:
        """What a pipe has not got yet, it never gets."""
        if self._buffer:
            self._buffer.clear()
            self._incomplete, self.open = "", False

    def _put(self, text: str) -> None:
        if not text:
            return
        self.open = not text.endswith("\n")
        target = self._target()
        if not target.isatty():
            self._buffer.append(text)
            return
        # A mark at the beginning is drawn on what was shown last.
        before = escape_block(self._last)
        shown = escape_block(self._last + text)[len(before) :]
        self._last = text[-1]
        lines = shown.split("\n")
        # Line by line: a colour that spans lines would stay on when the output is cut.
        painted = [console.paint(line, "dim", stream=target) if self._dim and line else line for line in lines]
        console.write_chunk("\n".join(painted), target)

    def _target(self) -> TextIO:
        return sys.stderr if self._dim else sys.stdout


def _complete(text: str) -> int:
    """Up to where it can be shown: how many marks pile up on a letter is known when the next letter comes."""
    end = len(text)
    while end > 0 and len(text) - end < _MAX_MARKS and category(text[end - 1]) in ("Mn", "Me"):
        end -= 1
    return end if len(text) - end < _MAX_MARKS else len(text)


_MAX_LINES: Final = 6
_MAX_PLANNED: Final = 40
"""Of what would be done: that is what somebody in plan mode wants to see."""
_MODEL: Final = "model"
_STEPPED_IN: Final = {
    "changed": "A call was put right",
    "refused": "A call is refused",
    "again": "The model is asked again",
    "acted": "holdfast asks for a call itself",
    "answered": "holdfast answers itself",
    "stopped": "holdfast stops the model",
}


class View(Protocol):
    """Told of everything, in order, while a document is open."""

    def attach(self, chat: ChatSession) -> None: ...

    def agent(self, event: AgentEvent) -> None: ...

    def runtime(self, event: Event) -> None: ...

    def rest(self) -> None:
        """Nothing runs any more: whoever speaks next finds an empty line."""
        ...

    def outcome(self, outcome: Outcome, waiting: Sequence[str]) -> None:
        """The last word. `waiting` are lines about the calls that need a person."""
        ...


class JsonView:
    """One JSON object per line."""

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
        else:
            self._put(event_output(event))

    def runtime(self, event: Event) -> None:
        self._put(event_output(event))

    def rest(self) -> None:
        sys.stdout.flush()

    def outcome(self, outcome: Outcome, waiting: Sequence[str]) -> None:
        """It has been written as an event."""

    def _put(self, written: object, *, with_warnings: bool = False) -> None:
        console.print_json(written, with_warnings=with_warnings)
        sys.stdout.flush()


class TerminalView:
    """The reply on standard output as it comes; calls and their results, in a few lines, on standard error."""

    def __init__(self, *, watching: bool = False) -> None:
        self._watching = watching
        self._chat: ChatSession | None = None
        self._words = TextStream()
        self._thoughts = TextStream(dim=True)
        self._live = StatusLine()
        self._said: set[str] = set()
        self._busy = False
        """Whether anything was done since the last outcome."""
        self._trouble = ""
        """Why the model was asked again last, in this reply."""

    def attach(self, chat: ChatSession) -> None:
        self._chat = chat

    def agent(self, event: AgentEvent) -> None:
        self._busy = self._busy or not isinstance(event, (Outcome, WarningRaised))
        match event:
            case TextDelta(text):
                self._say(self._words, text)
            case ThinkingDelta(text):
                if sys.stderr.isatty():
                    self._say(self._thoughts, text)
            case PhaseStarted("send"):
                self._trouble = ""
                self._live.begin(_MODEL, f"{escape(self._open.model.name)} answers")
            case CallBegun(_, name):
                self._words.break_line()
                self._live.hear(f"calls {escape(name)}")
            case Retrying():
                self._again(event)
            case GuardrailApplied():
                self._guarded(event)
            case ReplyWritten():
                self._reply(event)
            case ResultWritten(use, result):
                self._settled(use.name, use.arguments, result)
            case WarningRaised():
                self._warn(event.message)
            case Outcome():
                self._live.end_all()
                self._words.drop()
            case _:
                pass

    def runtime(self, event: Event) -> None:
        match event:
            case Started() if event.parent is None:
                self._live.begin(event.call_id, self._running(event))
            case Output():
                self._live.hear(event.text)
            case Progress():
                self._live.hear(event.message)
            case ServerLogged():
                line = format_log_event(event)
                if line is not None:
                    self.rest()
                    print_log_line(line)
            case ElicitationStarted():
                self.rest()
            case Finished():
                self._live.end(event.call_id)
            case WarningRaised() if event.message == WAITING_FOR_SOURCES:
                self._warn(event.message)  # the others have been said as warnings already
            case _:
                pass

    def rest(self) -> None:
        self._live.clear()
        self._thoughts.end()
        self._words.end()

    def outcome(self, outcome: Outcome, waiting: Sequence[str]) -> None:
        self.rest()
        message = "" if outcome.message in self._said else console.shown_block(outcome.message)
        match outcome.kind:
            case "pending" | "edited":
                for line in waiting or [message]:
                    console.print_err(line.rstrip())
            case "stepped":
                print_message(message or self._next_step())
            case "failed" | "conflict" | "stopped" if message:
                print_message(message, "Error:", "red")
            case "done" if not self._busy:
                where = location(self._open.path)
                print_message(f"There is nothing to answer; write below a line with only @You: in {where}.")
            case _:
                for line in waiting if outcome.kind == "cancelled" else ():
                    console.print_err(line.rstrip())
                if message:
                    print_message(message)
        self._count(outcome.usage)
        self._busy = False

    def _next_step(self) -> str:
        name = location(self._open.path)
        goes_on = f"saving {name}" if self._watching else f"`holdfast chat {name} --step`"
        return f"One step done; {goes_on} does the next."

    def _again(self, event: Retrying) -> None:
        """The first time with the reason; as long as that stays the same, only that it goes on."""
        self._words.drop()
        self.rest()
        if event.reason == self._trouble:
            of = self._open.loop.settings.retries
            console.print_err(f"Trying again ({event.attempt} of {of}) in {event.delay:.0f} s.")
        else:
            when = f" in {event.delay:.0f} s" if event.delay else ""
            print_message(f"The model is asked again{when}: {console.shown(event.reason)}")
        self._trouble = event.reason

    def _guarded(self, event: GuardrailApplied) -> None:
        """A guard-rail stepped in: which, and what it did."""
        if event.what not in ("changed", "refused"):
            self._words.drop()
        self.rest()
        words = _STEPPED_IN[event.what] + (f": {console.shown(event.message)}" if event.message else ".")
        console.print_err_lines(wrap_sentence(f"{words} ({event.rule})", sys.stderr, "dim"))

    def _count(self, usage: Usage) -> None:
        """What the replies cost, for a person who pays for them."""
        if usage.output and sys.stderr.isatty() and self._open.model.provider != OPERATOR:
            cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
            line = f"{usage.input:,} tokens in, {usage.output:,} out{cost}"
            console.print_err(console.paint(line, "dim", stream=sys.stderr))

    @property
    def _open(self) -> ChatSession:
        assert self._chat is not None
        return self._chat

    def _say(self, stream: TextStream, text: str) -> None:
        self._live.end(_MODEL)
        other = self._thoughts if stream is self._words else self._words
        if other.open:
            other.end()
        stream.write(text)

    def _reply(self, event: ReplyWritten) -> None:
        self._live.end(_MODEL)
        self.rest()
        self._words.keep()
        if event.aborted is not None:
            self._said.add(event.aborted)
            console.print_err_lines(
                wrap_sentence(f"The reply was stopped: {escape(event.aborted)}", sys.stderr, "yellow")
            )

    def _settled(self, name: str, arguments: str, result: Result) -> None:
        self.rest()
        self._head("✓" if result.success else "✗", name, arguments, "green" if result.success else "red")
        planned = result.failure is Failure.PLANNED
        text = result.text.strip("\n")
        limit, style = (_MAX_PLANNED, diff_style) if planned else (_MAX_LINES, _dim)
        shown = quote(text, sys.stderr, limit, style=style, more="the document has all", brief=True)
        console.print_err_lines(shown.lines if text else ())

    def _head(self, sign: str, name: str, arguments: str, colour: str) -> None:
        self.rest()
        words = call_preview(name, arguments, self._open.runtime, console.screen_width(sys.stderr) - 3)
        console.print_err(f"{console.paint(sign, colour, stream=sys.stderr)} {console.shown(words)}")

    def _running(self, event: Started) -> str:
        """What runs, as far as the ledger can already tell."""
        runtime = self._open.runtime
        if runtime.ledger is None:
            return escape(event.tool)
        try:
            call = runtime.ledger.call(event.call_id).call
        except HoldfastError:
            return escape(event.tool)
        width = console.screen_width(sys.stderr) // 2
        return call_preview(call.name_used, encode_json(call.args).decode(), runtime, width)

    def _warn(self, message: str) -> None:
        self.rest()
        self._said.add(message)
        print_message(console.shown_block(message), "Note:")


def _dim(line: str, place: int) -> tuple[str, ...]:
    return ("dim",) if line else ()
