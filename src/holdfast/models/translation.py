"""Translates messages to pydantic-ai's for one provider, and its stream events back to ours.

Heavy to import: only `remote_model` imports it, when it makes a request.
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
from holdfast.models.attachments import describe_unsent, missing_reason, one_line
from holdfast.models.call_arguments import (
    INVALID_JSON_KEY,
    CallIds,
    arguments_text,
    parse_arguments,
    replace_surrogates,
)
from holdfast.models.dialects import DIALECTS
from holdfast.models.port import CallBegun, ModelEvent, PartEnded, TextDelta, ThinkingDelta
from holdfast.models.providers import Endpoint
from holdfast.text.attachments import essence, is_text_type, pixels
from holdfast.text.escape import escape
from holdfast.text.truncate import format_size

BEGINNING: Final = "(The conversation begins here.)"
"""Sent as the user's first message if the conversation starts with the assistant, which some providers reject."""
NO_RESULT: Final = "No result was recorded for this call; it was not run again."
_MAX_TEXT: Final = 256 * 1024
"""Bytes of an attached text: a longer one would make every later request too long."""
_CLOSING_TAG: Final = re.compile(r"</(?=\s*attachment)", re.IGNORECASE)
_CHECKED: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types whose header `pixels` reads."""


class _SentCall(Struct, frozen=True):
    id: str
    sent_id: str
    name: str
    """The name sent to the provider."""


class WireRequest(Struct, frozen=True):
    system: str
    messages: Sequence[Any]
    """pydantic-ai's `ModelMessage`s."""
    calls_without_thinking: bool
    """Whether the last reply makes calls but does not begin with thinking signed by this provider."""
    has_media: bool = False
    """Whether it contains images, audio or documents, which the server may not take."""


def to_wire(
    messages: Sequence[Message],
    tools: Sequence[Tool],
    endpoint: Endpoint,
    system: str,
    foreign: ForeignThinking,
    *,
    sees: bool = True,
) -> WireRequest:
    """Translate a conversation. `system` is pydantic-ai's name for the provider; `sees`: the model takes images."""
    writer = _RequestWriter(tools, endpoint, system, foreign, sees=sees)
    for message in messages:
        writer.add(message)
    writer.close()
    return WireRequest(
        "\n\n".join(writer.instructions), writer.messages, writer.calls_without_thinking, writer.has_media
    )


class _RequestWriter:
    def __init__(
        self, tools: Sequence[Tool], endpoint: Endpoint, system: str, foreign: ForeignThinking, *, sees: bool
    ) -> None:
        self.instructions: list[str] = []
        self.has_media = False
        self._sees = sees
        self.messages: list[wire.ModelMessage] = []
        self.calls_without_thinking = False
        self._names = {name: tool.api_name for tool in tools for name in tool.names}
        self._dialect = DIALECTS[endpoint.api]
        self._signer = endpoint.signer
        self._system = system
        self._foreign: ForeignThinking = foreign
        self._ids = CallIds(plain=self._dialect.plain_ids)
        self._unanswered: list[_SentCall] = []
        self._results: list[wire.ToolReturnPart] = []
        self._user_content: list[wire.UserContent] = []

    def add(self, message: Message) -> None:
        if message.role == "system":
            if text := replace_surrogates(message.text).strip():
                self.instructions.append(text)
        elif message.role == "user":
            for part in message.parts:
                self._add_user_part(part)
        else:
            self.close()
            self._unanswered = [self._call(use) for use in message.tool_uses]
            self._reply(message)

    def close(self) -> None:
        """End the user's message: results come first, and every call gets one."""
        for call in self._unanswered:
            self._results.append(self._result(call, ToolResult(call.id, call.name, NO_RESULT, error=True)))
        parts: list[wire.ModelRequestPart] = [*self._results]
        if self._user_content:
            alone = self._user_content[0] if len(self._user_content) == 1 else None
            parts.append(wire.UserPromptPart(content=alone if isinstance(alone, str) else self._user_content))
        if parts:
            self.messages.append(wire.ModelRequest(parts=parts))
        self._unanswered, self._results, self._user_content = [], [], []

    def _call(self, use: ToolUse) -> _SentCall:
        return _SentCall(use.id, self._ids.assign(use.id), self._names.get(use.name) or to_api_name(use.name))

    def _reply(self, message: Message) -> None:
        parts = self._reply_parts(message, self._unanswered)
        self.calls_without_thinking = bool(message.tool_uses) and not isinstance(parts[0], wire.ThinkingPart)
        if parts and not self.messages:
            self.messages.append(wire.ModelRequest(parts=[wire.UserPromptPart(content=BEGINNING)]))
        if parts:
            self.messages.append(wire.ModelResponse(parts=parts, provider_name=self._system))

    def _add_user_part(self, part: Part) -> None:
        match part:
            case Text(text) if text.strip():
                self._user_content.append(replace_surrogates(text))
            case Attachment():
                self._user_content.append(self._file(part))
            case ToolResult(wanted):
                call = next((call for call in self._unanswered if call.id == wanted), None)
                if call is not None:
                    self._unanswered.remove(call)
                    self._results.append(self._result(call, part))
            case _:
                pass

    def _result(self, call: _SentCall, result: ToolResult) -> wire.ToolReturnPart:
        dialect = self._dialect
        found = [self._file(item) for item in result.attachments]
        # Some APIs encode a result of several texts as a JSON list, so there is one.
        texts = [replace_surrogates(result.output), *(text for text in found if isinstance(text, str))]
        files = [file for file in found if not isinstance(file, str)]
        inside = files if dialect.files_in_results else []
        given = dialect.result_content("\n\n".join(filter(None, texts)), inside, error=result.error)
        if len(inside) < len(files):
            self._user_content.extend([f"[attached to the result of {call.sent_id}]", *files])
        return wire.ToolReturnPart(
            tool_name=call.name,
            content=given[0] if len(given) == 1 else given,
            tool_call_id=call.sent_id,
            outcome="failed" if result.error and dialect.flags_errors else "success",
        )

    def _file(self, item: Attachment) -> str | wire.BinaryContent:
        """Return a file as native content if the model takes it, else as text, else as a line that describes it."""
        reason = missing_reason(item)
        if reason is not None:
            return describe_unsent(item, reason, self._names)
        kind = essence(item.mime_type)
        if is_text_type(kind):
            return _text_file(item)
        if kind not in self._dialect.media:
            return describe_unsent(item, "api", self._names)
        if not self._sees:
            return describe_unsent(item, "blind", self._names)
        # A provider rejects a whole request because of one image that it cannot read.
        if kind in _CHECKED and pixels(item.data) is None:
            return describe_unsent(item, "damaged", self._names)
        self.has_media = True
        return wire.BinaryContent(data=item.data, media_type=kind)

    def _reply_parts(self, message: Message, calls: Sequence[_SentCall]) -> list[wire.ModelResponsePart]:
        """Return the text, calls and thinking of an earlier reply."""
        parts = list(_join_text(message.parts))
        own = {
            index: native
            for index, part in enumerate(parts)
            if isinstance(part, Thinking)
            and (native := self._dialect.native_thinking(part, self._signer, self._system)) is not None
        }
        signed = self._dialect.signatures(parts, own)
        strange = _foreign_thinking_text(
            [part for index, part in enumerate(parts) if isinstance(part, Thinking) and index not in own], self._foreign
        )
        remaining = iter(calls)
        given: list[wire.ModelResponsePart] = []
        for index in _part_order(parts, own):
            if strange and index not in own:
                given.append(wire.TextPart(content=strange))
                strange = ""
            details: dict[str, Any] | None = signed.get(index)
            proof: dict[str, Any] = {"provider_details": details, "provider_name": self._system} if details else {}
            match parts[index]:
                case Thinking():
                    given.extend(own.get(index, ()))
                case Text(text) if text.strip():
                    given.append(wire.TextPart(content=replace_surrogates(text), **proof))
                case ToolUse() as use:
                    call = next(remaining)
                    arguments = parse_arguments(use.arguments)
                    given.append(
                        wire.ToolCallPart(tool_name=call.name, args=arguments, tool_call_id=call.sent_id, **proof)
                    )
                case Aborted(why) if not calls:
                    given.append(wire.TextPart(content=f"<!-- {replace_surrogates(why)} -->"))
                case _:
                    pass
        return given


def _foreign_thinking_text(parts: Sequence[Thinking], foreign: ForeignThinking) -> str:
    """Return another provider's thinking in one message as one text; empty if there is none to send."""
    texts = [replace_surrogates(part.text).strip() for part in parts if not part.redacted]
    kept = [text for text in texts if text]
    return "<thinking>\n" + "\n\n".join(kept) + "\n</thinking>" if kept and foreign == "preserve" else ""


def _join_text(parts: Iterable[Part]) -> Iterable[Part]:
    """Merge adjacent text parts: some APIs would insert blank lines between them."""
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


def _part_order(parts: Sequence[Part], own: Mapping[int, object]) -> list[int]:
    """Return the indexes with native thinking first, unless the reply already begins with it."""
    said = [index for index, part in enumerate(parts) if not (isinstance(part, Text) and not part.text.strip())]
    if said and said[0] in own:
        return said
    return [index for index in said if index in own] + [index for index in said if index not in own]


def _text_file(item: Attachment) -> str:
    given = (item.name or item.uri or "attachment", essence(item.mime_type))
    name, kind = (one_line(escape(replace_surrogates(text))).replace('"', "'") for text in given)
    text = item.data[:_MAX_TEXT].decode("utf-8", "replace")
    if item.size > _MAX_TEXT:
        text += f"\n[The first {format_size(_MAX_TEXT)} of {format_size(item.size)} are shown.]"
    return f'<attachment name="{name}" type="{kind}">\n{_CLOSING_TAG.sub(_escape_closing_tag, text)}\n</attachment>'


def _escape_closing_tag(found: re.Match[str]) -> str:
    return f"<\\{found[0][1:]}"


_GENERATED_ID_PREFIX: Final = "pyd_ai_"
"""The prefix of ids that pydantic-ai generates for calls without one."""


class WireReply:
    def __init__(self, endpoint: Endpoint, tools: Sequence[Tool]) -> None:
        self._dialect = DIALECTS[endpoint.api]
        self._signer = endpoint.signer
        self._names = {tool.api_name: tool.name for tool in tools}
        self._parts: dict[int, wire.ModelResponsePart] = {}
        self._emitted = 0
        self._unsigned: list[str] = []
        """Thinking whose signature arrives with a later part."""
        self.has_calls = False

    def feed(self, event: wire.ModelResponseStreamEvent) -> Iterable[ModelEvent]:
        if isinstance(event, wire.PartStartEvent):
            self._parts[event.index] = event.part
            yield from self._emit(self._complete_count(event.index))
            yield from self._start_events(event.part)
        elif isinstance(event, wire.PartDeltaEvent) and event.index in self._parts:
            delta: Any = event.delta
            self._parts[event.index] = delta.apply(self._parts[event.index])
            yield from _delta_events(delta)

    def finish(self) -> Iterable[ModelEvent]:
        """Emit the parts held back until the reply was complete."""
        yield from self._emit(len(self._parts))
        if self._unsigned:
            yield PartEnded(Thinking("".join(self._unsigned)))
            self._unsigned = []

    def abort(self) -> Iterable[ModelEvent]:
        """After a failure, emit complete calls that were held back; the last part may be truncated and is dropped."""
        for place in range(self._emitted, len(self._parts) - 1):
            for part in self._convert([self._parts[place]]):
                if not (isinstance(part, ToolUse) and INVALID_JSON_KEY in parse_arguments(part.arguments)):
                    yield PartEnded(part)
        self._emitted = len(self._parts)

    def _start_events(self, part: wire.ModelResponsePart) -> Iterable[ModelEvent]:
        match part:
            case wire.TextPart(content=text) if text:
                yield TextDelta(text)
            case wire.ThinkingPart(content=text) if text:
                yield ThinkingDelta(text)
            case wire.ToolCallPart():
                self.has_calls = True
                yield CallBegun(_call_id(part.tool_call_id), self._name(part.tool_name))
            case _:
                pass

    def _complete_count(self, begun: int) -> int:
        """Return how many parts are complete once part `begun` has started."""
        place = begun
        after = self._parts[begun]
        while self._dialect.joins_summaries and place > self._emitted:
            before = self._parts[place - 1]
            if not (
                isinstance(before, wire.ThinkingPart) and isinstance(after, wire.ThinkingPart) and before.id == after.id
            ):
                break
            place -= 1
        if self._dialect.interleaves_calls:
            held = (n for n in range(self._emitted, place) if isinstance(self._parts[n], wire.ToolCallPart))
            place = min(place, next(held, place))
        return place

    def _emit(self, until: int) -> Iterable[ModelEvent]:
        if until > self._emitted:
            batch = [self._parts[place] for place in range(self._emitted, until)]
            self._emitted = until
            for part in self._convert(batch):
                yield PartEnded(part)

    def _convert(self, parts: Sequence[wire.ModelResponsePart]) -> Iterable[Part]:
        together: list[wire.ThinkingPart] = []
        for part in parts:
            if together and not (isinstance(part, wire.ThinkingPart) and part.id == together[0].id):
                yield from self._dialect.thinking_from(together, self._signer, self._unsigned)
                together = []
            match part:
                case wire.ThinkingPart():
                    together.append(part)
                case wire.TextPart(content=text):
                    if text:
                        yield Text(text)
                    yield from self._dialect.signature_from(part, self._signer, self._unsigned)
                case wire.ToolCallPart():
                    yield ToolUse(
                        _call_id(part.tool_call_id), self._name(part.tool_name), arguments_text(cast(Any, part.args))
                    )
                    yield from self._dialect.signature_from(part, self._signer, self._unsigned)
                case _:
                    pass
        if together:
            yield from self._dialect.thinking_from(together, self._signer, self._unsigned)

    def _name(self, written: str) -> str:
        return self._names.get(written, written)


def _call_id(given: str) -> str:
    return f"call_{given.removeprefix(_GENERATED_ID_PREFIX)}" if given.startswith(_GENERATED_ID_PREFIX) else given


def _delta_events(delta: Any) -> Iterable[ModelEvent]:
    match delta:
        case wire.TextPartDelta(content_delta=text) if text:
            yield TextDelta(text)
        case wire.ThinkingPartDelta(content_delta=text) if text:
            yield ThinkingDelta(text)
        case _:
            pass
