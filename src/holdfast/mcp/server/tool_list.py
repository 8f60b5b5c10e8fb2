"""What an MCP client is shown of the tools: under API names, with annotations that follow from effects."""

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
"""A capability that begins like this names the MCP request a tool answers; it is no tool to a client."""
_DESTROYS: Final = frozenset({"fs.write", "process", "external"})
_OPEN_WORLD: Final = frozenset({"network", "external"})


class ToolPages:
    """The tools one caller sees."""

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
        """The tools after the one a cursor names. Raises `ValueError` for a cursor that is none of ours."""
        start = 0 if cursor is None else bisect_right(self.listed, _name_in(cursor), key=lambda tool: tool.name)
        shown = self.listed[start : start + PAGE]
        page: dict[str, Any] = {"tools": [], "ttlMs": 0, "cacheScope": "private"}
        for tool in shown:
            with suppress(ValueError, RecursionError):  # a schema that cannot be written down hides its own tool only
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
    bounded = mcp_server_name(tool.source) is None  # what a bridged server returns may be too long to be sent whole
    if bounded and tool.output_schema is not None and tool.output_schema.get("type") == "object":
        wire["outputSchema"] = dict(tool.output_schema)
    return clean(wire)


def _name_in(cursor: str) -> str:
    try:
        return b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"'{cursor[:80]}' is no cursor of this list; begin again without one.") from error
