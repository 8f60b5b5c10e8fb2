"""A reply of the model that is sent again: its text, calls and thinking as the parts of pydantic-ai."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from holdfast.config.model import ForeignThinking
from holdfast.contract.message import Aborted, Message, Part, Text, Thinking, ToolUse
from holdfast.models import thoughts
from holdfast.models.arguments import as_object, sendable
from holdfast.models.endpoint import Endpoint

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponsePart


class Call(Struct, frozen=True):
    id: str
    sent_id: str
    name: str
    """As the provider knows it."""


def reply_parts(
    message: Message, calls: Sequence[Call], endpoint: Endpoint, system: str, foreign: ForeignThinking
) -> list[ModelResponsePart]:
    from pydantic_ai.messages import TextPart, ToolCallPart

    parts = list(_with_text_joined(message.parts))
    own = {
        index: native
        for index, part in enumerate(parts)
        if isinstance(part, Thinking) and (native := thoughts.native(part, endpoint, system)) is not None
    }
    signed = _signed(parts, own) if endpoint.api in ("google", "vertex") else {}
    strange = thoughts.as_text(
        [part for index, part in enumerate(parts) if isinstance(part, Thinking) and index not in own], foreign
    )
    remaining = iter(calls)
    given: list[ModelResponsePart] = []
    for index in _order(parts, own):
        if strange and index not in own:
            given.append(TextPart(content=strange))
            strange = ""
        details: dict[str, Any] | None = signed.get(index)
        proof: dict[str, Any] = {"provider_details": details, "provider_name": system} if details else {}
        match parts[index]:
            case Thinking():
                given.extend(own.get(index, ()))
            case Text(text) if text.strip():
                given.append(TextPart(content=sendable(text), **proof))
            case ToolUse() as use:
                call = next(remaining)
                arguments = as_object(use.arguments)
                given.append(ToolCallPart(tool_name=call.name, args=arguments, tool_call_id=call.sent_id, **proof))
            case Aborted(why) if not calls:
                given.append(TextPart(content=f"<!-- {sendable(why)} -->"))
            case _:
                pass
    return given


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


def _signed(parts: Sequence[Part], own: Mapping[int, object]) -> dict[int, dict[str, Any]]:
    """Which part each signature of Gemini belongs to: the one before it, the first of several calls, else the next."""
    signed: dict[int, dict[str, Any]] = {}
    for index in own:
        part = parts[index]
        target = _before(parts, index)
        if target is None:
            target = _after(parts, index)
        if isinstance(part, Thinking) and target is not None and target not in signed:
            signed[target] = {"thought_signature": part.signature}
    return signed


def _before(parts: Sequence[Part], index: int) -> int | None:
    place = index - 1
    if place < 0 or not isinstance(parts[place], Text | ToolUse):
        return None
    while place > 0 and isinstance(parts[place], ToolUse) and isinstance(parts[place - 1], ToolUse):
        place -= 1
    return place


def _after(parts: Sequence[Part], index: int) -> int | None:
    rest = range(index + 1, len(parts))
    calls = (place for place in rest if isinstance(parts[place], ToolUse))
    texts = (place for place in rest if isinstance(parts[place], Text))
    return next(calls, next(texts, None))
