"""The wire formats side by side: how each is scripted, checked and opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.config.config import ModelApi
from holdfast.models.providers import Endpoint
from holdfast.models.remote_model import RemoteModel
from tests.models.servers import anthropic, chat, google, openai
from tests.models.servers.http import Server
from tests.models.servers.script import Script

KEY = "sk-very-secret-key-0123456789"


@dataclass(frozen=True)
class Api:
    name: ModelApi
    provider: str
    model: str
    events: Callable[[Script], list[bytes]]
    check: Callable[[dict[str, Any]], None]
    prefix: str = ""

    def endpoint(self, server: Server | str, **changes: Any) -> Endpoint:
        url = server if isinstance(server, str) else server.url
        fields: dict[str, Any] = {
            "provider": self.provider,
            "api": self.name,
            "model": self.model,
            "base_url": url + self.prefix,
            "key": KEY,
            "key_from": "SOME_API_KEY",
        }
        if self.name == "vertex":
            fields |= {"project": "proj", "location": "global"}
        return Endpoint(**{**fields, **changes})

    def open(self, server: Server | str, **changes: Any) -> RemoteModel:
        """A model whose pauses take no time; they are noted in `waited`."""
        return RemoteModel(self.endpoint(server, **changes), sleep=_no_pause, jitter=lambda: 1.0)


async def _no_pause(_: float) -> None:
    return None


ANTHROPIC = Api("anthropic", "anthropic", "claude-opus-4-5", anthropic.events, anthropic.check)
OPENAI = Api("openai", "openai", "gpt-5", openai.events, openai.check, "/v1")
GOOGLE = Api("google", "google", "gemini-2.5-pro", google.events, google.check)
VERTEX = Api("vertex", "vertex", "gemini-2.5-pro", google.events, google.check)
CHAT = Api("openai-chat", "ollama", "local-model", chat.events, chat.check, "/v1")
APIS = (ANTHROPIC, OPENAI, GOOGLE, VERTEX, CHAT)
