"""The one port through which models are asked, and what comes out of it while they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.config.config import CacheRetention, ForeignThinking, ThinkingLevel
from holdfast.contract.errors import HoldfastError
from holdfast.contract.message import Message, Part
from holdfast.contract.tool import Tool


class Settings(Struct, frozen=True, kw_only=True):
    """The parameters for one provider; what it has of its own has won over what is general."""

    max_tokens: int | str | None = "50%"
    """A number, or per cent of what the model can write."""
    temperature: float | None = None
    thinking: ThinkingLevel | int | None = "high"
    """A level, a budget of tokens, or None for none."""
    thinking_budget: int | None = None
    """The provider's own parameter: wins over `thinking`; 0 switches thinking off."""
    reasoning: str | None = None
    """OpenAI's own parameter: wins over `thinking`."""
    effort: str | None = None
    """Anthropic's own parameter: wins over the effort that `thinking` gives."""
    cache_retention: CacheRetention = "short"
    cache_key: str | None = None
    """What the requests of one conversation have in common."""
    foreign_thinking: ForeignThinking = "preserve"
    timeout: float = 600.0
    connect_timeout: float = 10.0
    retries: int = 4


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens of one reply, as the provider counted them."""

    input: int = 0
    """All input, cached or not."""
    output: int = 0
    """All output, thinking included."""
    cache_read: int = 0
    cache_write: int = 0
    thinking: int = 0
    cost: Decimal | None = None
    """US dollars; None where the price is not known."""

    def __add__(self, other: Usage) -> Usage:
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            thinking=self.thinking + other.thinking,
            cost=sum(known, Decimal(0)) if known else None,
        )


StopReason = Literal["end", "tool_use", "max_tokens", "refusal", "other"]


class TextDelta(Struct, frozen=True, tag_field="event", tag="text"):
    text: str


class ThinkingDelta(Struct, frozen=True, tag_field="event", tag="thinking"):
    text: str


class CallBegun(Struct, frozen=True, tag_field="event", tag="call_begun"):
    """The model has begun to write a call; its arguments are not complete yet."""

    id: str
    name: str


class PartEnded(Struct, frozen=True, tag_field="event", tag="part"):
    """A part is complete. All of them, in order, are the reply; the deltas before are only for watching."""

    part: Part


class Retrying(Struct, frozen=True, tag_field="event", tag="retrying"):
    """The request is made again. Whatever came before this event is void."""

    attempt: int
    delay: float
    reason: str


class ReplyEnded(Struct, frozen=True, tag_field="event", tag="ended"):
    stop: StopReason
    usage: Usage
    model: str = ""
    """The model that answered, as the provider names it."""


ModelEvent = TextDelta | ThinkingDelta | CallBegun | PartEnded | Retrying | ReplyEnded


class ModelFault(StrEnum):
    """Why a model did not answer, or not to the end."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    CONTEXT = "context"
    """The conversation is longer than the model takes."""
    REFUSED = "refused"
    """The provider would not answer this."""
    BAD_REQUEST = "bad_request"
    NO_TOOLS = "no_tools"
    """The model, or its server as it was started, takes no tools."""
    OVERLOADED = "overloaded"
    NETWORK = "network"
    CUT = "cut"
    """The stream ended before the reply did."""
    PROTOCOL = "protocol"
    """What came back is not what this API sends."""
    NOT_INSTALLED = "not_installed"


class ModelError(HoldfastError):
    """A model did not answer; the message is one sentence with the next step."""

    def __init__(
        self, fault: ModelFault, message: str, *, retry_after: float | None = None, usage: Usage | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.retry_after = retry_after
        self.usage = usage
        """What was spent all the same, where that is known."""


class Model(Protocol):
    """Somebody who answers a conversation."""

    @property
    def provider(self) -> str:
        """Whose signatures it understands, and which policy layer applies: `anthropic`, `ollama`, `operator`."""
        ...

    @property
    def name(self) -> str:
        """As a person names it: `anthropic:claude-opus-4-5`."""
        ...

    def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncIterator[ModelEvent]:
        """Ask, and tell what comes. Ends with `Ended`, or raises `ModelError`.

        `tools` are sent in this order: the same tools give the same bytes. Every `ToolUse` of `messages` has
        its `ToolResult` in the message after it. Retries are made inside; closing the iterator stops the request.
        """
        ...
