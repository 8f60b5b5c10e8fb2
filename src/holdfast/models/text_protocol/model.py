"""`TextModel`: any model that can write, as one that can call tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.message import Message, Text
from holdfast.contract.tool import Tool
from holdfast.models.port import Model, ModelError, ModelEvent, ModelFault, Retrying, Stop, Usage
from holdfast.models.settings import Settings
from holdfast.models.text_protocol.corrections import Kind, correction, given_up, reason, worst
from holdfast.models.text_protocol.history import failed_edit, plain
from holdfast.models.text_protocol.stream import Reply

_WHOLE: Final[frozenset[Stop]] = frozenset({"end", "tool_use"})
"""How a reply stops that its model has ended itself."""


class Chosen(Struct, frozen=True):
    """How a model is spoken to."""

    protocol: Literal["native", "text"]
    why: str = ""
    """Where nobody asked for it."""

    def notice(self, name: str) -> str:
        """What a person should know about it; empty where it is as they would expect."""
        return f"{name} writes its tool calls as text: {self.why}." if self.why else ""


class TextModel:
    """Tells `inner` how calls are written, reads them in its replies, and corrects each kind of fault once."""

    def __init__(
        self, inner: Model, *, chosen: Chosen | None = None, edit_repair: bool = True, system_role: bool = True
    ) -> None:
        self.inner = inner
        self.chosen = chosen or Chosen("text")
        self.edit_repair = edit_repair
        self.system_role = system_role
        """Whether it takes a system message; else the first message of the person begins with it."""

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def name(self) -> str:
        return self.inner.name

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncGenerator[ModelEvent]:
        sent = plain(messages, tools, system_role=self.system_role)
        corrected: list[Kind] = []
        spent: Usage | None = None
        """By the replies that came to their end."""
        while True:
            reply = Reply(self.name)
            stream = cast(AsyncGenerator[ModelEvent], self.inner.stream(sent, (), settings))
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        if isinstance(event, Retrying):
                            reply = Reply(self.name)
                            yield event
                        for ours in reply.take(event):
                            yield ours
            except ModelError as error:
                error.usage = _sum(spent, error.usage)
                raise
            ended = reply.ended
            if ended is None:
                message = f"The reply of {self.name} ended before it was complete; send again."
                raise ModelError(ModelFault.CUT, message, usage=spent)
            spent = ended.usage if spent is None else spent + ended.usage
            whole = ended.stop in _WHOLE
            wrong = worst(reply.flaws, cut=not whole)
            if wrong is None:
                break
            kind, flaw = wrong
            if kind in corrected:
                raise ModelError(ModelFault.PROTOCOL, given_up(self.name, kind), usage=spent)
            corrected.append(kind)
            yield Retrying(len(corrected), 0.0, reason(kind))
            edited = failed_edit(messages) if self.edit_repair else None
            told = Message("user", (Text(correction(kind, flaw, failed_edit=edited)),))
            sent = [*sent, reply.raw, told]
        # Of a reply that somebody else ended nobody knows whether its last block was complete.
        calls = reply.calls and not reply.flaws and whole
        for ours in reply.rest(calls=calls):
            yield ours
        yield replace(ended, stop="tool_use" if calls else ended.stop, usage=spent)


def _sum(before: Usage | None, after: Usage | None) -> Usage | None:
    return before + after if before and after else before or after
