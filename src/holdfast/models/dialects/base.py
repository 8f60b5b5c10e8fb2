"""What a wire API can do in its own way, and what most of them do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from msgspec import Struct

from holdfast.config.model import ModelProvider
from holdfast.contract.message import Part, Thinking
from holdfast.models.parameters import Profile, max_output, max_tokens
from holdfast.models.port import Settings
from holdfast.models.providers import Endpoint

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponsePart, ThinkingPart
    from pydantic_ai.models import Model as WireModel

NO_KEY: Final = "not-needed"
"""SDKs insist on a key where a server wants none."""
AS_GIVEN: Final[Any] = {
    "json_schema_transformer": None,
    "anthropic_binds_thinking_blocks": False,
    "google_supports_strict_tool_definition": False,
    "openai_chat_streaming_requires_finish_reason": True,
    "openai_chat_supports_max_completion_tokens": False,
}
"""Schemas go out as they are, no request is silently repeated, and a stream without an end is a cut one."""
IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
PDF: Final = frozenset({"application/pdf"})
_FAILED: Final = "Tool execution failed"


class Asked(Struct, frozen=True):
    """What the parameters of one request are made of."""

    endpoint: Endpoint
    settings: Settings
    profile: Profile
    thought: bool
    """Whether the reply whose calls are being answered began with thinking, so that more can follow."""
    tokens: int | None
    limit: int | None
    """How many tokens the model can write, where that is known."""
    notes: list[str]
    """What a person should know: a value that could not be used as it was given."""


class Dialect(ABC):
    package: ClassVar[str]
    """What must be importable besides pydantic-ai."""
    media: ClassVar[frozenset[str]]
    """The files it takes that are not text."""
    plain_ids: ClassVar[bool] = True
    """Whether ids of calls are at most 64 letters, digits, `_` and `-`."""
    strict: ClassVar[bool] = False
    """Whether it is told that a tool wants its schema kept to."""
    flags_errors: ClassVar[bool] = False
    """Whether a result says by a flag that it is an error, and not by its text."""
    files_in_results: ClassVar[bool] = True
    knows_limits: ClassVar[bool] = True
    """Whether the name of a model tells how much it can write."""
    general_thinking: ClassVar[bool] = True
    """Whether the general level of thinking is sent: many servers reject it for models that do not think."""
    joins_summaries: ClassVar[bool] = False
    """Whether neighbouring thoughts with one id are one part, whose signature comes after the last of them."""
    mixes_calls: ClassVar[bool] = False
    """Whether calls may be written by turns, so that none is complete before the end."""

    def locate(self, provider: str, base_url: str, own: ModelProvider) -> tuple[str, str | None]:
        """The address, and the location it stands for. Raises `ConfigError`."""
        return base_url, None

    @abstractmethod
    def build(self, endpoint: Endpoint, client: httpx2.AsyncClient) -> WireModel[Any]:
        """The model of pydantic-ai, on a client of the SDK that uses our connection and never retries."""

    @abstractmethod
    def own_parameters(self, asked: Asked) -> tuple[dict[str, Any], bool]:
        """Settings of pydantic-ai for this API, and whether a temperature can be given with them."""

    def parameters(
        self, endpoint: Endpoint, settings: Settings, profile: Profile, *, thought: bool = True
    ) -> tuple[dict[str, Any], Sequence[str]]:
        """Settings of pydantic-ai, and what a person should know about them."""
        known = profile.get("anthropic_max_output_tokens") or max_output(endpoint.model)
        limit = known if self.knows_limits else None
        tokens, note = max_tokens(settings.max_tokens, limit)
        notes = [note] if note else []
        values: dict[str, Any] = {"max_retries": 0} | ({} if tokens is None else {"max_tokens": tokens})
        own, warm = self.own_parameters(Asked(endpoint, settings, profile, thought, tokens, limit, notes))
        values |= own
        if settings.temperature is not None and warm:
            values["temperature"] = settings.temperature
        elif settings.temperature is not None:
            notes.append(f"{endpoint.name} takes no temperature while it thinks; it is left out.")
        return values, notes

    def result(self, output: str, files: Sequence[Any], *, error: bool) -> list[Any]:
        """The content of a tool's result."""
        return [f"Error: {output or _FAILED}" if error else output, *files]

    @abstractmethod
    def returned(self, part: Thinking, signer: str, system: str) -> list[ThinkingPart] | None:
        """The parts that give thinking back to the provider whose own it is; None if it is foreign to this one."""

    def signatures(self, parts: Sequence[Part], own: Iterable[int]) -> Mapping[int, dict[str, Any]]:
        """Details for the parts of a reply that the thinking at `own` signs."""
        return {}

    @abstractmethod
    def thought(self, parts: Sequence[ThinkingPart], signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        """Ours for neighbours with one id. `unsigned` keeps thoughts whose signature comes with a later part."""

    def proof(self, part: ModelResponsePart, signer: str, unsigned: list[str]) -> Iterable[Thinking]:
        """The signature that came with a part, after it, with the thoughts that led to it."""
        return ()


def plain_thought(parts: Sequence[ThinkingPart]) -> Iterable[Thinking]:
    """Thinking that nobody signed."""
    if text := "\n\n".join(part.content for part in parts if part.content):
        yield Thinking(text)
