"""The `tools/list` responses: tools under their API names, with annotations derived from their effects."""

from __future__ import annotations

import binascii
from base64 import b64decode, urlsafe_b64encode
from bisect import bisect_right
from contextlib import suppress
from typing import Any, Final

from holdfast.contract.enums import Risk
from holdfast.contract.names import mcp_server_name
from holdfast.contract.tool import Tool
from holdfast.mcp.server.wire import clean

PAGE: Final = 200
ANSWERS: Final = "mcp:"
"""Prefix of a capability that names the MCP method a tool answers. Such a tool is not listed."""
_DESTROYS: Final = frozenset({"fs.write", "process", "external"})
_OPEN_WORLD: Final = frozenset({"network", "external"})


class ToolPages:
    """The tools that one caller sees, in pages."""

    def __init__(self, tools: list[Tool]) -> None:
        self.answering: dict[str, list[Tool]] = {}
        self.listed: list[Tool] = []
        for tool in tools:
            methods = [name[len(ANSWERS) :] for name in tool.capabilities if name.startswith(ANSWERS)]
            for method in methods:
                self.answering.setdefault(method, []).append(tool)
            if not methods:
                self.listed.append(tool)

    def page(self, cursor: str | None) -> dict[str, Any]:
        """The page after a cursor. Raises `ValueError` for an invalid cursor."""
        start = 0 if cursor is None else bisect_right(self.listed, _name_in(cursor), key=lambda tool: tool.name)
        shown = self.listed[start : start + PAGE]
        page: dict[str, Any] = {"tools": [], "ttlMs": 0, "cacheScope": "private"}
        for tool in shown:
            with suppress(ValueError, RecursionError):  # a schema that cannot be serialised hides only its own tool
                page["tools"].append(to_wire(tool))
        if start + PAGE < len(self.listed):
            page["nextCursor"] = urlsafe_b64encode(shown[-1].name.encode()).decode()
        return page


def answers_requests(tool: Tool) -> bool:
    return any(name.startswith(ANSWERS) for name in tool.capabilities)


def to_wire(tool: Tool) -> dict[str, Any]:
    effects = tool.effects
    annotations: dict[str, Any] = {
        "readOnlyHint": not tool.mutates,
        "destructiveHint": effects is None or tool.risk is Risk.HIGH or bool(effects & _DESTROYS),
        "openWorldHint": effects is None or bool(effects & _OPEN_WORLD),
    }
    wire: dict[str, Any] = {
        "name": tool.api_name,
        "title": tool.name,
        "description": tool.description,
        "inputSchema": {**tool.input_schema, "type": "object"},
        "annotations": annotations,
    }
    bounded = mcp_server_name(tool.source) is None  # a bridged server's structured result may be too long to send whole
    if bounded and tool.output_schema is not None and tool.output_schema.get("type") == "object":
        wire["outputSchema"] = dict(tool.output_schema)
    return clean(wire)


def _name_in(cursor: str) -> str:
    try:
        return b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"'{cursor[:80]}' is not a cursor of this list. Start again without one.") from error
