"""The wire APIs of providers: each `Dialect` holds what one API does differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, cast

import msgspec
from msgspec import Meta, Struct

from holdfast.config.config import ModelApi, ModelProvider, ThinkingLevel
from holdfast.contract.errors import ConfigError
from holdfast.contract.message import Part, Text, Thinking, ToolUse
from holdfast.models.call_arguments import replace_surrogates
from holdfast.models.http import trusted_certificates
from holdfast.models.port import Settings
from holdfast.models.providers import Endpoint

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from pydantic_ai.messages import ModelResponsePart, ThinkingPart
    from pydantic_ai.models import Model as WireModel
    from pydantic_ai.models.openai import OpenAIResponsesModel

Profile = Mapping[str, Any]
"""pydantic-ai's profile of a model."""
_NO_KEY: Final = "not-needed"
"""A placeholder: SDKs require a key even for servers that do not."""
_PROFILE_OVERRIDES: Final[Any] = {
    "json_schema_transformer": None,
    "anthropic_binds_thinking_blocks": False,
    "google_supports_strict_tool_definition": False,
    "openai_chat_streaming_requires_finish_reason": True,
    "openai_chat_supports_max_completion_tokens": False,
}
"""Sends schemas unchanged, disables hidden repeats of requests, and treats a stream without a finish reason as
truncated."""
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF: Final = frozenset({"application/pdf"})
_BUDGETS: Final[Mapping[ThinkingLevel, int]] = {
    "minimal": 128, "low": 2048, "medium": 8192, "high": 16_384, "max": 32_768,
}  # fmt: skip
_LEVEL_LIMITS: Final[Mapping[ThinkingLevel, int]] = {"minimal": 256, "low": 4096, "medium": 12_288, "high": 24_576}
"""The largest budget that counts as each level."""
_DEFAULT_MAX_TOKENS: Final = 4000
"""For a percentage of a model whose maximum output is unknown."""
_MIN_TOKENS: Final = 1024
_MAX_OUTPUT_TOKENS: Final = (
    ("claude-3-5", 8192), ("claude-3-7", 64_000), ("claude-3", 4096), ("claude-opus-4-0", 32_000),
    ("claude-opus-4-1", 32_000), ("claude-opus-4-2", 32_000), ("claude-sonnet-4-0", 64_000),
    ("claude-sonnet-4-2", 64_000), ("gpt-4o", 16_384), ("gpt-4.1", 32_768), ("gpt-4-turbo", 4096), ("gpt-5", 128_000),
    ("gpt-6", 128_000), ("codex-mini", 100_000), ("o1", 100_000), ("o3", 100_000), ("o4", 100_000),
    ("gemini-1.5", 8192), ("gemini-2.0", 8192), ("gemini-", 65_536),
)  # fmt: skip
"""The first matching prefix wins. pydantic-ai's profile takes precedence over this table."""


def level_of(thinking: ThinkingLevel | int | None) -> ThinkingLevel:
    """Return the level for a token budget; a level is returned unchanged."""
    if isinstance(thinking, str):
        return thinking
    for level, most in _LEVEL_LIMITS.items():
        if (thinking or 0) <= most:
            return level
    return "max"


def _budget_of(thinking: ThinkingLevel | int) -> int:
    return _BUDGETS[thinking] if isinstance(thinking, str) else thinking


def max_output(model: str) -> int | None:
    name = model.rpartition("/")[2]
    return next((limit for beginning, limit in _MAX_OUTPUT_TOKENS if name.startswith(beginning)), None)


def max_tokens(wanted: int | str | None, limit: int | None) -> tuple[int | None, str | None]:
    """Return the tokens to request, and a note for the user if that differs from what they configured."""
    if wanted is None:
        return None, None
    if isinstance(wanted, int):
        if limit is not None and wanted > limit:
            return limit, f"max_tokens is {wanted}, but the model writes at most {limit}; {limit} is used."
        return max(wanted, 1), None
    share = wanted.removesuffix("%")
    if limit is None or not share.isdecimal():
        return _DEFAULT_MAX_TOKENS, None
    return max(limit * int(share) // 100, min(_MIN_TOKENS, limit)), None


class RequestContext(Struct, frozen=True):
    """The inputs for the parameters of one request."""

    endpoint: Endpoint
    settings: Settings
    profile: Profile
    thinking_allowed: bool
    """False while answering calls of a reply that began without thinking: some APIs then reject thinking."""
    tokens: int | None
    limit: int | None
    """The model's maximum output in tokens, if known."""
    notes: list[str]
    """Notes for the user about values that were adjusted or dropped."""

    @property
    def thinking(self) -> ThinkingLevel | int | None:
        """The requested thinking, from the provider's own parameter or the general one; None to disable it."""
        own = self.settings.thinking_budget
        return self.settings.thinking if own is None else own or None


class Dialect(ABC):
    """One wire API, with the defaults that most of them share."""

    package: ClassVar[str]  # the package to import besides pydantic-ai
    media: ClassVar[frozenset[str]]  # accepted media types besides text
    plain_ids: ClassVar[bool] = True  # call ids are at most 64 letters, digits, `_` and `-`
    strict: ClassVar[bool] = False  # sends the `strict` flag of a tool
    flags_errors: ClassVar[bool] = False  # marks a failed result with a flag instead of in its text
    files_in_results: ClassVar[bool] = True
    knows_limits: ClassVar[bool] = True  # the model's name determines its maximum output
    general_thinking: ClassVar[bool] = True
    """Whether the general thinking level is sent: many servers reject it for models that cannot think."""
    joins_summaries: ClassVar[bool] = False
    """Whether adjacent thinking parts with the same id form one part, signed after the last of them."""
    interleaves_calls: ClassVar[bool] = False
    """Whether calls may be streamed interleaved, so that none is complete before the end."""

    def resolve_address(self, provider: str, base_url: str, own: ModelProvider) -> tuple[str, str | None]:
        """Return the address and the location it stands for. Raises `ConfigError`."""
        return base_url, None

    @abstractmethod
    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        """Return pydantic-ai's model, on an SDK client that uses our HTTP client and never retries."""

    @abstractmethod
    def api_parameters(self, context: RequestContext) -> tuple[dict[str, Any], bool]:
        """Return pydantic-ai settings specific to this API, and whether they allow a temperature."""

    def parameters(
        self, endpoint: Endpoint, settings: Settings, profile: Profile, *, thinking_allowed: bool = True
    ) -> tuple[dict[str, Any], Sequence[str]]:
        """Return pydantic-ai settings, and notes about them for the user."""
        known = profile.get("anthropic_max_output_tokens") or max_output(endpoint.model)
        limit = known if self.knows_limits else None
        tokens, note = max_tokens(settings.max_tokens, limit)
        notes = [note] if note else []
        values: dict[str, Any] = {"max_retries": 0} | ({} if tokens is None else {"max_tokens": tokens})
        own, takes_temperature = self.api_parameters(
            RequestContext(endpoint, settings, profile, thinking_allowed, tokens, limit, notes)
        )
        values |= own
        if settings.temperature is not None and takes_temperature:
            values["temperature"] = settings.temperature
        elif settings.temperature is not None:
            notes.append(f"{endpoint.name} does not accept a temperature while thinking; it is omitted.")
        return values, notes

    def result_content(self, output: str, files: Sequence[Any], *, error: bool) -> list[Any]:
        """Return the content of a tool result."""
        return [f"Error: {output or 'Tool execution failed'}" if error else output, *files]

    @abstractmethod
    def native_thinking(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        """Return the parts that send thinking back to the provider that produced it; None for another provider's."""

    def signatures(self, parts: Sequence[Part], own: Iterable[int]) -> Mapping[int, dict[str, Any]]:
        """Return the details of the parts that the thinking at the indexes `own` signs."""
        return {}

    def thinking_from(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        """Convert adjacent parts with the same id. `unsigned` collects thinking that a later part will sign."""
        if text := "\n\n".join(part.content for part in parts if part.content):
            yield Thinking(text)

    def signature_from(self, part: ModelResponsePart, signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        """Return the signature that came with a part, with the thinking it covers."""
        return ()


def _thinking_part(text: str, system: str, *, key: str | None = None, signature: str | None = None) -> ThinkingPart:
    from pydantic_ai.messages import ThinkingPart

    sealed = None if signature is None else replace_surrogates(signature)
    return ThinkingPart(content=replace_surrogates(text), id=key, signature=sealed, provider_name=system)


class Anthropic(Dialect):
    """Anthropic's Messages API."""

    package = "anthropic"
    media = _IMAGES | _PDF
    flags_errors = True
    redacted: ClassVar[str] = "redacted_thinking"
    cached = ("anthropic_cache_tool_definitions", "anthropic_cache_instructions", "anthropic_cache")
    not_thinking = ("claude-2", "claude-3-5", "claude-3-haiku", "claude-3-opus", "claude-3-sonnet")

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        key = endpoint.key or _NO_KEY
        sdk = AsyncAnthropic(api_key=key, base_url=endpoint.base_url, max_retries=0, http_client=client)
        return AnthropicModel(
            endpoint.model, provider=AnthropicProvider(anthropic_client=sdk), profile=_PROFILE_OVERRIDES
        )

    def api_parameters(self, context: RequestContext) -> tuple[dict[str, Any], bool]:
        values: dict[str, Any] = {}
        if context.settings.cache_retention != "none":
            values |= dict.fromkeys(self.cached, "1h" if context.settings.cache_retention == "long" else "5m")
        if not context.endpoint.model.startswith(self.not_thinking):
            values |= self._thinking(context)
        if not context.thinking_allowed and values.get("anthropic_thinking", {}).get("type") == "enabled":
            # Anthropic rejects a thinking budget in the middle of a turn that began without thinking.
            del values["anthropic_thinking"]
            values["thinking"] = False
        thinks = "anthropic_thinking" in values
        return values, not thinks and not context.profile.get("anthropic_disallows_sampling_settings")

    def _thinking(self, context: RequestContext) -> dict[str, Any]:
        from pydantic_ai.profiles.anthropic import resolve_anthropic_effort

        settings, profile, wanted = context.settings, context.profile, context.thinking
        if wanted is None:
            return {"thinking": False}
        effort = settings.effort or resolve_anthropic_effort(
            level_of(wanted),
            supports_xhigh=bool(profile.get("anthropic_supports_xhigh_effort")),
            supports_max=bool(profile.get("anthropic_supports_max_effort", True)),
        )
        adaptive = profile.get("anthropic_supports_adaptive_thinking")
        if adaptive and (settings.thinking_budget is None or profile.get("anthropic_disallows_budget_thinking")):
            return {"anthropic_thinking": {"type": "adaptive", "display": "summarized"}, "anthropic_effort": effort}
        budget = max(_budget_of(wanted), _MIN_TOKENS)
        if context.limit is not None:
            budget = min(budget, context.limit - _MIN_TOKENS)
        values: dict[str, Any] = {"anthropic_thinking": {"type": "enabled", "budget_tokens": budget}}
        if context.tokens is None or context.tokens <= budget:
            most = values["max_tokens"] = budget + _MIN_TOKENS
            context.notes.append(
                f"max_tokens is {context.tokens}, less than the thinking budget of {budget}; {most} is used."
            )
        if profile.get("anthropic_supports_effort"):
            values["anthropic_effort"] = effort
        return values

    def result_content(self, output: str, files: Sequence[Any], *, error: bool) -> list[Any]:
        return [output, *files] if output else [*files]

    def native_thinking(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        if part.redacted:
            # The API rejects an empty redacted block.
            if not part.text.strip() or part.provider not in (None, signer):
                return None
            return [_thinking_part("", system, key=self.redacted, signature=part.text)]
        if part.provider != signer or not part.signature:
            return None
        return [_thinking_part(part.text, system, signature=part.signature)]

    def thinking_from(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        first = parts[0]
        if first.id == self.redacted:
            yield Thinking(first.signature or "", signer, redacted=True)
        else:
            text = "".join(part.content for part in parts)
            yield Thinking(text, signer if first.signature else None, first.signature or None)


_NonEmpty = Annotated[str, Meta(min_length=1)]


class _SummaryText(Struct, kw_only=True):
    type: str = "summary_text"
    text: str = ""


class _ReasoningItem(Struct, kw_only=True):
    """A reasoning item; encoded, it serves as the signature of its summary."""

    id: _NonEmpty
    type: str = "reasoning"
    summary: list[_SummaryText] = []
    encrypted_content: _NonEmpty


class Responses(Dialect):
    """OpenAI's Responses API, stateless: encrypted reasoning travels with the conversation."""

    package = "openai"
    media = _IMAGES | _PDF
    strict = True
    joins_summaries = True

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from pydantic_ai.providers.openai import OpenAIProvider

        provider = OpenAIProvider(openai_client=_openai_sdk(endpoint, client))
        return _responses_model()(endpoint.model, provider=provider, profile=_PROFILE_OVERRIDES)

    def api_parameters(self, context: RequestContext) -> tuple[dict[str, Any], bool]:
        settings, profile = context.settings, context.profile
        values: dict[str, Any] = {"openai_store": False}
        if settings.cache_retention != "none":
            if settings.cache_key is not None:
                values["openai_prompt_cache_key"] = settings.cache_key
            # Newer models choose their own cache lifetime and reject the short one.
            newer = profile.get("openai_supports_prompt_cache_breakpoints")
            if settings.cache_retention == "long":
                values["openai_prompt_cache_retention"] = "24h"
            elif not newer and not context.endpoint.model.startswith("gpt-5.5"):
                values["openai_prompt_cache_retention"] = "in_memory"
        if not profile.get("openai_supports_reasoning"):
            return values, True
        if settings.reasoning is not None:
            values["openai_reasoning_effort"] = settings.reasoning
            off = settings.reasoning == "none"
        else:
            off = context.thinking is None
            values["thinking"] = False if off else level_of(context.thinking)
        if not off:
            values["openai_reasoning_summary"] = "auto"
            return values, False
        efforts = profile.get("openai_reasoning_efforts")
        return values, bool(
            profile.get("openai_supports_reasoning_effort_none") if efforts is None else "none" in efforts
        )

    def native_thinking(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        """Decode the reasoning item from the signature."""
        if part.provider != signer or not part.signature:
            return None
        try:
            item = msgspec.json.decode(b64decode(part.signature, validate=True), type=_ReasoningItem)
        except (ValueError, RecursionError):
            return None
        texts = [entry.text for entry in item.summary if entry.text] or [""]
        given = [_thinking_part(text, system, key=replace_surrogates(item.id)) for text in texts]
        given[0].signature = replace_surrogates(item.encrypted_content)
        return given

    def thinking_from(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        first = parts[0]
        if not (first.signature and first.id):
            yield from super().thinking_from(parts, signer, unsigned)
            return
        summary = [_SummaryText(text=part.content) for part in parts if part.content]
        item = _ReasoningItem(id=first.id, summary=summary, encrypted_content=first.signature)
        sealed = b64encode(msgspec.json.encode(item)).decode()
        yield Thinking("\n\n".join(entry.text for entry in summary), signer, sealed)


class Chat(Dialect):
    """Chat completions, as spoken by OpenAI-compatible servers."""

    package = "openai"
    media = _IMAGES | {"audio/wav", "audio/mpeg"}
    plain_ids = files_in_results = knows_limits = general_thinking = False
    interleaves_calls = True

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        provider = OpenAICompatibleProvider(endpoint.provider, openai_client=_openai_sdk(endpoint, client))
        return OpenAIChatModel(endpoint.model, provider=provider, profile=_PROFILE_OVERRIDES)

    def api_parameters(self, context: RequestContext) -> tuple[dict[str, Any], bool]:
        effort, schema = context.settings.reasoning, context.settings.response_schema
        values: dict[str, Any] = {} if effort is None else {"openai_reasoning_effort": effort}
        if schema is not None:
            wanted = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}
            values["extra_body"] = {"response_format": wanted}
        return values, True

    def native_thinking(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        """Return unsigned thinking in `reasoning_content`, where such servers expect it."""
        if part.provider is not None or part.redacted or not part.text.strip():
            return None
        return [_thinking_part(part.text, system, key="reasoning_content")]


def _openai_sdk(endpoint: Endpoint, client: httpx2.AsyncClient) -> AsyncOpenAI:
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key=endpoint.key or _NO_KEY, base_url=endpoint.base_url, max_retries=0, http_client=client)


@cache
def _responses_model() -> type[OpenAIResponsesModel]:
    """pydantic-ai's model, except that `strict` is sent only if a tool requests it."""
    from openai.types.responses import FunctionToolParam
    from pydantic_ai.models import ToolVisibility
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.tools import ToolDefinition

    class NonStrictResponsesModel(OpenAIResponsesModel):
        def _map_tool_definition(self, f: ToolDefinition, *, visibility: ToolVisibility) -> FunctionToolParam:
            tool: dict[str, Any] = dict(super()._map_tool_definition(f, visibility=visibility))
            if not f.strict:
                del tool["strict"]
            return cast(FunctionToolParam, tool)

    return NonStrictResponsesModel


class Gemini(Dialect):
    """Gemini at Google's own address. A signature travels with the part it signs."""

    package = "google.genai"
    media = _PDF | {
        "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
        "audio/wav", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac",
    }  # fmt: skip
    version: ClassVar[str] = "v1beta"
    budgets = (("gemini-2.5-pro", 128, 32_768), ("gemini-2.5-flash-lite", 512, 24_576), ("", 1, 24_576))

    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        from google.genai.types import HttpOptions, HttpRetryOptions
        from pydantic_ai.models.google import GoogleModel

        certificates = trusted_certificates()
        options = HttpOptions(
            base_url=endpoint.base_url,
            api_version=self.version,
            httpx_async_client=client,
            # For connections the SDK prepares but never opens; it would load all certificates twice.
            client_args={"verify": certificates},
            async_client_args={"verify": certificates, "ssl": certificates},
            retry_options=HttpRetryOptions(attempts=1),
        )
        return GoogleModel(endpoint.model, provider=self._provider(endpoint, options), profile=_PROFILE_OVERRIDES)

    def _provider(self, endpoint: Endpoint, options: Any) -> Any:
        from google.genai import Client
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleProvider(client=Client(vertexai=False, api_key=endpoint.key or _NO_KEY, http_options=options))

    def api_parameters(self, context: RequestContext) -> tuple[dict[str, Any], bool]:
        wanted = context.thinking
        if not context.profile.get("supports_thinking", True):
            return {}, True
        if wanted is None:
            return {"thinking": False}, True
        if context.profile.get("google_supports_thinking_level", True):
            return {"thinking": level_of(wanted)}, True
        _, least, most = next(row for row in self.budgets if context.endpoint.model.startswith(row[0]))
        budget = min(max(_budget_of(wanted), least), most)
        return {"google_thinking_config": {"include_thoughts": True, "thinking_budget": budget}}, True

    def result_content(self, output: str, files: Sequence[Any], *, error: bool) -> list[Any]:
        return [{"error" if error else "output": output}, *files]

    def native_thinking(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        """Return no parts for own thinking: its signature travels with the part it signs, and its text is not sent."""
        try:
            signed = bool(b64decode(part.signature or "", validate=True))
        except ValueError:
            return None
        return [] if part.provider == signer and signed else None

    def signatures(self, parts: Sequence[Part], own: Iterable[int]) -> Mapping[int, dict[str, Any]]:
        """A signature belongs to the part before it (of adjacent calls, the first), else to the next part."""
        signed: dict[int, dict[str, Any]] = {}
        for index in own:
            part, target = parts[index], _signed_index(parts, index)
            if isinstance(part, Thinking) and target is not None and target not in signed:
                signed[target] = {"thought_signature": part.signature}
        return signed

    def thinking_from(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        unsigned.extend(part.content for part in parts if part.content)
        for part in parts:
            yield from self.signature_from(part, signer, unsigned)

    def signature_from(self, part: ModelResponsePart, signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        signature = (part.provider_details or {}).get("thought_signature")
        if isinstance(signature, str):
            yield Thinking("".join(unsigned), signer, signature)
            unsigned.clear()


def _signed_index(parts: Sequence[Part], index: int) -> int | None:
    place = index - 1
    if place >= 0 and isinstance(parts[place], Text | ToolUse):
        while place > 0 and isinstance(parts[place], ToolUse) and isinstance(parts[place - 1], ToolUse):
            place -= 1
        return place
    rest = range(index + 1, len(parts))
    calls = (place for place in rest if isinstance(parts[place], ToolUse))
    texts = (place for place in rest if isinstance(parts[place], Text))
    return next(calls, next(texts, None))


class Vertex(Gemini):
    """Gemini on Vertex AI."""

    version = "v1beta1"

    def resolve_address(self, provider: str, base_url: str, own: ModelProvider) -> tuple[str, str | None]:
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

        token: Any = Credentials(token=endpoint.key or _NO_KEY)
        where: Any = {"project": endpoint.project, "location": endpoint.location}
        return GoogleCloudProvider(client=Client(vertexai=True, credentials=token, http_options=options, **where))


DIALECTS: Final[Mapping[ModelApi, Dialect]] = {
    "anthropic": Anthropic(), "openai": Responses(), "openai-chat": Chat(), "google": Gemini(), "vertex": Vertex(),
}  # fmt: skip
