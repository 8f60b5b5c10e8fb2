"""Room for small models: old calls are left out and long results shortened, by rule and the same way every time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.message import Message, Part, Thinking, ToolResult, ToolUse

KEEP: Final = 10
"""Messages at the end whose calls always stay."""


class Limits(Struct, frozen=True):
    window: int
    messages: int
    lines: int


LIMITS: Final = (Limits(16_000, 40, 200), Limits(8_000, 30, 150), Limits(4_000, 20, 80), Limits(0, 12, 40))


def trim(messages: Sequence[Message], window: int) -> list[Message]:
    """The messages as a model with room for `window` tokens is sent them. A call and its result go together.

    The cut moves in steps, not with every message: between two steps what is sent only grows at its end, so that a
    provider's prompt cache stays good.
    """
    limits = next(limits for limits in LIMITS if window >= limits.window)
    cut = _cut(messages, limits.messages)
    made: list[Message] = []
    for place, message in enumerate(messages):
        parts = _without_calls(message.parts) if place < cut else _shortened(message.parts, limits.lines)
        if not parts:
            continue
        if made and made[-1].role == message.role:
            made[-1] = Message(message.role, (*made[-1].parts, *parts))
        else:
            made.append(Message(message.role, parts))
    return made


def _cut(messages: Sequence[Message], limit: int) -> int:
    """How many messages from the start lose their calls, so that at most `limit` are left where that can be."""
    step, cut, left = limit - KEEP, 0, len(messages)
    while left > limit and cut + step + KEEP <= len(messages):
        left -= sum(not _without_calls(message.parts) for message in messages[cut : cut + step])
        cut += step
    return cut - 1 if cut and messages[cut - 1].tool_uses else cut


def _without_calls(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Thinking goes with the calls: its signature is only good together with them."""
    if not any(isinstance(part, ToolUse | ToolResult) for part in parts):
        return parts
    return tuple(part for part in parts if not isinstance(part, ToolUse | ToolResult | Thinking))


def _shortened(parts: tuple[Part, ...], limit: int) -> tuple[Part, ...]:
    return tuple(_short(part, limit) if isinstance(part, ToolResult) else part for part in parts)


def _short(result: ToolResult, limit: int) -> ToolResult:
    lines = result.output.split("\n")
    if len(lines) <= limit:
        return result
    kept = "\n".join(lines[:limit])
    return replace(result, output=f"{kept}\n[{len(lines) - limit} more lines left out to save room]")
