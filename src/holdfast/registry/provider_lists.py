"""Tool lists in the formats of providers and MCP, and the search over many tools, ranked by BM25."""

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
    """The list in one provider's format. Schemas are passed through as they are."""
    entries = [_entry(tool, format) for tool in sorted(tools, key=attrgetter("name"))]
    if format == "gemini":
        return [{"functionDeclarations": entries}] if entries else []
    return entries


class HasRevision(Protocol):
    @property
    def revision(self) -> int: ...


class ProviderListCache:
    """Keeps the lists of one registry until it changes. May be asked from any thread."""

    def __init__(self, registry: HasRevision) -> None:
        self._registry = registry
        self._kept: tuple[int, dict[Hashable, Any]] = (registry.revision, {})

    def tools(self, key: Hashable, choose: Callable[[], Iterable[Tool]]) -> tuple[Tool, ...]:
        """The tools for whatever `key` stands for, as `choose` says."""
        return self._once(("", key), lambda: tuple(choose()))

    def get(self, format: Format, key: Hashable, choose: Callable[[], Iterable[Tool]]) -> ToolList:  # noqa: A002
        """The list for whatever `key` stands for, such as a kind of caller; `choose` is asked when it is not kept.

        The same object comes back until the registry changes: do not change it.
        """
        return self._once((format, key), lambda: provider_list(choose(), format))

    def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The revision is taken before anything is made: what changes meanwhile is never kept as the present."""
        revision, kept = self._kept
        if revision != self._registry.revision or len(kept) > _MAX_CACHED:
            kept: dict[Hashable, Any] = {}
            self._kept = (self._registry.revision, kept)
        if key not in kept:
            kept[key] = make()
        return kept[key]


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
        # MCP knows structured content as objects only; clients refuse a whole list over one other schema.
        case "mcp" if tool.output_schema is not None and tool.output_schema.get("type") == "object":
            return entry | {"outputSchema": tool.output_schema}
        case _:
            return entry
