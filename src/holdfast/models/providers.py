"""Built-in model providers, and the `Endpoint` that describes the server of a request."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from holdfast.config.config import ModelApi, ModelConfig

OPERATOR: Final = "operator"


class KnownProvider(Struct, frozen=True, kw_only=True):
    """A provider that works without configuration."""

    api: ModelApi
    base_url: str
    keys: tuple[str, ...] = ()
    """Environment variables that may hold its API key, in order; empty if it needs no key."""


KNOWN_PROVIDERS: Final = {
    "anthropic": KnownProvider(api="anthropic", base_url="https://api.anthropic.com", keys=("ANTHROPIC_API_KEY",)),
    "openai": KnownProvider(api="openai", base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",)),
    "google": KnownProvider(
        api="google", base_url="https://generativelanguage.googleapis.com", keys=("GEMINI_API_KEY", "GOOGLE_API_KEY")
    ),
    "vertex": KnownProvider(api="vertex", base_url="https://aiplatform.googleapis.com", keys=("VERTEX_ACCESS_TOKEN",)),
    "ollama": KnownProvider(api="openai-chat", base_url="http://127.0.0.1:11434/v1"),
    "llamacpp": KnownProvider(api="openai-chat", base_url="http://127.0.0.1:8080/v1"),
    "vllm": KnownProvider(api="openai-chat", base_url="http://127.0.0.1:8000/v1"),
    "lmstudio": KnownProvider(api="openai-chat", base_url="http://127.0.0.1:1234/v1"),
}


def api_of(config: ModelConfig, provider: str) -> ModelApi | None:
    """Return the API that a provider speaks; None for an unknown provider."""
    own, known = config.providers.get(provider), KNOWN_PROVIDERS.get(provider)
    return (own.api if own else None) or (known.api if known else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    provider: str
    """The user's name for it: `anthropic`, `ollama`, or a configured name."""
    api: ModelApi
    model: str
    base_url: str
    key: str | None = field(default=None, repr=False)
    key_from: str = ""
    """The variable or setting the key came from, for error messages."""
    project: str | None = None
    location: str | None = None
    priced: bool = False
    """Whether this is the provider's official address, so that its price list applies."""

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def signer(self) -> str:
        """The name stored with its signatures; only word characters, since the chat document writes it as one word."""
        return re.sub(r"\W", "_", self.provider, flags=re.ASCII)

    def redact_key(self, text: str) -> str:
        return text.replace(self.key, "[key]") if self.key else text
