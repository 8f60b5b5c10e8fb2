"""Gemini, at Google's own address and on Vertex AI. A signature goes with the part that it signs."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from holdfast.config.model import ModelProvider
from holdfast.contract.errors import ConfigError
from holdfast.contract.message import Part, Text, Thinking, ToolUse
from holdfast.models.connection import trusted_certificates
from holdfast.models.dialects.base import AS_GIVEN, NO_KEY, PDF, Asked, Dialect
from holdfast.models.parameters import budget_of, level_of
from holdfast.models.providers import Endpoint

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponsePart, ThinkingPart
    from pydantic_ai.models import Model as WireModel

_BUDGETS: Final = (("gemini-2.5-pro", 128, 32_768), ("gemini-2.5-flash-lite", 512, 24_576), ("", 1, 24_576))
_IMAGES: Final = {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
_AUDIO: Final = {"audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"}


class Gemini(Dialect):
    package = "google.genai"
    media = PDF | _IMAGES | _AUDIO
    version: ClassVar[str] = "v1beta"

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from google.genai.types import HttpOptions, HttpRetryOptions
        from pydantic_ai.models.google import GoogleModel

        certificates = trusted_certificates()
        options = HttpOptions(
            base_url=endpoint.base_url,
            api_version=self.version,
            httpx_async_client=client,
            # For connections it prepares and never makes; it would read all certificates twice for them.
            client_args={"verify": certificates},
            async_client_args={"verify": certificates, "ssl": certificates},
            retry_options=HttpRetryOptions(attempts=1),
        )
        return GoogleModel(endpoint.model, provider=self._provider(endpoint, options), profile=AS_GIVEN)

    def _provider(self, endpoint: Endpoint, options: Any) -> Any:
        from google.genai import Client
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleProvider(client=Client(vertexai=False, api_key=endpoint.key or NO_KEY, http_options=options))

    def own_parameters(self, asked: Asked) -> tuple[dict[str, Any], bool]:
        return self._thinking(asked), True

    def _thinking(self, asked: Asked) -> dict[str, Any]:
        if not asked.profile.get("supports_thinking", True):
            return {}
        own, general = asked.settings.thinking_budget, asked.settings.thinking
        if own == 0 or (own is None and general is None):
            return {"thinking": False}
        wanted = general if own is None else own
        if asked.profile.get("google_supports_thinking_level", True):
            return {"thinking": level_of(wanted)}
        _, least, most = next(row for row in _BUDGETS if asked.endpoint.model.startswith(row[0]))
        budget = min(max(budget_of(wanted), least), most)
        return {"google_thinking_config": {"include_thoughts": True, "thinking_budget": budget}}

    def result(self, output: str, files: Sequence[Any], *, error: bool) -> list[Any]:
        return [{"error" if error else "output": output}, *files]

    def returned(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        """Nothing: its signature goes with the part it signs, and its text is not sent again."""
        return [] if part.provider == signer and _is_base64(part.signature or "") else None

    def signatures(self, parts: Sequence[Part], own: Iterable[int]) -> Mapping[int, dict[str, Any]]:
        """A signature belongs to the part before it, the first of several calls, else the next."""
        signed: dict[int, dict[str, Any]] = {}
        for index in own:
            part, target = parts[index], _before(parts, index)
            target = _after(parts, index) if target is None else target
            if isinstance(part, Thinking) and target is not None and target not in signed:
                signed[target] = {"thought_signature": part.signature}
        return signed

    def thought(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        unsigned.extend(part.content for part in parts if part.content)
        for part in parts:
            yield from self.proof(part, signer, unsigned)

    def proof(self, part: ModelResponsePart, signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        signature = (part.provider_details or {}).get("thought_signature")
        if isinstance(signature, str):
            yield Thinking("".join(unsigned), signer, signature)
            unsigned.clear()


class Vertex(Gemini):
    version = "v1beta1"

    def locate(self, provider: str, base_url: str, own: ModelProvider) -> tuple[str, str | None]:
        if not own.project:
            raise ConfigError(f"model.providers.{provider} has no `project`; give the id of a Google Cloud project.")
        location = own.location or "global"
        if own.base_url is None and location != "global":
            base_url = f"https://{location}-aiplatform.googleapis.com"
        return base_url, location

    def _provider(self, endpoint: Endpoint, options: Any) -> Any:
        from google.genai import Client
        from google.oauth2.credentials import Credentials
        from pydantic_ai.providers.google_cloud import GoogleCloudProvider

        token: Any = Credentials(token=endpoint.key or NO_KEY)
        sdk = Client(
            vertexai=True, credentials=token, project=endpoint.project, location=endpoint.location, http_options=options
        )
        return GoogleCloudProvider(client=sdk)


def _is_base64(text: str) -> bool:
    try:
        return bool(b64decode(text, validate=True))
    except (Error, ValueError):
        return False


def _before(parts: Sequence[Part], index: int) -> int | None:
    place = index - 1
    if place < 0 or not isinstance(parts[place], Text | ToolUse):
        return None
    while place > 0 and isinstance(parts[place], ToolUse) and isinstance(parts[place - 1], ToolUse):
        place -= 1
    return place


def _after(parts: Sequence[Part], index: int) -> int | None:
    rest = range(index + 1, len(parts))
    calls = (place for place in rest if isinstance(parts[place], ToolUse))
    texts = (place for place in rest if isinstance(parts[place], Text))
    return next(calls, next(texts, None))
