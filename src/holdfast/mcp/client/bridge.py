"""The client bridge: the servers of the configuration as sources of tools, each on its own."""

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
        """`state` is the folder of the person's own state, where logins are kept; None keeps none."""
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
        """Make each server a source of the runtime's tools; leaving the runtime ends them all."""
        for name, connection in self._connections.items():
            self._runtime.registry.register(_source(connection, self._servers[name], self._begin))
        self._runtime.on_close(self.close)

    async def close(self) -> None:
        """End every connection, and the processes behind them."""
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
        """The tools whose definition is not the one a person has seen, with the difference; new ones too."""
        return tuple(item for connection in self._connections.values() for item in connection.shelf.differences())

    def accept(self, change: ChangedTool) -> bool:
        """Take a definition for seen; False if it is not the one any more that was shown."""
        return self._connection(change.server).shelf.accept(change.tool, change.digest)

    def refresh(self, server: str) -> None:
        """Read the list of a server again, as if it had said that it has changed."""
        self._connection(server).refresh()

    def _connection(self, server: str) -> Connection:
        connection = self._connections.get(server)
        if connection is None:
            close = did_you_mean(server, self._connections)
            hint = f" Did you mean '{close}'?" if close else " `holdfast mcp servers` names those there are."
            raise ToolError(f"No MCP server '{server[:80]}' is enabled.{hint}")
        return connection

    def _begin(self, connection: Connection) -> None:
        if not self._closed:
            self._tasks.append(asyncio.create_task(connection.run(), name=f"mcp {connection.name}"))


def _source(connection: Connection, server: McpServer, begin: Callable[[Connection], None]) -> dict[str, object]:
    """The source waits for the first list; the connection outlives it, and registers what comes later by itself."""

    async def resolve(register: object, done: Callable[[object], None]) -> None:
        connection.first = asyncio.get_running_loop().create_future()
        begin(connection)
        done(await connection.first or None)

    resolve.__module__, resolve.__qualname__ = "mcp", connection.name  # what warnings call it
    return {"resolve": resolve, "timeout": server.start_timeout}
