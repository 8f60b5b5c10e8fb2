"""Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.config.model import ThinkingLevel
from holdfast.contract.message import Thinking
from holdfast.models.arguments import sendable
from holdfast.models.dialects.base import AS_GIVEN, IMAGES, NO_KEY, PDF, Asked, Dialect
from holdfast.models.parameters import LEAST, Profile, budget_of, level_of
from holdfast.models.providers import Endpoint

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ThinkingPart
    from pydantic_ai.models import Model as WireModel

_REDACTED: Final = "redacted_thinking"
_LEAST_BUDGET: Final = 1024
_NOT_THINKING: Final = ("claude-2", "claude-3-5", "claude-3-haiku", "claude-3-opus", "claude-3-sonnet")
_CACHED: Final = ("anthropic_cache_tool_definitions", "anthropic_cache_instructions", "anthropic_cache")


class Anthropic(Dialect):
    package = "anthropic"
    media = IMAGES | PDF
    flags_errors = True

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        sdk = AsyncAnthropic(
            api_key=endpoint.key or NO_KEY, base_url=endpoint.base_url, max_retries=0, http_client=client
        )
        return AnthropicModel(endpoint.model, provider=AnthropicProvider(anthropic_client=sdk), profile=AS_GIVEN)

    def own_parameters(self, asked: Asked) -> tuple[dict[str, Any], bool]:
        values: dict[str, Any] = {}
        if asked.settings.cache_retention != "none":
            values |= dict.fromkeys(_CACHED, "1h" if asked.settings.cache_retention == "long" else "5m")
        if not asked.endpoint.model.startswith(_NOT_THINKING):
            values |= self._thinking(asked)
        if not asked.thought and values.get("anthropic_thinking", {}).get("type") == "enabled":
            # A budget of thinking is refused in the middle of a turn that began without any.
            del values["anthropic_thinking"]
            values["thinking"] = False
        thinks = "anthropic_thinking" in values
        return values, not thinks and not asked.profile.get("anthropic_disallows_sampling_settings")

    def _thinking(self, asked: Asked) -> dict[str, Any]:
        settings, profile = asked.settings, asked.profile
        own, general = settings.thinking_budget, settings.thinking
        if own == 0 or (own is None and general is None):
            return {"thinking": False}
        effort = settings.effort or _effort(level_of(general if own is None else own), profile)
        adaptive = profile.get("anthropic_supports_adaptive_thinking")
        if adaptive and (own is None or profile.get("anthropic_disallows_budget_thinking")):
            return {
                "anthropic_thinking": {"type": "adaptive", "display": "summarized"},
                "anthropic_effort": effort,
            }
        budget = max(budget_of(general if own is None else own), _LEAST_BUDGET)
        if asked.limit is not None:
            budget = min(budget, asked.limit - LEAST)
        values: dict[str, Any] = {"anthropic_thinking": {"type": "enabled", "budget_tokens": budget}}
        if asked.tokens is None or asked.tokens <= budget:
            most = values["max_tokens"] = budget + LEAST
            asked.notes.append(
                f"max_tokens is {asked.tokens}, less than the thinking budget of {budget}; {most} is used."
            )
        if profile.get("anthropic_supports_effort"):
            values["anthropic_effort"] = effort
        return values

    def result(self, output: str, files: Sequence[Any], *, error: bool) -> list[Any]:
        return [output, *files] if output else [*files]

    def returned(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        from pydantic_ai.messages import ThinkingPart

        if part.redacted:
            # Where there is nothing to give back it would be refused.
            if not part.text.strip() or part.provider not in (None, signer):
                return None
            return [ThinkingPart(content="", id=_REDACTED, signature=sendable(part.text), provider_name=system)]
        if part.provider != signer or not part.signature:
            return None
        return [ThinkingPart(content=sendable(part.text), signature=sendable(part.signature), provider_name=system)]

    def thought(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        first = parts[0]
        if first.id == _REDACTED:
            yield Thinking(first.signature or "", signer, redacted=True)
        else:
            text = "".join(part.content for part in parts)
            yield Thinking(text, signer if first.signature else None, first.signature or None)


def _effort(level: ThinkingLevel, profile: Profile) -> str:
    from pydantic_ai.profiles.anthropic import resolve_anthropic_effort

    return resolve_anthropic_effort(
        level,
        supports_xhigh=bool(profile.get("anthropic_supports_xhigh_effort")),
        supports_max=bool(profile.get("anthropic_supports_max_effort", True)),
    )
