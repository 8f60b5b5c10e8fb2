"""The `Model` protocol every model implements, and the events, settings, usage and errors of a streamed reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from holdfast.config.config import CacheRetention, ForeignThinking, ThinkingLevel
from holdfast.contract.errors import HoldfastError
from holdfast.contract.message import Message, Part
from holdfast.contract.tool import Tool


class Settings(Struct, frozen=True, kw_only=True):
    """Parameters for requests to one provider; provider-specific values already override the general ones."""

    max_tokens: int | str | None = "50%"
    """A number of tokens, or a percentage of the model's maximum output."""
    temperature: float | None = None
    thinking: ThinkingLevel | int | None = "high"
    """A level, a token budget, or None to disable thinking."""
    thinking_budget: int | None = None
    """A provider-specific budget that overrides `thinking`; 0 disables thinking."""
    reasoning: str | None = None
    """OpenAI's reasoning effort; overrides `thinking`."""
    effort: str | None = None
    """Anthropic's effort; overrides the effort derived from `thinking`."""
    cache_retention: CacheRetention = "short"
    cache_key: str | None = None
    """Identifies the conversation, so that its requests share a prompt cache."""
    foreign_thinking: ForeignThinking = "preserve"
    vision: bool | None = None
    """Whether images, audio and documents are sent; None decides by the name of the model and the server's answers."""
    response_schema: dict[str, Any] | None = None
    """The JSON schema that the server enforces on the text of the reply; ignored by APIs without such a parameter."""
    timeout: float = 600.0
    connect_timeout: float = 10.0
    retries: int = 4


class Usage(Struct, frozen=True, kw_only=True):
    """Token counts of one reply, as reported by the provider."""

    input: int = 0
    """All input tokens, cached or not."""
    output: int = 0
    """All output tokens, including thinking."""
    cache_read: int = 0
    cache_write: int = 0
    thinking: int = 0
    cost: Decimal | None = None
    """In US dollars; None if the price is unknown."""

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
COMPLETE_STOPS: Final[frozenset[StopReason]] = frozenset({"end", "tool_use"})
"""The model ended its reply itself. Calls are made only from such replies."""
CORRECTION_MARK: Final = "[runtime:correction]"
"""Begins the message that asks a model to correct its reply."""


class TextDelta(Struct, frozen=True, tag_field="event", tag="text"):
    text: str


class ThinkingDelta(Struct, frozen=True, tag_field="event", tag="thinking"):
    text: str


class CallBegun(Struct, frozen=True, tag_field="event", tag="call_begun"):
    """The model has started to write a call; its arguments are still incomplete."""

    id: str
    name: str


class PartEnded(Struct, frozen=True, tag_field="event", tag="part"):
    """A part is complete. The parts, in order, are the reply; the deltas before them are only for live display."""

    part: Part


class Retrying(Struct, frozen=True, tag_field="event", tag="retrying"):
    """The request is being retried. Discard everything received before this event."""

    attempt: int
    delay: float
    reason: str


class ReplyEnded(Struct, frozen=True, tag_field="event", tag="ended"):
    stop: StopReason
    usage: Usage
    model: str = ""
    """The model that answered, by the provider's name for it."""


ModelEvent = TextDelta | ThinkingDelta | CallBegun | PartEnded | Retrying | ReplyEnded


class ModelFault(StrEnum):
    """Why a model did not answer, or did not finish."""

    AUTH = "auth"
    RATE_LIMIT = "rate_limit"
    CONTEXT = "context"
    """The conversation exceeds the model's context window."""
    REFUSED = "refused"
    """The provider refused to answer."""
    BAD_REQUEST = "bad_request"
    NO_TOOLS = "no_tools"
    """The model, or its server as configured, does not support tools."""
    NO_MEDIA = "no_media"
    """The model, or its server, does not take the images, audio or documents of the request."""
    OVERLOADED = "overloaded"
    NETWORK = "network"
    CUT = "cut"
    """The stream ended before the reply was complete."""
    MALFORMED = "malformed"
    """The model wrote calls that cannot be read, and again after it was corrected."""
    PROTOCOL = "protocol"
    """The response does not follow the API."""
    NOT_INSTALLED = "not_installed"


class ModelError(HoldfastError):
    """A model did not answer. The message is one sentence that includes the next step."""

    def __init__(
        self, fault: ModelFault, message: str, *, retry_after: float | None = None, usage: Usage | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.retry_after = retry_after
        self.usage = usage
        """Tokens spent despite the failure, if known."""

    def add_usage(self, before: Usage | None) -> None:
        """Count the tokens of earlier requests for the same reply."""
        if before is not None:
            self.usage = before if self.usage is None else before + self.usage


class Model(Protocol):
    """A model that answers a conversation."""

    @property
    def provider(self) -> str:
        """The provider whose signatures it understands and whose policy layer applies: `anthropic`, `ollama`,
        `operator`."""
        ...

    @property
    def name(self) -> str:
        """The name a user configures: `anthropic:claude-opus-4-5`."""
        ...

    def stream(
        self, messages: Sequence[Message], tools: Sequence[Tool], settings: Settings
    ) -> AsyncIterator[ModelEvent]:
        """Stream a reply. Ends with `ReplyEnded`, or raises `ModelError`.

        `tools` are sent in the given order, so that the same tools produce the same bytes and prompt caches hit. Every
        `ToolUse` in `messages` has its `ToolResult` in the next message. Retries happen inside; closing the iterator
        cancels the request.
        """
        ...


class ProtocolChoice(Struct, frozen=True):
    """How tool calls are exchanged with a model."""

    protocol: Literal["native", "text", "constrained"]
    reason: str = ""
    """Empty if the user configured the protocol, or if it is the expected one."""

    def notice(self, name: str) -> str:
        """Return a notice for the user; empty without a reason."""
        return f"{name} {_HOW[self.protocol]}: {self.reason}." if self.reason else ""


_HOW: Final = {
    "native": "calls tools natively",
    "text": "writes its tool calls as text",
    "constrained": "writes its replies as JSON",
}


class WrappedModel:
    """A model that delegates to another one."""

    def __init__(self, inner: Model, choice: ProtocolChoice) -> None:
        self.inner = inner
        self._choice = choice

    @property
    def choice(self) -> ProtocolChoice:
        """How it calls tools now; a reply may change it."""
        return self._choice

    @property
    def provider(self) -> str:
        return self.inner.provider

    @property
    def name(self) -> str:
        return self.inner.name

    def incomplete_reply(self, spent: Usage | None) -> ModelError:
        """Return the error for a stream that ends without `ReplyEnded`."""
        message = f"The reply of {self.name} ended before it was complete; send again."
        return ModelError(ModelFault.CUT, message, usage=spent)
