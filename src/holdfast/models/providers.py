"""Where models are reached: the providers known by name, and all that one request needs to know about its server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from holdfast.config.config import ModelApi, ModelConfig

OPERATOR: Final = "operator"


class KnownProvider(Struct, frozen=True, kw_only=True):
    """A provider that needs no configuration of its own."""

    api: ModelApi
    base_url: str
    keys: tuple[str, ...] = ()
    """The variables its key is looked for in; none where no key is needed."""


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
    """The API a provider is spoken to with; None for one nobody has described."""
    own, known = config.providers.get(provider), KNOWN_PROVIDERS.get(provider)
    return (own.api if own else None) or (known.api if known else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    provider: str
    """As a person names it: `anthropic`, `ollama`, or a name of their own."""
    api: ModelApi
    model: str
    base_url: str
    key: str | None = field(default=None, repr=False)
    key_from: str = ""
    """What to look at when the key is not accepted: a variable, or a setting."""
    project: str | None = None
    location: str | None = None
    priced: bool = False
    """Whether it is the provider's own address, so that its price list holds."""

    @property
    def name(self) -> str:
        return f"{self.provider}:{self.model}"

    @property
    def signer(self) -> str:
        """The name under which its signatures are kept: a word, since a document writes it as one."""
        return re.sub(r"\W", "_", self.provider, flags=re.ASCII)

    def redact_key(self, text: str) -> str:
        return text.replace(self.key, "[key]") if self.key else text
