"""`ConstrainedModel`: the server lets a model write nothing but one tool call or an answer, as a JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, cast

from msgspec.structs import replace

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Json, encode_json, parse_json
from holdfast.contract.message import Message, Text, Thinking, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.call_arguments import parse_arguments
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
from holdfast.models.schema_outline import enforced_schema, first_sentence, signature
from holdfast.models.text_protocol.prompt import as_text, join_text
from holdfast.models.text_protocol.syntax import short_name
from holdfast.models.written_calls import WrittenCalls, find_calls

TOOL: Final = "tool"
ARGUMENTS: Final = "arguments"
ANSWER: Final = "answer"
_CALL_FORM: Final = '{"tool": NAME, "arguments": {…}}'
_ANSWER_FORM: Final = '{"answer": TEXT}'
_INTRODUCTION: Final = (
    "You work in a project with tools. Each of your replies is one JSON object, either a tool call\n"
    f"{_CALL_FORM}\n"
    "or your answer to the user\n"
    f"{_ANSWER_FORM}\n"
    "After a call, its result is sent to you. Look things up with the tools, do not guess. Answer as soon as a result "
    "shows the answer; name the files it is in."
)
_ANSWER_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {ANSWER: {"type": "string"}},
    "required": [ANSWER],
    "additionalProperties": False,
}
_UNIT: Final = (
    r'[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""A character of a JSON string, or an escape sequence that is complete and valid."""
_BEGUN_ANSWER: Final = re.compile(rf'\s*+\{{\s*+"{ANSWER}"\s*+:\s*+"((?:{_UNIT})*+)')
"""The first key of a reply counts, whatever follows it. An answer that is not valid JSON ends where it is not."""
_PROBE: Final = "Count from one to three in words."
_PROBE_KEY: Final = "holdfast"
_PROBE_TOKENS: Final = 24
_ANSWERED_WITHOUT: Final = frozenset(
    {ModelFault.BAD_REQUEST, ModelFault.PROTOCOL, ModelFault.REFUSED, ModelFault.CONTEXT, ModelFault.NO_TOOLS}
)
"""Faults by which a server rejects the probe. With others it cannot be asked, and a request would fail as well."""


def names_in_prompt(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the name of each tool in the prompt: the short one, unless another tool has it as its own."""
    taken = {tool.name for tool in tools}
    return {tool.name: tool.name if (short := short_name(tool.name)) in taken else short for tool in tools}


def reply_schema(tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the schema of a reply: an answer, or a call of one of the tools."""
    names = names_in_prompt(tools)
    calls = [
        {
            "type": "object",
            "properties": {TOOL: {"const": names[tool.name]}, ARGUMENTS: enforced_schema(tool.input_schema)},
            "required": [TOOL, ARGUMENTS],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    return {"anyOf": [_ANSWER_SCHEMA, *calls]} if calls else _ANSWER_SCHEMA


def instructions(tools: Sequence[Tool]) -> str:
    """Return the tool section of the system prompt."""
    if not tools:
        return f"Each of your replies is one JSON object: {_ANSWER_FORM}"
    names = names_in_prompt(tools)
    return "\n".join((_INTRODUCTION, "", "Tools:", *(_entry(tool, names[tool.name]) for tool in tools)))


def _entry(tool: Tool, name: str) -> str:
    form = f'{{"tool": {json.dumps(name)}, "arguments": {signature(tool.input_schema)}}}'
    meaning = first_sentence(tool.description)
    return f"{form} - {meaning}" if meaning else form


def write_call(name: str, args: Json) -> str:
    """Return a call as the model writes it. `name`: as in the prompt."""
    return json.dumps({TOOL: name, ARGUMENTS: args}, ensure_ascii=False)


def to_json_text(messages: Sequence[Message], tools: Sequence[Tool], *, system_role: bool = True) -> list[Message]:
    """Return the conversation with the model's replies as JSON objects and results as text."""
    rewrite = partial(_rewrite, names_in_prompt(tools))
    return as_text(messages, instructions(tools), rewrite, system_role=system_role)


def _rewrite(names: Mapping[str, str], message: Message) -> Message:
    if message.role != "assistant":
        return join_text(message)
    calls = [
        write_call(names.get(use.name) or short_name(use.name), parse_arguments(use.arguments))
        for use in message.tool_uses
    ]
    return Message("assistant", (Text("\n".join(calls) or json.dumps({ANSWER: message.text}, ensure_ascii=False)),))


class ConstrainedReply:
    """Collects one reply: shows the text of an answer while it arrives, and a call once it is complete."""

    def __init__(self, name: str, tools: Sequence[Tool]) -> None:
        """`name`: the model's name, for error messages."""
        self._name = name
        self._tools = {short: name for name, short in names_in_prompt(tools).items()}
        """The tools by their names in the prompt."""
        self._written: list[str] = []
        self._part: list[str] = []
        """Deltas of the current text part."""
        self._size = self._read_at = 0
        self._shown = ""
        self.thoughts: list[PartEnded] = []
        self.ended: ReplyEnded | None = None

    @property
    def raw(self) -> str:
        return "".join(self._written)

    def feed(self, event: ModelEvent) -> Iterator[ModelEvent]:
        match event:
            case TextDelta(text):
                self._part.append(text)
                yield from self._add(text)
            case PartEnded(Text(text)):
                # The complete part is authoritative; a model need not stream deltas.
                streamed = "".join(self._part)
                if not text.startswith(streamed):
                    message = f"The final text of {self._name} differs from the text it streamed; send again."
                    raise ModelError(ModelFault.PROTOCOL, message)
                self._part = []
                yield from self._add(text[len(streamed) :])
            case PartEnded(Thinking()):
                self.thoughts.append(event)
                yield event
            case ThinkingDelta():
                yield event
            case ReplyEnded():
                self.ended = event
            case _:
                pass

    def _add(self, text: str) -> Iterator[ModelEvent]:
        self._written.append(text)
        self._size += len(text)
        if self._size >= self._read_at:
            # Reads the reply again only after it has grown, so that the time stays linear.
            self._read_at = self._size + self._size // 16 + 1
            yield from self._show(_begun_answer(self.raw))

    def _show(self, answer: str) -> Iterator[ModelEvent]:
        if len(answer) > len(self._shown) and answer.startswith(self._shown):
            yield TextDelta(answer[len(self._shown) :])
            self._shown = answer

    def read(self, *, whole: bool) -> ToolUse | Text | None:
        """Return what the reply is; None if it is neither a call nor an answer. A truncated call is empty text."""
        if not whole:
            begun = _begun_answer(self.raw)
            return Text(begun if begun.startswith(self._shown) else self._shown)
        try:
            reply = parse_json(self.raw.strip())
        except BadJson:
            return None
        match reply:
            case {"tool": str(name), "arguments": dict(arguments), **rest} if not rest and name in self._tools:
                return ToolUse("call-1", self._tools[name], encode_json(arguments).decode())
            case {"answer": str(answer), **rest} if not rest:
                return Text(answer)
            case _:
                return None

    def finish(self, part: ToolUse | Text) -> Iterator[ModelEvent]:
        """Emit the rest of the reply."""
        if isinstance(part, ToolUse):
            yield CallBegun(part.id, part.name)
            yield PartEnded(part)
        elif part.text:
            yield from self._show(part.text)
            yield PartEnded(part)


def _begun_answer(text: str) -> str:
    """Return the answer that a truncated reply begins; empty if it does not begin with one.

    The answer that a longer reply begins starts with that of a shorter one, so what was shown stays valid.
    """
    found = _BEGUN_ANSWER.match(text)
    return "" if found is None else json.loads(f'"{found[1]}"'.encode(errors="replace"))


class ConstrainedModel(WrappedModel):
    """Sends `inner` the schema of its reply, which the server enforces while decoding."""

    def __init__(self, inner: Model, *, choice: ProtocolChoice | None = None, system_role: bool = True) -> None:
        super().__init__(inner, choice or ProtocolChoice("constrained"))
        self.system_role = system_role
        self._tools: dict[str, Tool] = {}
        """All tools that were offered: a call of one that is no longer offered is still no answer."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        self._tools |= {tool.name: tool for tool in tools}
        sent = to_json_text(messages, tools, system_role=self.system_role)
        settings = replace(settings, response_schema=reply_schema(tools))
        spent: Usage | None = None
        corrected = False
        while True:
            reply = ConstrainedReply(self.name, tools)
            stream = cast(AsyncGenerator[ModelEvent], self.inner.stream(sent, (), settings))
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        if isinstance(event, Retrying):
                            reply = ConstrainedReply(self.name, tools)
                            yield event
                        for ours in reply.feed(event):
                            yield ours
            except ModelError as error:
                error.add_usage(spent)
                raise
            ended = reply.ended
            if ended is None:
                raise self.incomplete_reply(spent)
            spent = ended.usage if spent is None else spent + ended.usage
            whole = ended.stop in COMPLETE_STOPS
            part = reply.read(whole=whole)
            written = find_calls(part.text, tuple(self._tools.values())) if whole and isinstance(part, Text) else None
            if written and written.may_be_made(corrected=corrected):
                yield Retrying(1, 0.0, "The model wrote its call into its answer; the call is made.")
                for ours in (*reply.thoughts, *written.events()):
                    yield ours
                yield replace(ended, stop="tool_use", usage=spent)
                return
            if part is not None and not (written and written.are_any):
                for ours in reply.finish(part):
                    yield ours
                stop = "tool_use" if isinstance(part, ToolUse) else ended.stop
                yield replace(ended, stop=stop, usage=spent)
                return
            if corrected:
                raise ModelError(ModelFault.MALFORMED, _give_up_message(self.name, written), usage=spent)
            corrected = True
            yield Retrying(1, 0.0, f"The model {_mistake(written)}; nothing was run, and it was asked to correct it.")
            note = correction(written, tools)
            sent = [*sent, Message("assistant", (Text(reply.raw),)), Message("user", (Text(note),))]


def _mistake(written: WrittenCalls | None) -> str:
    return "wrote a tool call into its answer" if written else "replied with neither a call nor an answer"


def _give_up_message(name: str, written: WrittenCalls | None) -> str:
    again = f"{name} {_mistake(written)}, and again after it was corrected; nothing was run; "
    if written:
        return f"{again}ask for less at a time, or choose another model or protocol."
    return f'{again}its server does not enforce the form of replies: set `model.protocol` to "text" or "native".'


def correction(written: WrittenCalls | None, tools: Sequence[Tool]) -> str:
    """Return the message for a model whose reply was no call and no answer, or an answer with calls in its text."""
    if written is None:
        form = f"{_CALL_FORM} or {_ANSWER_FORM}" if tools else _ANSWER_FORM
        return f"{CORRECTION_MARK} Nothing was run: your reply cannot be read. Reply with one JSON object: {form}"
    names = names_in_prompt(tools)
    made_up = " Only the runtime writes results." if written.fabricated else ""
    calls = [write_call(names.get(call.name) or short_name(call.name), call.args) for call in written.calls[:1]]
    wanted = calls[0] if calls else _CALL_FORM
    return (
        f"{CORRECTION_MARK} Nothing was run: your answer has a tool call in its text.{made_up} Reply with the call "
        f"itself:\n{wanted}"
    )


async def probe_schemas(model: Model, settings: Settings) -> tuple[bool, Usage]:
    """Whether the server of a model enforces a schema: ask for words, and allow only an object.

    Raises `ModelError` if the server cannot be asked.
    """
    schema = {
        "type": "object",
        "properties": {_PROBE_KEY: {"const": True}},
        "required": [_PROBE_KEY],
        "additionalProperties": False,
    }
    asked = replace(settings, response_schema=schema, max_tokens=_PROBE_TOKENS, thinking=None)
    texts: list[str] = []
    spent = Usage()
    stream = cast(AsyncGenerator[ModelEvent], model.stream([Message("user", (Text(_PROBE),))], (), asked))
    try:
        async with aclosing(stream) as events:
            async for event in events:
                match event:
                    case Retrying():
                        texts.clear()
                    case PartEnded(Text(text)):
                        texts.append(text)
                    case ReplyEnded(usage=usage):
                        spent = usage
                    case _:
                        pass
        return parse_json("".join(texts).strip()) == {_PROBE_KEY: True}, spent
    except ModelError as error:
        if error.fault not in _ANSWERED_WITHOUT:
            raise
        return False, error.usage or spent
    except BadJson:
        return False, spent
