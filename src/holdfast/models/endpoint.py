"""Where a model is reached and how it is spoken to: all that one request needs to know about its server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from holdfast.config.model import ModelApi


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

    def without_key(self, text: str) -> str:
        return text.replace(self.key, "[key]") if self.key else text
