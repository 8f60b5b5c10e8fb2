"""Tool lists in the formats of OpenAI, Anthropic, Gemini and MCP, cached until the registry changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, TypeVar

from holdfast.contract.tool import Tool

Format = Literal["openai", "openai-chat", "anthropic", "gemini", "mcp"]
ToolList = list[dict[str, Any]]
T = TypeVar("T")

_MAX_CACHED: Final = 256
_SCHEMA_KEYS: Final[dict[Format, str]] = {
    "openai": "parameters",
    "openai-chat": "parameters",
    "anthropic": "input_schema",
    "gemini": "parametersJsonSchema",
    "mcp": "inputSchema",
}


def provider_list(tools: Iterable[Tool], format: Format) -> ToolList:  # noqa: A002
    """Return the tools in one provider's format, sorted by name. Schemas are passed through unchanged."""
    entries = [_entry(tool, format) for tool in sorted(tools, key=attrgetter("name"))]
    if format == "gemini":
        return [{"functionDeclarations": entries}] if entries else []
    return entries


class HasRevision(Protocol):
    @property
    def revision(self) -> int: ...


class ProviderListCache:
    """Caches the lists of one registry until its revision changes. Thread-safe."""

    def __init__(self, registry: HasRevision) -> None:
        self._registry = registry
        self._cache: tuple[int, dict[Hashable, Any]] = (registry.revision, {})

    def tools(self, key: Hashable, choose: Callable[[], Iterable[Tool]]) -> tuple[Tool, ...]:
        """Return the tools for `key` (for example a kind of caller); `choose` computes them on a cache miss."""
        return self._once(("", key), lambda: tuple(choose()))

    def get(self, format: Format, key: Hashable, choose: Callable[[], Iterable[Tool]]) -> ToolList:  # noqa: A002
        """Return the provider list for `key`; `choose` computes its tools on a cache miss.

        Do not modify the list: the same object is returned until the registry changes.
        """
        return self._once((format, key), lambda: provider_list(choose(), format))

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        revision, cached = self._cache
        if revision != self._registry.revision or len(cached) > _MAX_CACHED:
            cached: dict[Hashable, Any] = {}
            # The revision is read before the value is made, so that a change in between invalidates the cache.
            self._cache = (self._registry.revision, cached)
        if key not in cached:
            cached[key] = make()
        return cached[key]


def _entry(tool: Tool, format: Format) -> dict[str, Any]:  # noqa: A002
    entry: dict[str, Any] = {
        "name": tool.api_name,
        "description": tool.description,
        _SCHEMA_KEYS[format]: tool.input_schema,
    }
    match format:
        case "openai" | "openai-chat":
            if tool.strict:
                entry["strict"] = True
            return {"type": "function", **(entry if format == "openai" else {"function": entry})}
        # MCP allows only object schemas for structured content, and clients reject the whole list over any other.
        case "mcp" if tool.output_schema is not None and tool.output_schema.get("type") == "object":
            return entry | {"outputSchema": tool.output_schema}
        case _:
            return entry
