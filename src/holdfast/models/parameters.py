"""How much a model is asked to write and to think, as numbers and levels that any provider can be given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.config.model import ThinkingLevel

Profile = Mapping[str, Any]
"""What pydantic-ai knows of a model."""

_BUDGETS: Final[Mapping[ThinkingLevel, int]] = {
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
_UNKNOWN: Final = 4000
"""What is asked of a model whose limit is not known, where per cent of it are wanted."""
LEAST: Final = 1024

_MAX_OUTPUT: Final = (
    ("claude-3-5", 8192),
    ("claude-3-7", 64_000),
    ("claude-3", 4096),
    ("claude-opus-4-0", 32_000),
    ("claude-opus-4-1", 32_000),
    ("claude-opus-4-2", 32_000),
    ("claude-sonnet-4-0", 64_000),
    ("claude-sonnet-4-2", 64_000),
    ("gpt-4o", 16_384),
    ("gpt-4.1", 32_768),
    ("gpt-4-turbo", 4096),
    ("gpt-5", 128_000),
    ("gpt-6", 128_000),
    ("codex-mini", 100_000),
    ("o1", 100_000),
    ("o3", 100_000),
    ("o4", 100_000),
    ("gemini-1.5", 8192),
    ("gemini-2.0", 8192),
    ("gemini-", 65_536),
)
"""The first beginning that fits. What pydantic-ai knows of a model is asked before this."""


def level_of(thinking: ThinkingLevel | int | None) -> ThinkingLevel:
    """The level for a budget of tokens; a level stays as it is."""
    if isinstance(thinking, str):
        return thinking
    fitting: list[ThinkingLevel] = [level for most, level in _LEVELS if (thinking or 0) <= most]
    return fitting[0] if fitting else "max"


def budget_of(thinking: ThinkingLevel | int | None) -> int:
    return _BUDGETS[thinking] if isinstance(thinking, str) else thinking or 0


def max_output(model: str) -> int | None:
    name = model.rpartition("/")[2]
    return next((limit for beginning, limit in _MAX_OUTPUT if name.startswith(beginning)), None)


def max_tokens(wanted: int | str | None, limit: int | None) -> tuple[int | None, str | None]:
    """How many tokens to ask for, and what to tell the person if that is not what they wanted."""
    if wanted is None:
        return None, None
    if isinstance(wanted, int):
        if limit is not None and wanted > limit:
            return limit, f"max_tokens is {wanted}, but the model writes at most {limit}; {limit} is used."
        return max(wanted, 1), None
    if limit is None:
        return _UNKNOWN, None
    share = wanted.removesuffix("%")
    return max(limit * int(share) // 100, min(LEAST, limit)) if share.isdecimal() else _UNKNOWN, None
