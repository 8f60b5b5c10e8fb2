"""`NativeModel`: reads calls that a model wrote into its text although its server takes native ones."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final, cast

from msgspec.structs import replace

from holdfast.contract.message import Message, Part, Text, Thinking, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.call_arguments import encode_arguments
from holdfast.models.port import (
    COMPLETE_STOPS,
    CORRECTION_MARK,
    CallBegun,
    Model,
    ModelError,
    ModelEvent,
    ModelFault,
    PartEnded,
    ProtocolChoice,
    ReplyEnded,
    Retrying,
    Settings,
    TextDelta,
    ThinkingDelta,
    Usage,
    WrappedModel,
)
from holdfast.models.written_calls import WrittenCalls, certain_text, find_calls, tools_by_name

_CALL_MARK: Final = re.compile(r"[<\[{`~]")
"""Every form of a call begins with one of these, after blanks."""
_MAX_LINE: Final = 200
"""How much of the line before a mark is looked at."""
_SENT_BACK: Final = "The model wrote a tool call into its text; nothing was run, and the model was asked to correct it."
_MADE: Final = "The model wrote its call into its text; the call is made."


class CallPreview:
    """Emits the part of a reply that is certainly no call, without white space at its end.

    Only for live display: the calls are found in the complete text. The time is linear: what is held is looked at again
    only after it has grown.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = tools_by_name(tools)
        self._line = ""
        """The end of the line before the held text."""
        self._held: list[str] = []
        self._size = self._look_at = 0
        self._marked = False
        """Whether the held text has a mark; otherwise it is white space."""

    def feed(self, text: str) -> str:
        """Return the text that can be shown after this delta."""
        if self._marked:
            self._hold(text)
            return self._look() if self._size >= self._look_at else ""
        mark = _CALL_MARK.search(text)
        if mark is None:
            return self._show(text)
        shown = self._show(text[: mark.start()])
        self._hold(text[mark.start() :])
        self._marked = True
        return shown + self._look()

    def rest(self) -> str:
        """Return everything that was held."""
        held, self._held, self._size, self._marked = "".join(self._held), [], 0, False
        return held

    def _hold(self, text: str) -> None:
        self._held.append(text)
        self._size += len(text)

    def _show(self, text: str) -> str:
        said = text.rstrip()
        if not said:
            self._hold(text)
            return ""
        shown = self.rest() + said
        self._line = _last_line(self._line + shown[-_MAX_LINE:])
        if white := text[len(said) :]:
            self._hold(white)
        return shown

    def _look(self) -> str:
        held = self.rest()
        certain = certain_text(self._line + held, self._tools, len(self._line)) - len(self._line)
        if certain >= len(held):
            return self._show(held)
        shown = self._show(held[:certain])
        self._hold(held[certain:])
        self._marked = True
        self._look_at = self._size + self._size // 8 + 1
        return shown


def _last_line(text: str) -> str:
    """Return the end of the last line; `.` stands for the beginning of a long one."""
    line = text.rpartition("\n")[2]
    return line if len(line) < _MAX_LINE else "." + line[-_MAX_LINE:]


class NativeReply:
    """Collects one reply: passes on what is certainly no written call, and holds the rest until that is clear."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.ended: ReplyEnded | None = None
        self.parts: list[Part] = []
        self.has_calls = False
        """Whether it has native calls; then its text is only text, and everything is passed on."""
        self._preview = CallPreview(tools)
        self._shown: list[str] = []
        self._has_text = False
        self._held: list[ModelEvent] = []

    @property
    def text(self) -> str:
        """The text of the reply, once it is complete."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    def feed(self, event: ModelEvent) -> Iterator[ModelEvent]:
        if isinstance(event, ReplyEnded):
            self.ended = event
            return
        if isinstance(event, PartEnded):
            self.parts.append(event.part)
        if isinstance(event, CallBegun) or (isinstance(event, PartEnded) and isinstance(event.part, ToolUse)):
            self.has_calls = True
        match event:
            case Retrying():
                pass  # the caller begins another reply
            case _ if self.has_calls:
                yield from self.pass_on()
                yield event
            case TextDelta(text) if not self._held:
                self._has_text = True
                if shown := self._preview.feed(text):
                    self._shown.append(shown)
                    yield TextDelta(shown)
            case PartEnded(Thinking()) if not self._has_text and not self._held:
                yield event
            case ThinkingDelta():
                yield event
            case _:
                self._held.append(event)

    def pass_on(self) -> Iterator[ModelEvent]:
        """Emit what was held, as it is: the reply is an answer, has native calls, or failed."""
        if rest := self._preview.rest():
            yield TextDelta(rest)
        yield from self._held
        self._held = []

    def finish_with(self, written: WrittenCalls) -> Iterator[ModelEvent]:
        """Emit the calls that were found in the text, and the text before them."""
        shown = "".join(self._shown)
        thoughts = [event for event in self._held if isinstance(event, PartEnded) and isinstance(event.part, Thinking)]
        if not written.said.startswith(shown):
            # The preview judged by less text, and showed some of the call.
            shown, thoughts = "", [PartEnded(part) for part in self.parts if isinstance(part, Thinking)]
            yield Retrying(1, 0.0, _MADE)
        yield from thoughts
        yield from written.events(shown=shown)


class NativeModel(WrappedModel):
    """Offers tools natively. A call that the model writes as text is made if it can only be that, else sent back."""

    def __init__(self, inner: Model) -> None:
        super().__init__(inner, ProtocolChoice("native"))
        self._tools: dict[str, Tool] = {}
        """All tools that were offered: a call of one that is no longer offered is still no answer."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        self._tools |= {tool.name: tool for tool in tools}
        known = tuple(self._tools.values())
        sent = list(messages)
        spent: Usage | None = None
        corrected = False
        while True:
            reply = NativeReply(known)
            stream = cast(AsyncGenerator[ModelEvent], self.inner.stream(sent, tools, settings))
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        if isinstance(event, Retrying):
                            reply = NativeReply(known)
                            yield event
                        for ours in reply.feed(event):
                            yield ours
            except ModelError as error:
                error.add_usage(spent)
                for ours in reply.pass_on():
                    yield ours
                raise
            ended = reply.ended
            if ended is None:
                raise self.incomplete_reply(spent)
            spent = ended.usage if spent is None else spent + ended.usage
            is_answer = ended.stop in COMPLETE_STOPS and not reply.has_calls
            written = find_calls(reply.text, known) if is_answer else None
            if written is None or not written.are_any:
                for ours in reply.pass_on():
                    yield ours
                yield replace(ended, usage=spent)
                return
            if written.may_be_made(corrected=corrected):
                for ours in reply.finish_with(written):
                    yield ours
                yield replace(ended, stop="tool_use", usage=spent)
                return
            if corrected:
                raise ModelError(
                    ModelFault.MALFORMED,
                    f"{self.name} wrote a tool call into its text, and again after it was corrected; nothing was run; "
                    "ask for less at a time, or choose another model or protocol.",
                    usage=spent,
                )
            corrected = True
            yield Retrying(1, 0.0, _SENT_BACK)
            note = correction(written, self._tools)
            sent += [Message("assistant", tuple(reply.parts)), Message("user", (Text(note),))]


def correction(written: WrittenCalls, tools: Mapping[str, Tool]) -> str:
    """Return the message for a model whose written calls were not made."""
    made_up = " Only the runtime writes results." if written.fabricated else ""
    calls = "".join(f"\n{tools[call.name].api_name} with {encode_arguments(call.args)}" for call in written.calls)
    wanted = f" Call this and nothing else, then wait for its result:{calls}" if calls else ""
    return (
        f"{CORRECTION_MARK} Nothing was run: your reply has a tool call in its text.{made_up} Use a real tool call, "
        f"without other text.{wanted}"
    )
