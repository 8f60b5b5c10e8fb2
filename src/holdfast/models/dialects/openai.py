"""OpenAI's two APIs: Responses, and the chat completions that many other servers speak."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec
from msgspec import Meta, Struct

from holdfast.contract.message import Thinking
from holdfast.models.arguments import sendable
from holdfast.models.dialects.base import AS_GIVEN, IMAGES, NO_KEY, PDF, Asked, Dialect, plain_thought
from holdfast.models.parameters import Profile, level_of
from holdfast.models.providers import Endpoint

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.messages import ThinkingPart
    from pydantic_ai.models import Model as WireModel
    from pydantic_ai.models.openai import OpenAIResponsesModel

_CHAT_THINKING: Final = "reasoning_content"
"""Where servers of chat completions carry thinking, which nobody signs."""
_Filled = Annotated[str, Meta(min_length=1)]


class _Summary(Struct, kw_only=True):
    type: str = "summary_text"
    text: str = ""


class _Reasoning(Struct, kw_only=True):
    """A reasoning item, which is the signature of its summary."""

    id: _Filled
    type: str = "reasoning"
    summary: list[_Summary] = []
    encrypted_content: _Filled


class Responses(Dialect):
    """Nothing of a conversation is kept by the provider: encrypted reasoning travels with it."""

    package = "openai"
    media = IMAGES | PDF
    strict = True
    joins_summaries = True

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = OpenAIProvider(openai_client=_sdk(endpoint, client))
        return _wire_model()(endpoint.model, provider=provider, profile=AS_GIVEN)

    def own_parameters(self, asked: Asked) -> tuple[dict[str, Any], bool]:
        settings, profile = asked.settings, asked.profile
        values: dict[str, Any] = {"openai_store": False}
        if settings.cache_retention != "none":
            if settings.cache_key is not None:
                values["openai_prompt_cache_key"] = settings.cache_key
            if settings.cache_retention == "long":
                values["openai_prompt_cache_retention"] = "24h"
            elif not (
                profile.get("openai_supports_prompt_cache_breakpoints") or asked.endpoint.model.startswith("gpt-5.5")
            ):
                # Newer models keep a prefix for a time of their own choice and take no short one.
                values["openai_prompt_cache_retention"] = "in_memory"
        if not profile.get("openai_supports_reasoning"):
            return values, True
        if settings.reasoning is not None:
            values["openai_reasoning_effort"] = settings.reasoning
            off = settings.reasoning == "none"
        else:
            wanted = settings.thinking if settings.thinking_budget is None else settings.thinking_budget
            off = wanted is None or settings.thinking_budget == 0
            values["thinking"] = False if off else level_of(wanted)
        if not off:
            values["openai_reasoning_summary"] = "auto"
        return values, off and _can_be_off(profile)

    def returned(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        """The reasoning item that is its signature."""
        from pydantic_ai.messages import ThinkingPart

        if part.provider != signer or not part.signature:
            return None
        try:
            item = msgspec.json.decode(b64decode(part.signature, validate=True), type=_Reasoning)
        except (ValueError, RecursionError):
            return None
        texts = [entry.text for entry in item.summary if entry.text] or [""]
        given = [ThinkingPart(content=sendable(text), id=sendable(item.id), provider_name=system) for text in texts]
        given[0].signature = sendable(item.encrypted_content)
        return given

    def thought(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        first = parts[0]
        if not (first.signature and first.id):
            yield from plain_thought(parts)
            return
        summary = [_Summary(text=part.content) for part in parts if part.content]
        item = _Reasoning(id=first.id, summary=summary, encrypted_content=first.signature)
        sealed = b64encode(msgspec.json.encode(item)).decode()
        yield Thinking("\n\n".join(entry.text for entry in summary), signer, sealed)


class Chat(Dialect):
    """Chat completions, as OpenAI-compatible servers speak them."""

    package = "openai"
    media = IMAGES | {"audio/wav", "audio/mpeg"}
    plain_ids = False
    files_in_results = False
    knows_limits = False
    general_thinking = False
    mixes_calls = True

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        provider = OpenAICompatibleProvider(endpoint.provider, openai_client=_sdk(endpoint, client))
        return OpenAIChatModel(endpoint.model, provider=provider, profile=AS_GIVEN)

    def own_parameters(self, asked: Asked) -> tuple[dict[str, Any], bool]:
        effort = asked.settings.reasoning
        return {} if effort is None else {"openai_reasoning_effort": effort}, True

    def returned(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        from pydantic_ai.messages import ThinkingPart

        if part.provider is not None or part.redacted or not part.text.strip():
            return None
        return [ThinkingPart(content=sendable(part.text), id=_CHAT_THINKING, provider_name=system)]

    def thought(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        return plain_thought(parts)


def _sdk(endpoint: Endpoint, client: httpx2.AsyncClient) -> AsyncOpenAI:
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key=endpoint.key or NO_KEY, base_url=endpoint.base_url, max_retries=0, http_client=client)


@cache
def _wire_model() -> type[OpenAIResponsesModel]:
    """With one difference from pydantic-ai: `strict` is sent only where a tool asks for it."""
    from openai.types.responses import FunctionToolParam
    from pydantic_ai.models import ToolVisibility
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.tools import ToolDefinition

    class Loose(OpenAIResponsesModel):
        def _map_tool_definition(self, f: ToolDefinition, *, visibility: ToolVisibility) -> FunctionToolParam:
            tool: dict[str, Any] = dict(super()._map_tool_definition(f, visibility=visibility))
            if not f.strict:
                del tool["strict"]
            return cast(FunctionToolParam, tool)

    return Loose


def _can_be_off(profile: Profile) -> bool:
    efforts = profile.get("openai_reasoning_efforts")
    return "none" in efforts if efforts is not None else bool(profile.get("openai_supports_reasoning_effort_none"))
