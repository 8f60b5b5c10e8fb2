"""A reply as it comes in: the events of pydantic-ai turned into ours, each part given out when it is complete.

Heavy to import; only `transport` does, when a request is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from pydantic_ai.messages import (
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
)

from holdfast.contract.message import Part, Text, Thinking, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models.arguments import BROKEN, as_object, as_text
from holdfast.models.dialects import DIALECTS
from holdfast.models.port import CallBegun, ModelEvent, PartEnded, TextDelta, ThinkingDelta
from holdfast.models.providers import Endpoint

_MADE_UP: Final = "pyd_ai_"
"""How ids begin that pydantic-ai gives to calls which have none."""


class Reply:
    def __init__(self, endpoint: Endpoint, tools: Sequence[Tool]) -> None:
        self._dialect = DIALECTS[endpoint.api]
        self._signer = endpoint.signer
        self._names = {tool.api_name: tool.name for tool in tools}
        self._parts: dict[int, ModelResponsePart] = {}
        self._given = 0
        self._unsigned: list[str] = []
        """Thoughts whose signature comes with a later part."""
        self.calls = False

    def take(self, event: ModelResponseStreamEvent) -> Iterable[ModelEvent]:
        if isinstance(event, PartStartEvent):
            self._parts[event.index] = event.part
            yield from self._give(self._complete(event.index))
            yield from self._begun(event.part)
        elif isinstance(event, PartDeltaEvent) and event.index in self._parts:
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

    def _begun(self, part: ModelResponsePart) -> Iterable[ModelEvent]:
        match part:
            case TextPart(content=text) if text:
                yield TextDelta(text)
            case ThinkingPart(content=text) if text:
                yield ThinkingDelta(text)
            case ToolCallPart():
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
            if not (isinstance(before, ThinkingPart) and isinstance(after, ThinkingPart) and before.id == after.id):
                break
            place -= 1
        if self._dialect.mixes_calls:
            held = (n for n in range(self._given, place) if isinstance(self._parts[n], ToolCallPart))
            place = min(place, next(held, place))
        return place

    def _give(self, until: int) -> Iterable[ModelEvent]:
        if until > self._given:
            batch = [self._parts[place] for place in range(self._given, until)]
            self._given = until
            for part in self._ours(batch):
                yield PartEnded(part)

    def _ours(self, parts: Sequence[ModelResponsePart]) -> Iterable[Part]:
        together: list[ThinkingPart] = []
        for part in parts:
            if together and not (isinstance(part, ThinkingPart) and part.id == together[0].id):
                yield from self._dialect.thought(together, self._signer, self._unsigned)
                together = []
            match part:
                case ThinkingPart():
                    together.append(part)
                case TextPart(content=text):
                    if text:
                        yield Text(text)
                    yield from self._dialect.proof(part, self._signer, self._unsigned)
                case ToolCallPart():
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
        case TextPartDelta(content_delta=text) if text:
            yield TextDelta(text)
        case ThinkingPartDelta(content_delta=text) if text:
            yield ThinkingDelta(text)
        case _:
            pass
