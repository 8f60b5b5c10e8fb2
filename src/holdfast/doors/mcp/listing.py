"""What an MCP client is shown of the tools: under API names, with annotations that follow from effects."""

from __future__ import annotations

import binascii
from base64 import b64decode, urlsafe_b64encode
from bisect import bisect_right
from typing import Any, Final

from holdfast.contract.call import Caller
from holdfast.contract.names import server_of
from holdfast.contract.tool import Tool
from holdfast.contract.vocabulary import Risk
from holdfast.doors.mcp.wire import clean
from holdfast.runtime.runtime import Runtime

PAGE: Final = 200
ANSWERS: Final = "mcp:"
"""A capability that begins like this names the MCP request a tool answers; it is no tool to a client."""
_DESTROYS: Final = frozenset({"fs.write", "process", "external"})
_OPEN_WORLD: Final = frozenset({"network", "external"})
_MAX_CALLERS: Final = 64


class Shown:
    """The tools one caller sees."""

    def __init__(self, tools: list[Tool]) -> None:
        self.answering: dict[str, list[Tool]] = {}
        listed: list[Tool] = []
        for tool in tools:
            methods = [name[len(ANSWERS) :] for name in tool.capabilities if name.startswith(ANSWERS)]
            for method in methods:
                self.answering.setdefault(method, []).append(tool)
            if not methods:
                listed.append(tool)
        self.names: list[str] = []
        self.wire: list[dict[str, Any]] = []
        for tool in listed:
            try:
                self.wire.append(to_wire(tool))
            except (ValueError, RecursionError):
                continue  # a schema that cannot be written down hides its own tool only
            self.names.append(tool.name)

    def page(self, cursor: str | None) -> dict[str, Any]:
        """The tools after the one a cursor names. Raises `ValueError` for a cursor that is none of ours."""
        start = 0 if cursor is None else bisect_right(self.names, _name_in(cursor))
        page: dict[str, Any] = {"tools": self.wire[start : start + PAGE], "ttlMs": 0, "cacheScope": "private"}
        if start + PAGE < len(self.names):
            page["nextCursor"] = urlsafe_b64encode(self.names[start + PAGE - 1].encode()).decode()
        return page


class Listing:
    """Keeps what callers are shown until a tool or the policy changes."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._revision = -1
        self._shown: dict[Caller, Shown] = {}

    def shown(self, caller: Caller) -> Shown:
        revision = self._runtime.registry.revision
        if revision != self._revision or len(self._shown) >= _MAX_CALLERS:
            self._shown.clear()
            self._revision = revision
        found = self._shown.get(caller)
        if found is None:
            found = self._shown[caller] = Shown(self._runtime.visible(caller))
        return found


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
    bounded = server_of(tool.source) is None  # what a bridged server returns may be too long to be sent whole
    if bounded and tool.output_schema is not None and tool.output_schema.get("type") == "object":
        wire["outputSchema"] = dict(tool.output_schema)
    return clean(wire)


def _name_in(cursor: str) -> str:
    try:
        return b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"'{cursor[:80]}' is no cursor of this list; begin again without one.") from error
