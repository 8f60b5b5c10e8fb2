"""The client bridge: makes each configured MCP server a source of tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.config.config import McpServer
from holdfast.contract.errors import ToolError
from holdfast.mcp.client.connection import Clock, Connection, ServerStatus
from holdfast.mcp.client.tool_catalog import ChangedTool
from holdfast.text.suggest import did_you_mean

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime
    from holdfast.store.pins import ToolPins

CLOSE_SECONDS: Final = 5.0


class Bridge:
    """All MCP servers of one runtime: `Bridge(runtime, config.mcp.servers, pins=..., state=...).attach()`."""

    def __init__(
        self,
        runtime: Runtime,
        servers: Mapping[str, McpServer],
        *,
        pins: ToolPins | None,
        state: Path | None,
        clock: Clock | None = None,
    ) -> None:
        """`state` is the user's state directory, where logins are stored; None stores none."""
        self._runtime = runtime
        self._off = tuple(name for name, server in servers.items() if not server.enabled)
        self._servers = {name: server for name, server in servers.items() if server.enabled}
        self._connections = {
            name: Connection(runtime, name, server, pins=pins, state=state, clock=clock)
            for name, server in self._servers.items()
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    def attach(self) -> None:
        """Add each server as a tool source of the runtime. All of them end with the runtime."""
        for name, connection in self._connections.items():
            self._runtime.registry.register(_source(connection, self._servers[name], self._begin))
        self._runtime.on_close(self.close)

    async def close(self) -> None:
        """Close every connection and end the server processes."""
        self._closed = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, slow = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for task in slow:
            task.cancel()
        if slow:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await asyncio.wait(slow)

    def status(self) -> tuple[ServerStatus, ...]:
        off = (ServerStatus(name=name, state="off", reason="it is not enabled") for name in self._off)
        return (*(connection.status for connection in self._connections.values()), *off)

    def changed(self) -> tuple[ChangedTool, ...]:
        """Tools whose definition is new or differs from the reviewed one, with the difference."""
        return tuple(item for connection in self._connections.values() for item in connection.catalog.differences())

    def accept(self, change: ChangedTool) -> bool:
        """Mark a definition as reviewed; False if it is no longer the one that was shown."""
        return self._connection(change.server).catalog.accept(change.tool, change.digest)

    def refresh(self, server: str) -> None:
        """List a server's tools again, as after a list-changed notification."""
        self._connection(server).refresh()

    def _connection(self, server: str) -> Connection:
        connection = self._connections.get(server)
        if connection is None:
            close = did_you_mean(server, self._connections)
            hint = f" Did you mean '{close}'?" if close else " `holdfast mcp servers` names those there are."
            raise ToolError(f"There is no enabled MCP server '{server[:80]}'.{hint}")
        return connection

    def _begin(self, connection: Connection) -> None:
        if not self._closed:
            self._tasks.append(asyncio.create_task(connection.run(), name=f"mcp {connection.name}"))


def _source(connection: Connection, server: McpServer, begin: Callable[[Connection], None]) -> dict[str, object]:
    """The source is done after the first list. The connection outlives it and registers later changes itself."""

    async def resolve(register: object, done: Callable[[object], None]) -> None:
        connection.first = asyncio.get_running_loop().create_future()
        begin(connection)
        done(await connection.first or None)

    resolve.__module__, resolve.__qualname__ = "mcp", connection.name  # the label in warnings
    return {"resolve": resolve, "timeout": server.start_timeout}
