"""Tool search: the protocol behind the `tool.search` tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.tool import Tool

TOOL_SEARCH: Final = "tool.search"
"""The tool with which a model finds other tools."""
OUTPUT_READ: Final = "output.read"
"""The tool with which a model reads the rest of a truncated output."""


class ToolMatches(Struct, frozen=True):
    tools: tuple[Tool, ...]
    """The matching tools, best match first."""
    total: int
    """The number of searchable tools."""


def schema_properties(tool: Tool) -> Mapping[str, Any]:
    """Return the top-level properties of a tool's input schema."""
    properties = tool.input_schema.get("properties")
    return cast(dict[str, Any], properties) if isinstance(properties, dict) else {}


class ToolFinder(Protocol):
    def find(self, ctx: Context, query: str, limit: int) -> ToolMatches:
        """Return at most `limit` tools that match `query`, among those visible to the caller of `ctx`."""
        ...
