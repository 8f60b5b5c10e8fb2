"""What one request asks of a model besides its messages and tools: the configured parameters, put together."""

from __future__ import annotations

from msgspec import Struct

from holdfast.config.model import CacheRetention, ForeignThinking, ThinkingLevel


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
