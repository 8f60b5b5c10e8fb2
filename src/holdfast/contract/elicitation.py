"""What is asked of the person behind an interface while a call runs, and what came back. It is never put to a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from holdfast.contract.json import Args, Json


class FormRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="form"):
    """A few values to fill in."""

    message: str
    schema: Args
    """A flat object: strings, numbers, booleans, choices."""
    key: str = ""
    """What a client that answers by name calls it; empty: the interface names it."""


class UrlRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="visit"):
    """A page to open, for what must not pass through here: a login, a payment."""

    message: str
    url: str
    id: str = ""
    key: str = ""


class SamplingMessage(Struct, frozen=True):
    """One turn of what is to be answered."""

    role: Literal["user", "assistant"]
    content: Json
    """MCP content blocks, in wire form."""


class SamplingRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="completion"):
    """A reply a program would like from a model; the person reads it first and gives it, or does not."""

    messages: tuple[SamplingMessage, ...]
    system: str = ""
    max_tokens: int = 0
    extra: Args | None = None
    """What else was asked for (temperature, stop sequences, preferences, tools), in wire form."""
    key: str = ""


class RootsRequest(Struct, frozen=True, tag_field="kind", tag="roots"):
    """Which folders the work is about."""

    key: str = ""


Question = FormRequest | UrlRequest | SamplingRequest | RootsRequest


class Elicitation(Struct, frozen=True, kw_only=True):
    """Questions of one tool or server, asked together."""

    asked_by: str
    """`mcp:server`, or the name of the tool."""
    questions: tuple[Question, ...]
    call_id: str = ""
    """The call it is asked for; empty if that is not known."""
    group: str = ""
    """The outermost call of that call."""


class ElicitationReply(Struct, frozen=True, kw_only=True):
    """What the person said to one question."""

    action: Literal["accept", "decline", "cancel"]
    content: Args | None = None
    """Form: the values. Completion: role, content, model and stopReason, in wire form. Roots: `{"roots": [...]}`."""
    by: str = ""


Elicitor = Callable[[Elicitation], Awaitable[tuple[ElicitationReply, ...]]]
"""Puts questions to the person; one reply for each. Nobody there: `cancel`."""

CANCELLED = ElicitationReply(action="cancel")
