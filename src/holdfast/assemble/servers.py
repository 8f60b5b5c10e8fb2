"""The MCP servers a configuration names, put beside the other tools of a runtime."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.config.model import McpServer
from holdfast.runtime.runtime import Runtime

if TYPE_CHECKING:
    from holdfast.mcp.bridge import Bridge

_MISSING: Final = (
    "MCP servers are configured, but the MCP SDK is not installed, so their tools are missing: "
    "pip install 'holdfast[mcp]'"
)


def add_servers(runtime: Runtime, user_db: Path, only: Collection[str] | None = None) -> Bridge | None:
    """Make sources of the servers that are switched on (of `only` these); they start with the runtime."""
    servers = {
        name: server
        for name, server in runtime.config.mcp.servers.items()
        if server.enabled and (only is None or name in only)
    }
    if not servers:
        return None
    if find_spec("mcp") is None:
        runtime.registry.warn(_MISSING)
        return None
    return _bridge(runtime, servers, user_db)


def _bridge(runtime: Runtime, servers: dict[str, McpServer], user_db: Path) -> Bridge:
    from holdfast.mcp.bridge import Bridge
    from holdfast.store.pins import Pins

    pins = Pins(user_db)
    runtime.on_close(pins.close)
    bridge = Bridge(runtime, servers, pins=pins, state=user_db.parent)
    bridge.attach()
    runtime.services.offer(Bridge, bridge)
    return bridge
