"""Lists a server's tools page by page, with a limit on everything that a server could make endless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, cast

from mcp import Client, MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types import ListToolsResult, Tool
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from holdfast.mcp.stdio_lines import TOO_LONG, UnreadableItem, is_json

MAX_TOOLS: Final = 10_000
MAX_PAGES: Final = 1_000
MAX_CHARS: Final = 32 * 1024 * 1024
"""Bytes of all definitions together."""
MAX_DEPTH: Final = 100
"""Nesting levels of a definition. A deeper one could overflow the stack when it is parsed, shown or compiled."""


async def list_tools(client: Client) -> tuple[list[Tool], bool]:
    """The tools, and whether these are all."""
    if client.server_capabilities.tools is None:
        return [], True
    tools: list[Tool] = []
    cursor: str | None = None
    room = MAX_CHARS
    for _ in range(MAX_PAGES):
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if cursor is None or error.code != TOO_LONG:
                raise
            return tools, False  # only this page has the cursor of the next one
        room -= sum(map(_size, page.tools))
        if room < 0:
            return tools, False
        tools += page.tools
        if len(tools) > MAX_TOOLS:
            return tools[:MAX_TOOLS], False
        cursor = page.next_cursor
        if not cursor:
            return tools, True
    return tools, False


def _size(tool: Tool) -> int:
    return len(tool.description or "") + len(repr(tool.input_schema)) + len(repr(tool.output_schema))


def drop_malformed(page: dict[str, Any], version: str) -> list[tuple[str, str]]:
    """Remove malformed tools from a page and return their names with the reason.

    The SDK rejects a whole page, and with it the server, for one malformed tool.
    """
    if not isinstance(page.get("tools"), list):
        return []
    tools = cast("list[Any]", page["tools"])
    why = {at: f"it is nested more than {MAX_DEPTH} levels deep" for at, tool in enumerate(tools) if _is_deep(tool)}
    why |= {at: UnreadableItem.WHY for at, tool in enumerate(tools) if at not in why and not is_json(tool)}
    sound = {**page, "tools": [None if at in why else tool for at, tool in enumerate(tools)]}
    for at, reason in _faults(sound, version):
        why.setdefault(at, reason)
    for at, tool in enumerate(tools if version in MODERN_PROTOCOL_VERSIONS else ()):
        reason = None if at in why else find_invalid_x_mcp_header(tool["inputSchema"])
        if reason is not None:  # the SDK drops these silently
            why[at] = reason
    page["tools"] = [tool for at, tool in enumerate(tools) if at not in why]
    return [(_name(tools[at], at), reason) for at, reason in sorted(why.items())]


def _faults(page: dict[str, Any], version: str) -> Iterator[tuple[int, str]]:
    """Where the SDK would reject a tool: by the rules of this version, then by those of all versions."""
    for check in (
        lambda: validate_server_result("tools/list", version, page),
        lambda: ListToolsResult.model_validate(page, by_name=False),
    ):
        try:
            check()
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False, include_input=False):
                where = fault["loc"]
                if len(where) > 1 and where[0] == "tools" and isinstance(where[1], int):
                    part = ".".join(map(str, where[2:]))
                    yield where[1], f"{part}: {fault['msg']}" if part else fault["msg"]
        except (KeyError, ValueError):
            continue  # a version for which the SDK has no rules


def _is_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (cast("dict[str, Any]", item).values() if isinstance(item, dict) else cast("list[Any]", item))
        ]
        if not level:
            return False
    return True


def _name(tool: Any, at: int) -> str:
    name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) and name else f"number {at + 1} of the list"
