"""Our messages as those of pydantic-ai for one provider, and the events of its reply as ours.

Heavy to import; only `transport` does, when a request is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from pydantic_ai import messages as wire

from holdfast.config.config import ForeignThinking
from holdfast.contract.message import Aborted, Message, Part, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.names import to_api_name
from holdfast.contract.result import Attachment
from holdfast.contract.tool import Tool
from holdfast.models.call_arguments import BROKEN, CallIds, as_object, as_text, sendable
from holdfast.models.dialects import DIALECTS
from holdfast.models.port import CallBegun, ModelEvent, PartEnded, TextDelta, ThinkingDelta
from holdfast.models.providers import Endpoint
from holdfast.text.escape import escape

BEGINNING: Final = "(The conversation begins here.)"
"""What the user says where the assistant would have the first word: not every provider lets it."""
NO_RESULT: Final = "No result was recorded for this call; it was not run again."
_ALSO_TEXT: Final = frozenset(
    {"application/json", "application/xml", "application/yaml", "application/toml", "application/javascript"}
)
_CLOSING: Final = re.compile(r"</(?=\s*attachment)", re.IGNORECASE)
_MARKS: Final = str.maketrans({'"': "'", "<": "‹", ">": "›"})


class _Call(Struct, frozen=True):
    id: str
    sent_id: str
    name: str
    """As the provider knows it."""


class Outgoing(Struct, frozen=True):
    system: str
    messages: Sequence[Any]
    """`wire.ModelMessage`s of pydantic-ai."""
    calls_without_thinking: bool
    """The last reply asks for calls and does not begin with thinking this provider signed."""


def outgoing(
    messages: Sequence[Message], tools: Sequence[Tool], endpoint: Endpoint, system: str, foreign: ForeignThinking
) -> Outgoing:
    """`system` is the name pydantic-ai knows the provider by."""
    writer = _Writer(tools, endpoint, system, foreign)
    for message in messages:
        writer.add(message)
    writer.close()
    return Outgoing("\n\n".join(writer.instructions), writer.messages, writer.calls_without_thinking)


class _Writer:
    def __init__(self, tools: Sequence[Tool], endpoint: Endpoint, system: str, foreign: ForeignThinking) -> None:
        self.instructions: list[str] = []
        self.messages: list[wire.ModelMessage] = []
        self.calls_without_thinking = False
        self._names = {name: tool.api_name for tool in tools for name in tool.names}
        self._dialect = DIALECTS[endpoint.api]
        self._signer = endpoint.signer
        self._system = system
        self._foreign: ForeignThinking = foreign
        self._ids = CallIds(plain=self._dialect.plain_ids)
        self._open: list[_Call] = []
        self._results: list[wire.ToolReturnPart] = []
        self._said: list[wire.UserContent] = []

    def add(self, message: Message) -> None:
        if message.role == "system":
            if text := sendable(message.text).strip():
                self.instructions.append(text)
        elif message.role == "user":
            for part in message.parts:
                self._hear(part)
        else:
            self.close()
            self._open = [self._call(use) for use in message.tool_uses]
            self._reply(message)

    def close(self) -> None:
        """End the user's turn: results come first, and every call has one."""
        for call in self._open:
            self._results.append(self._result(call, ToolResult(call.id, call.name, NO_RESULT, error=True)))
        parts: list[wire.ModelRequestPart] = [*self._results]
        if self._said:
            alone = self._said[0] if len(self._said) == 1 else None
            parts.append(wire.UserPromptPart(content=alone if isinstance(alone, str) else self._said))
        if parts:
            self.messages.append(wire.ModelRequest(parts=parts))
        self._open, self._results, self._said = [], [], []

    def _call(self, use: ToolUse) -> _Call:
        return _Call(use.id, self._ids.give(use.id), self._names.get(use.name) or to_api_name(use.name))

    def _reply(self, message: Message) -> None:
        parts = self._reply_parts(message, self._open)
        self.calls_without_thinking = bool(message.tool_uses) and not isinstance(parts[0], wire.ThinkingPart)
        if parts and not self.messages:
            self.messages.append(wire.ModelRequest(parts=[wire.UserPromptPart(content=BEGINNING)]))
        if parts:
            self.messages.append(wire.ModelResponse(parts=parts, provider_name=self._system))

    def _hear(self, part: Part) -> None:
        match part:
            case Text(text) if text.strip():
                self._said.append(sendable(text))
            case Attachment():
                self._said.append(_file(part, self._dialect.media))
            case ToolResult(wanted):
                call = next((call for call in self._open if call.id == wanted), None)
                if call is not None:
                    self._open.remove(call)
                    self._results.append(self._result(call, part))
            case _:
                pass

    def _result(self, call: _Call, result: ToolResult) -> wire.ToolReturnPart:
        dialect = self._dialect
        files = [_file(file, dialect.media) for file in result.attachments]
        inside = files if dialect.files_in_results else []
        given = dialect.result(sendable(result.output), inside, error=result.error)
        if len(inside) < len(files):
            self._said.extend([f"[attached to the result of {call.sent_id}]", *files])
        return wire.ToolReturnPart(
            tool_name=call.name,
            content=given[0] if len(given) == 1 else given,
            tool_call_id=call.sent_id,
            outcome="failed" if result.error and dialect.flags_errors else "success",
        )

    def _reply_parts(self, message: Message, calls: Sequence[_Call]) -> list[wire.ModelResponsePart]:
        """A reply that is sent again: its text, calls and thinking."""
        parts = list(_with_text_joined(message.parts))
        own = {
            index: native
            for index, part in enumerate(parts)
            if isinstance(part, Thinking)
            and (native := self._dialect.returned(part, self._signer, self._system)) is not None
        }
        signed = self._dialect.signatures(parts, own)
        strange = _as_text(
            [part for index, part in enumerate(parts) if isinstance(part, Thinking) and index not in own], self._foreign
        )
        remaining = iter(calls)
        given: list[wire.ModelResponsePart] = []
        for index in _order(parts, own):
            if strange and index not in own:
                given.append(wire.TextPart(content=strange))
                strange = ""
            details: dict[str, Any] | None = signed.get(index)
            proof: dict[str, Any] = {"provider_details": details, "provider_name": self._system} if details else {}
            match parts[index]:
                case Thinking():
                    given.extend(own.get(index, ()))
                case Text(text) if text.strip():
                    given.append(wire.TextPart(content=sendable(text), **proof))
                case ToolUse() as use:
                    call = next(remaining)
                    arguments = as_object(use.arguments)
                    given.append(
                        wire.ToolCallPart(tool_name=call.name, args=arguments, tool_call_id=call.sent_id, **proof)
                    )
                case Aborted(why) if not calls:
                    given.append(wire.TextPart(content=f"<!-- {sendable(why)} -->"))
                case _:
                    pass
        return given


def _as_text(parts: Sequence[Thinking], foreign: ForeignThinking) -> str:
    """Foreign thinking of one message as one piece of text; empty if there is none to send."""
    texts = [sendable(part.text).strip() for part in parts if not part.redacted]
    kept = [text for text in texts if text]
    return "<thinking>\n" + "\n\n".join(kept) + "\n</thinking>" if kept and foreign == "preserve" else ""


def _with_text_joined(parts: Iterable[Part]) -> Iterable[Part]:
    """Neighbouring pieces of text as one: some APIs would put empty lines between them."""
    held = ""
    for part in parts:
        if isinstance(part, Text):
            held += part.text
            continue
        if held:
            yield Text(held)
        held = ""
        yield part
    if held:
        yield Text(held)


def _order(parts: Sequence[Part], own: Mapping[int, object]) -> list[int]:
    """Native thinking first, unless the reply already begins with it: then everything stays where it is."""
    said = [index for index, part in enumerate(parts) if not (isinstance(part, Text) and not part.text.strip())]
    if said and said[0] in own:
        return said
    return [index for index in said if index in own] + [index for index in said if index not in own]


def _file(attachment: Attachment, media: frozenset[str]) -> str | wire.BinaryContent:
    """A file as the kind of content the API takes, as text, or as a line that says what is missing."""
    kind = _framed(attachment.mime_type.partition(";")[0].strip().lower())
    name = _framed(sendable(attachment.name or attachment.uri or "attachment"))
    if not attachment.data:
        place = _framed(sendable(attachment.uri or ""))
        where = f" at {place}" if place and place != name else ""
        return f"[{name} ({kind}){where}: the content is not included]"
    if kind.startswith("text/") or kind in _ALSO_TEXT:
        text = attachment.data.decode("utf-8", "replace")
        return f'<attachment name="{name}" type="{kind}">\n{_CLOSING.sub(_opened, text)}\n</attachment>'
    if kind not in media:
        return f"[{name} ({kind}, {len(attachment.data)} bytes) is left out: this model's API does not take it]"
    return wire.BinaryContent(data=attachment.data, media_type=kind)


def _framed(text: str) -> str:
    """On one line, and unable to end what it is written into: whoever made the file named it."""
    return escape(text).translate(_MARKS)


def _opened(found: re.Match[str]) -> str:
    return f"<\\{found[0][1:]}"


_MADE_UP: Final = "pyd_ai_"
"""How ids begin that pydantic-ai gives to calls which have none."""


class Reply:
    def __init__(self, endpoint: Endpoint, tools: Sequence[Tool]) -> None:
        self._dialect = DIALECTS[endpoint.api]
        self._signer = endpoint.signer
        self._names = {tool.api_name: tool.name for tool in tools}
        self._parts: dict[int, wire.ModelResponsePart] = {}
        self._given = 0
        self._unsigned: list[str] = []
        """Thoughts whose signature comes with a later part."""
        self.calls = False

    def take(self, event: wire.ModelResponseStreamEvent) -> Iterable[ModelEvent]:
        if isinstance(event, wire.PartStartEvent):
            self._parts[event.index] = event.part
            yield from self._give(self._complete(event.index))
            yield from self._begun(event.part)
        elif isinstance(event, wire.PartDeltaEvent) and event.index in self._parts:
            delta: Any = event.delta
            self._parts[event.index] = delta.apply(self._parts[event.index])
            yield from _shown(delta)

    def end(self) -> Iterable[ModelEvent]:
        """The reply is whole: what was held back follows."""
        yield from self._give(len(self._parts))
        if self._unsigned:
            yield PartEnded(Thinking("".join(self._unsigned)))
            self._unsigned = []

    def cut(self) -> Iterable[ModelEvent]:
        """The reply is not whole: of what was held back only calls that can be read, and never the last part."""
        for place in range(self._given, len(self._parts) - 1):
            for part in self._ours([self._parts[place]]):
                if not (isinstance(part, ToolUse) and BROKEN in as_object(part.arguments)):
                    yield PartEnded(part)
        self._given = len(self._parts)

    def _begun(self, part: wire.ModelResponsePart) -> Iterable[ModelEvent]:
        match part:
            case wire.TextPart(content=text) if text:
                yield TextDelta(text)
            case wire.ThinkingPart(content=text) if text:
                yield ThinkingDelta(text)
            case wire.ToolCallPart():
                self.calls = True
                yield CallBegun(_id(part.tool_call_id), self._name(part.tool_name))
            case _:
                pass

    def _complete(self, begun: int) -> int:
        """How many parts are complete now that another one has begun."""
        place = begun
        after = self._parts[begun]
        while self._dialect.joins_summaries and place > self._given:
            before = self._parts[place - 1]
            if not (
                isinstance(before, wire.ThinkingPart) and isinstance(after, wire.ThinkingPart) and before.id == after.id
            ):
                break
            place -= 1
        if self._dialect.mixes_calls:
            held = (n for n in range(self._given, place) if isinstance(self._parts[n], wire.ToolCallPart))
            place = min(place, next(held, place))
        return place

    def _give(self, until: int) -> Iterable[ModelEvent]:
        if until > self._given:
            batch = [self._parts[place] for place in range(self._given, until)]
            self._given = until
            for part in self._ours(batch):
                yield PartEnded(part)

    def _ours(self, parts: Sequence[wire.ModelResponsePart]) -> Iterable[Part]:
        together: list[wire.ThinkingPart] = []
        for part in parts:
            if together and not (isinstance(part, wire.ThinkingPart) and part.id == together[0].id):
                yield from self._dialect.thought(together, self._signer, self._unsigned)
                together = []
            match part:
                case wire.ThinkingPart():
                    together.append(part)
                case wire.TextPart(content=text):
                    if text:
                        yield Text(text)
                    yield from self._dialect.proof(part, self._signer, self._unsigned)
                case wire.ToolCallPart():
                    yield ToolUse(_id(part.tool_call_id), self._name(part.tool_name), as_text(cast(Any, part.args)))
                    yield from self._dialect.proof(part, self._signer, self._unsigned)
                case _:
                    pass
        if together:
            yield from self._dialect.thought(together, self._signer, self._unsigned)

    def _name(self, written: str) -> str:
        return self._names.get(written, written)


def _id(given: str) -> str:
    return f"call_{given.removeprefix(_MADE_UP)}" if given.startswith(_MADE_UP) else given


def _shown(delta: Any) -> Iterable[ModelEvent]:
    match delta:
        case wire.TextPartDelta(content_delta=text) if text:
            yield TextDelta(text)
        case wire.ThinkingPartDelta(content_delta=text) if text:
            yield ThinkingDelta(text)
        case _:
            pass
