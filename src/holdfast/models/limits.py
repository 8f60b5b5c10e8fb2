"""How much a model can write, and how much it is asked to: `max_tokens` as a number or per cent."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = 4000
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
        return UNKNOWN, None
    share = wanted.removesuffix("%")
    return max(limit * int(share) // 100, min(LEAST, limit)) if share.isdecimal() else UNKNOWN, None
