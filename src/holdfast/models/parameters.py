"""The parameters of one request, in the words of each provider: tokens, temperature, thinking and caching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from holdfast.config.model import ThinkingLevel
from holdfast.models.endpoint import Endpoint
from holdfast.models.limits import LEAST, max_output, max_tokens
from holdfast.models.settings import Settings

Profile = Mapping[str, Any]
"""What pydantic-ai knows of a model."""

BUDGETS: Final[Mapping[ThinkingLevel, int]] = {
    "minimal": 128,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "max": 32_768,
}
_LEVELS: Final[tuple[tuple[int, ThinkingLevel], ...]] = (
    (256, "minimal"),
    (4096, "low"),
    (12_288, "medium"),
    (24_576, "high"),
)
_LEAST_BUDGET: Final = 1024
_GEMINI_BUDGETS: Final = (("gemini-2.5-pro", 128, 32_768), ("gemini-2.5-flash-lite", 512, 24_576), ("", 1, 24_576))
_NOT_THINKING: Final = ("claude-2", "claude-3-5", "claude-3-haiku", "claude-3-opus", "claude-3-sonnet")


class Parameters(Struct, frozen=True):
    values: dict[str, Any]
    """Settings of pydantic-ai."""
    notes: tuple[str, ...] = ()
    """What a person should know: a value that could not be used as it was given."""


def level_of(budget: int) -> ThinkingLevel:
    fitting: list[ThinkingLevel] = [level for most, level in _LEVELS if budget <= most]
    return fitting[0] if fitting else "max"


def request_parameters(endpoint: Endpoint, settings: Settings, profile: Profile, *, thought: bool = True) -> Parameters:
    """`thought`: whether the reply whose calls are being answered began with thinking, so that more can follow."""
    known = profile.get("anthropic_max_output_tokens") or max_output(endpoint.model)
    limit = None if endpoint.api == "openai-chat" else known
    tokens, note = max_tokens(settings.max_tokens, limit)
    notes = [note] if note else []
    values: dict[str, Any] = {"max_retries": 0}
    if tokens is not None:
        values["max_tokens"] = tokens
    match endpoint.api:
        case "anthropic":
            values |= _anthropic(endpoint, settings, profile, tokens, limit, notes)
            if not thought and values.get("anthropic_thinking", {}).get("type") == "enabled":
                # A budget of thinking is refused in the middle of a turn that began without any.
                del values["anthropic_thinking"]
                values["thinking"] = False
            thinks = values.get("anthropic_thinking", {}).get("type") in ("adaptive", "enabled")
            warm = not thinks and not profile.get("anthropic_disallows_sampling_settings")
        case "openai":
            values |= _openai(endpoint, settings, profile)
            warm = not profile.get("openai_supports_reasoning") or (_is_off(values) and _can_be_off(profile))
        case "openai-chat":
            if settings.reasoning is not None:
                values["openai_reasoning_effort"] = settings.reasoning
            warm = True
        case "google" | "vertex":
            values |= _google(endpoint, settings, profile)
            warm = True
    if settings.temperature is not None:
        if warm:
            values["temperature"] = settings.temperature
        else:
            notes.append(f"{endpoint.name} takes no temperature while it thinks; it is left out.")
    return Parameters(values, tuple(notes))


def _anthropic(
    endpoint: Endpoint, settings: Settings, profile: Profile, tokens: int | None, limit: int | None, notes: list[str]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if settings.cache_retention != "none":
        kept = "1h" if settings.cache_retention == "long" else "5m"
        values |= dict.fromkeys(
            ("anthropic_cache_tool_definitions", "anthropic_cache_instructions", "anthropic_cache"), kept
        )
    if endpoint.model.startswith(_NOT_THINKING):
        return values
    own, general = settings.thinking_budget, settings.thinking
    adaptive = bool(profile.get("anthropic_supports_adaptive_thinking"))
    if own == 0 or (own is None and general is None):
        return values | {"thinking": False}
    if adaptive and (own is None or profile.get("anthropic_disallows_budget_thinking")):
        level = _level(general) if own is None else level_of(own)
        effort = settings.effort or _effort(level, profile)
        return values | {
            "anthropic_thinking": {"type": "adaptive", "display": "summarized"},
            "anthropic_effort": effort,
        }
    budget = max(own if own is not None else _budget(general), _LEAST_BUDGET)
    if limit is not None:
        budget = min(budget, limit - LEAST)
    values["anthropic_thinking"] = {"type": "enabled", "budget_tokens": budget}
    if tokens is None or tokens <= budget:
        values["max_tokens"] = budget + LEAST
        notes.append(f"max_tokens is {tokens}, less than the thinking budget of {budget}; {budget + LEAST} is used.")
    if profile.get("anthropic_supports_effort"):
        level = _level(general) if own is None else level_of(own)
        values["anthropic_effort"] = settings.effort or _effort(level, profile)
    return values


def _effort(level: ThinkingLevel, profile: Profile) -> str:
    from pydantic_ai.profiles.anthropic import resolve_anthropic_effort

    return resolve_anthropic_effort(
        level,
        supports_xhigh=bool(profile.get("anthropic_supports_xhigh_effort")),
        supports_max=bool(profile.get("anthropic_supports_max_effort", True)),
    )


def _openai(endpoint: Endpoint, settings: Settings, profile: Profile) -> dict[str, Any]:
    # Nothing of the conversation is kept by the provider: encrypted reasoning travels with it instead.
    values: dict[str, Any] = {"openai_store": False}
    if settings.cache_retention != "none":
        if settings.cache_key is not None:
            values["openai_prompt_cache_key"] = settings.cache_key
        if settings.cache_retention == "long":
            values["openai_prompt_cache_retention"] = "24h"
        elif not profile.get("openai_supports_prompt_cache_breakpoints") and not endpoint.model.startswith("gpt-5.5"):
            # Newer models keep a prefix for a time of their own choice and take no short one.
            values["openai_prompt_cache_retention"] = "in_memory"
    if not profile.get("openai_supports_reasoning"):
        return values
    if settings.reasoning is not None:
        values["openai_reasoning_effort"] = settings.reasoning
        off = settings.reasoning == "none"
    elif settings.thinking_budget is not None:
        off = settings.thinking_budget == 0
        values["thinking"] = False if off else level_of(settings.thinking_budget)
    else:
        off = settings.thinking is None
        values["thinking"] = False if off else _level(settings.thinking)
    if not off:
        values["openai_reasoning_summary"] = "auto"
    return values


def _is_off(values: Mapping[str, Any]) -> bool:
    return values.get("thinking") is False or values.get("openai_reasoning_effort") == "none"


def _can_be_off(profile: Profile) -> bool:
    efforts = profile.get("openai_reasoning_efforts")
    return "none" in efforts if efforts is not None else bool(profile.get("openai_supports_reasoning_effort_none"))


def _google(endpoint: Endpoint, settings: Settings, profile: Profile) -> dict[str, Any]:
    if not profile.get("supports_thinking", True):
        return {}
    own, general = settings.thinking_budget, settings.thinking
    if own == 0 or (own is None and general is None):
        return {"thinking": False}
    if profile.get("google_supports_thinking_level", True):
        return {"thinking": _level(general) if own is None else level_of(own)}
    _, least, most = next(row for row in _GEMINI_BUDGETS if endpoint.model.startswith(row[0]))
    budget = own if own is not None else _budget(general)
    config = {"include_thoughts": True, "thinking_budget": min(max(budget, least), most)}
    return {"google_thinking_config": config}


def _level(thinking: ThinkingLevel | int | None) -> ThinkingLevel:
    return level_of(thinking or 0) if isinstance(thinking, int | None) else thinking


def _budget(thinking: ThinkingLevel | int | None) -> int:
    return thinking or 0 if isinstance(thinking, int | None) else BUDGETS[thinking]
