"""Questions to the user while a call runs, and the replies: the elicitation, sampling and roots requests of MCP.

They go to the user only, never to a model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from msgspec import Struct

from holdfast.contract.json import Args, Json


class FormRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="form"):
    """A form to fill in (MCP form elicitation)."""

    message: str
    schema: Args
    """A flat object schema of strings, numbers, booleans and enums."""
    key: str = ""
    """The name under which the client replies; if empty, the interface chooses one."""


class UrlRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="visit"):
    """A page to open for data that must not pass through holdfast, such as a login (MCP URL elicitation)."""

    message: str
    url: str
    id: str = ""
    key: str = ""


class SamplingMessage(Struct, frozen=True):
    """One message of a sampling request."""

    role: Literal["user", "assistant"]
    content: Json
    """MCP content blocks, in wire form."""


class SamplingRequest(Struct, frozen=True, kw_only=True, tag_field="kind", tag="completion"):
    """A model completion that a server asks for (MCP sampling). The user decides whether to provide it."""

    messages: tuple[SamplingMessage, ...]
    system: str = ""
    max_tokens: int = 0
    extra: Args | None = None
    """Other request parameters (temperature, stop sequences, model preferences, tools) in wire form."""
    key: str = ""


class RootsRequest(Struct, frozen=True, tag_field="kind", tag="roots"):
    """A request for the project folders (MCP roots)."""

    key: str = ""


Question = FormRequest | UrlRequest | SamplingRequest | RootsRequest


class Elicitation(Struct, frozen=True, kw_only=True):
    """Questions that one tool or server asks together."""

    asked_by: str
    """`mcp:SERVER` or the tool's name."""
    questions: tuple[Question, ...]
    call_id: str = ""
    """The call that triggered the questions; empty if unknown."""
    group: str = ""
    """The outermost call that contains `call_id`."""


class ElicitationReply(Struct, frozen=True, kw_only=True):
    """The user's reply to one question."""

    action: Literal["accept", "decline", "cancel"]
    content: Args | None = None
    """Form: the values. Sampling: role, content, model and stopReason in wire form. Roots: `{"roots": [...]}`."""
    by: str = ""


Elicitor = Callable[[Elicitation], Awaitable[tuple[ElicitationReply, ...]]]
"""Asks the user and returns one reply per question; `cancel` if no user is available."""

CANCELLED = ElicitationReply(action="cancel")
