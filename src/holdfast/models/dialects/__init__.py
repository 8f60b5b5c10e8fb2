"""The wire APIs: whatever one of them does in its own way is a method or attribute of its `Dialect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.config.model import ModelApi
from holdfast.models.dialects.anthropic import Anthropic
from holdfast.models.dialects.base import Dialect
from holdfast.models.dialects.google import Gemini, Vertex
from holdfast.models.dialects.openai import Chat, Responses

DIALECTS: Final[Mapping[ModelApi, Dialect]] = {
    "anthropic": Anthropic(),
    "openai": Responses(),
    "openai-chat": Chat(),
    "google": Gemini(),
    "vertex": Vertex(),
}
