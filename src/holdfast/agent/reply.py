"""Phase 3 of the loop: collect the model's stream into a reply, complete or partial."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.loop_context import LoopContext
from holdfast.agent.slot_state import INTERRUPTED
from holdfast.contract.message import Message, Part, Text, ToolResult, ToolUse
from holdfast.models import port
from holdfast.runtime.results import message_of

_GRACE: Final = 2.0
"""Seconds that a request may take to end after it was cancelled."""


class ModelReply(Struct, frozen=True):
    parts: tuple[Part, ...]
    ended: port.ReplyEnded | None = None
    """None for a partial reply."""
    error: str = ""
    """Why the reply is partial, as a sentence."""
    malformed: bool = False
    """Partial because the model wrote calls that cannot be read, also after it was corrected."""
    stopped: bool = False
    """Cancelled by a person."""
    usage: port.Usage | None = None


class ReplyCollector:
    """Collects the events of a model until it is closed."""

    def __init__(self, context: LoopContext) -> None:
        self._context = context
        self._parts: list[Part] = []
        self._text: list[str] = []
        self._closed = False
        self.ended: port.ReplyEnded | None = None

    async def collect(self, stream: AsyncIterator[port.ModelEvent]) -> None:
        try:
            async for event in stream:
                if self._closed:
                    return
                self._add(event)
        finally:
            await _close(stream)
        if self.ended is None and not self._closed:
            raise port.ModelError(port.ModelFault.CUT, "The model's stream ended before the reply was complete. Retry.")

    def _add(self, event: port.ModelEvent) -> None:
        if isinstance(event, port.TextDelta | port.ThinkingDelta | port.CallBegun | port.Retrying):
            self._context.emit(event)
        if isinstance(event, port.TextDelta):
            self._text.append(event.text)
        elif isinstance(event, port.Retrying):
            self._parts.clear()
            self._text.clear()
        elif isinstance(event, port.PartEnded):
            if isinstance(event.part, Text):
                self._text.clear()
            self._parts.append(event.part)
        elif isinstance(event, port.ReplyEnded):
            self.ended = event

    def close(self) -> tuple[Part, ...]:
        """The parts of the reply; of a partial one, the complete parts and the text so far."""
        self._closed = True
        if self.ended is not None:
            return with_unique_ids(self._parts)
        text = "".join(self._text)
        parts = [*self._parts, Text(text)] if text.strip() else self._parts
        has_content = any(isinstance(part, ToolUse) or (isinstance(part, Text) and part.text.strip()) for part in parts)
        return with_unique_ids(parts) if has_content else ()


async def receive_reply(context: LoopContext, stream: AsyncIterator[port.ModelEvent]) -> ModelReply:
    """The model's reply. Does not raise: an error of the model is in the reply."""
    collector = ReplyCollector(context)
    request = asyncio.create_task(collector.collect(stream))
    stop = asyncio.create_task(context.stop.wait())
    await asyncio.wait({request, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not request.done():
        request.cancel()
        await asyncio.wait({request}, timeout=_GRACE)
    parts = collector.close()
    if (ended := collector.ended) is not None:
        if ended.stop == "refusal":  # calls of a refused reply must not run
            parts = tuple(part for part in parts if not isinstance(part, ToolUse))
        return ModelReply(parts, ended, usage=ended.usage)
    if not request.done() or request.cancelled():
        return ModelReply(parts, error=INTERRUPTED, stopped=True)
    error = request.exception()
    usage = error.usage if isinstance(error, port.ModelError) else None
    malformed = isinstance(error, port.ModelError) and error.fault is port.ModelFault.MALFORMED
    message = _error_message(context, error)
    return ModelReply(parts, error=message, malformed=malformed, stopped=context.stopped, usage=usage)


def _error_message(context: LoopContext, error: BaseException | None) -> str:
    if isinstance(error, port.ModelError) or error is None:
        return str(error)
    if not isinstance(error, Exception):
        raise error
    context.runtime.events.internal_error(error)
    return f"The model could not be asked: {message_of(error, type(error).__name__)}"


def with_unique_ids(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts with unique call ids: a missing or duplicate id is replaced, so that each call gets its own result."""
    taken = {part.id for part in parts if isinstance(part, ToolUse)}
    seen: set[str] = set()
    numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(2))
    made: list[Part] = []
    for part in parts:
        if isinstance(part, ToolUse):
            name = part.id
            if not name or name in seen:
                tried = (f"{name or 'call'}-{number}" for number in numbers[name])
                name = next(new for new in tried if new not in taken and new not in seen)
            seen.add(name)
            part = replace(part, id=name)  # noqa: PLW2901 - the same part with a unique id
        made.append(part)
    return tuple(made)


def calls_without_result(messages: Sequence[Message]) -> list[str]:
    """The ids of calls without a result in the next message. Providers reject such requests."""
    missing: list[str] = []
    for place, message in enumerate(messages):
        if message.tool_uses:
            after = messages[place + 1].parts if place + 1 < len(messages) else ()
            results = Counter(part.id for part in after if isinstance(part, ToolResult))
            missing += (Counter(use.id for use in message.tool_uses) - results).elements()
    return missing


async def _close(stream: Any) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
