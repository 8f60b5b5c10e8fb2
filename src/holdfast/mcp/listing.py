"""The list of a server's tools, page by page, with a bound for everything a server could make endless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

MAX_TOOLS: Final = 10_000
MAX_PAGES: Final = 1_000
MAX_CHARS: Final = 32 * 1024 * 1024
"""Of all definitions together."""


async def list_tools(client: Client) -> tuple[list[Tool], bool]:
    """The tools, and whether these are all."""
    if client.server_capabilities.tools is None:
        return [], True
    tools: list[Tool] = []
    cursor: str | None = None
    room = MAX_CHARS
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
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
