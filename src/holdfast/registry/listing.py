"""Tool lists as model providers and MCP want them, sorted by name and the same bytes every time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any, Final, Literal, Protocol

from holdfast.contract.tool import Tool

Format = Literal["openai", "openai-chat", "anthropic", "gemini", "mcp"]
ToolList = list[dict[str, Any]]

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


class Revised(Protocol):
    @property
    def revision(self) -> int: ...


class Listing:
    """Keeps the lists of one registry until it changes. May be asked from any thread."""

    __slots__ = ("_kept", "_registry")

    def __init__(self, registry: Revised) -> None:
        self._registry = registry
        self._kept = _Kept(registry.revision)

    def tools(self, key: Hashable, choose: Callable[[], Iterable[Tool]]) -> tuple[Tool, ...]:
        """The tools for whatever `key` stands for, as `choose` says."""
        chosen = self._now().tools
        found = chosen.get(key)
        if found is None:
            found = chosen[key] = tuple(choose())
        return found

    def get(self, format: Format, key: Hashable, choose: Callable[[], Iterable[Tool]]) -> ToolList:  # noqa: A002
        """The list for whatever `key` stands for, such as a kind of caller; `choose` is asked when it is not kept.

        The same object comes back until the registry changes: do not change it.
        """
        lists = self._now().lists
        found = lists.get((format, key))
        if found is None:
            found = lists[format, key] = provider_list(choose(), format)
        return found

    def _now(self) -> _Kept:
        """Taken before anything is asked for, so that what has changed meanwhile is never kept as the present."""
        kept, revision = self._kept, self._registry.revision
        if kept.revision != revision or len(kept.tools) + len(kept.lists) > _MAX_CACHED:
            kept = self._kept = _Kept(revision)
        return kept


class _Kept:
    __slots__ = ("lists", "revision", "tools")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.tools: dict[Hashable, tuple[Tool, ...]] = {}
        self.lists: dict[tuple[Format, Hashable], ToolList] = {}


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
