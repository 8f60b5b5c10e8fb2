"""Finding tools among many, as the tool that searches them sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.tool import Tool

TOOL_SEARCH: Final = "tool.search"
"""The tool a model with many tools finds the others with."""
OUTPUT_READ: Final = "output.read"
"""The tool that an output which was cut tells the model to read the rest with."""


class ToolMatches(Struct, frozen=True):
    tools: tuple[Tool, ...]
    """Those that fit, the best first."""
    total: int
    """How many there are to be found."""


def schema_properties(tool: Tool) -> Mapping[str, Any]:
    """The parameters at the top of a tool's schema."""
    properties = tool.input_schema.get("properties")
    return cast(dict[str, Any], properties) if isinstance(properties, dict) else {}


class ToolFinder(Protocol):
    def find(self, ctx: Context, query: str, limit: int) -> ToolMatches:
        """Of the tools that whoever made the call of `ctx` may see, at most `limit` that fit the words of `query`."""
        ...
