"""A reply as it comes in: the events of pydantic-ai turned into ours, each part given out when it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from holdfast.contract.message import Part, Text, Thinking, ToolUse
from holdfast.contract.tool import Tool
from holdfast.models import thoughts
from holdfast.models.arguments import BROKEN, as_object, as_text
from holdfast.models.endpoint import Endpoint
from holdfast.models.port import CallBegun, ModelEvent, PartEnded, TextDelta, ThinkingDelta

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponsePart, ModelResponseStreamEvent, ThinkingPart

_MADE_UP: Final = "pyd_ai_"
"""How ids begin that pydantic-ai gives to calls which have none."""


class Reply:
    def __init__(self, endpoint: Endpoint, tools: Sequence[Tool]) -> None:
        self._endpoint = endpoint
        self._names = {tool.api_name: tool.name for tool in tools}
        self._parts: dict[int, ModelResponsePart] = {}
        self._given = 0
        self._unsigned: list[str] = []
        """Thoughts of Gemini whose signature comes with a later part."""
        self.calls = False

    def take(self, event: ModelResponseStreamEvent) -> Iterable[ModelEvent]:
        from pydantic_ai.messages import PartDeltaEvent, PartStartEvent

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
        from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

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
        from pydantic_ai.messages import ThinkingPart, ToolCallPart

        place = begun
        while place > self._given:
            before, after = self._parts[place - 1], self._parts[begun]
            # The summaries of one reasoning item are one part; its signature comes after the last of them.
            if not (isinstance(before, ThinkingPart) and isinstance(after, ThinkingPart) and before.id == after.id):
                break
            if self._endpoint.api != "openai":
                break
            place -= 1
        if self._endpoint.api == "openai-chat":
            # Its calls may be written by turns.
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
        from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

        together: list[ThinkingPart] = []
        for part in parts:
            if together and not (isinstance(part, ThinkingPart) and part.id == together[0].id):
                yield from self._thought(together)
                together = []
            match part:
                case ThinkingPart():
                    together.append(part)
                case TextPart(content=text):
                    if text:
                        yield Text(text)
                    yield from self._proof(part)
                case ToolCallPart():
                    yield ToolUse(_id(part.tool_call_id), self._name(part.tool_name), as_text(cast(Any, part.args)))
                    yield from self._proof(part)
                case _:
                    pass
        if together:
            yield from self._thought(together)

    def _thought(self, parts: Sequence[ThinkingPart]) -> Iterable[Thinking]:
        signer, first = self._endpoint.signer, parts[0]
        texts = [part.content for part in parts if part.content]
        match self._endpoint.api:
            case "anthropic" if first.id == thoughts.REDACTED:
                yield Thinking(first.signature or "", signer, redacted=True)
            case "anthropic":
                yield Thinking("".join(texts), signer if first.signature else None, first.signature or None)
            case "openai" if first.signature and first.id:
                yield Thinking("\n\n".join(texts), signer, thoughts.seal(first.id, first.signature, texts))
            case "openai" | "openai-chat":
                if text := "\n\n".join(texts):
                    yield Thinking(text)
            case "google" | "vertex":
                self._unsigned.extend(texts)
                for part in parts:
                    yield from self._proof(part)

    def _proof(self, part: ModelResponsePart) -> Iterable[Thinking]:
        """The signature of Gemini that came with a part, after it, with the thoughts that led to it."""
        details: dict[str, Any] = part.provider_details or {}
        signature = details.get("thought_signature")
        if isinstance(signature, str) and self._endpoint.api in ("google", "vertex"):
            yield Thinking("".join(self._unsigned), self._endpoint.signer, signature)
            self._unsigned = []

    def _name(self, written: str) -> str:
        return self._names.get(written, written)


def _id(given: str) -> str:
    return f"call_{given.removeprefix(_MADE_UP)}" if given.startswith(_MADE_UP) else given


def _shown(delta: Any) -> Iterable[ModelEvent]:
    from pydantic_ai.messages import TextPartDelta, ThinkingPartDelta

    match delta:
        case TextPartDelta(content_delta=text) if text:
            yield TextDelta(text)
        case ThinkingPartDelta(content_delta=text) if text:
            yield ThinkingDelta(text)
        case _:
            pass
