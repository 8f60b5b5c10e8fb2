"""Sources of tools, such as MCP servers, for commands that only look: started, and ended again."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.contract.errors import HoldfastError
from holdfast.doors.cli import screen

if TYPE_CHECKING:
    from holdfast.config.model import McpServer
    from holdfast.mcp.bridge import Bridge
    from holdfast.mcp.connection import ServerStatus
    from holdfast.runtime.runtime import Runtime


class ServerAway(HoldfastError):
    """The MCP server a tool comes from is not there."""


@asynccontextmanager
async def sources_started(runtime: Runtime) -> AsyncGenerator[None]:
    """Every source has reported or timed out. Calls that were approved meanwhile are not run."""
    async with AsyncExitStack() as stack:
        runtime.events.use_running_loop()
        stack.push_async_exit(runtime.__aexit__)
        await runtime.registry.start()
        await wait_for_sources(runtime)
        yield


def leave_out_warnings() -> None:
    """About servers that are away: that is what the command itself tells."""
    import logging

    logging.getLogger("holdfast").addFilter(lambda record: not record.getMessage().startswith("Tool source 'mcp."))


def need_server(runtime: Runtime, tool: str) -> None:
    """Raises `ServerAway` for a tool that is not there because its MCP server is not."""
    from holdfast.contract.names import from_api_name, server_of

    if runtime.registry.find(tool) is not None:
        return
    server = server_of(tool if ":" in tool else from_api_name(tool) or "")
    named = runtime.config.mcp.servers
    if server is None or server not in named:
        return
    if not named[server].enabled:
        raise ServerAway(f"There is no tool '{tool}': its server '{server}' is switched off.")
    status = next((each for each in _statuses(runtime) if each.name == server), None)
    if status is not None and status.state != "ready":
        reason = why(status, named[server])
        raise ServerAway(
            f"There is no tool '{tool}': its server '{server}' is {status.state}: {reason}; "
            f"see `holdfast mcp servers {server}`."
        )


def why(status: ServerStatus, server: McpServer) -> str:
    """Why a server is not ready."""
    if status.state == "starting" and not status.reason:
        return f"it was not ready after {server.start_timeout:g} s"
    split = server.command is not None and " " in server.command and status.state == "away"
    hint = "; what follows the name of the program belongs into args" if split else ""
    return f"{status.reason}{hint}"


def bridge_of(runtime: Runtime) -> Bridge | None:
    """None where every server is switched off."""
    from holdfast.mcp.bridge import Bridge

    try:
        return runtime.services.get(Bridge)
    except HoldfastError:
        return None


def _statuses(runtime: Runtime) -> Sequence[ServerStatus]:
    bridge = bridge_of(runtime)
    return () if bridge is None else bridge.status()


async def wait_for_sources(runtime: Runtime) -> None:
    if not runtime.registry.ready:
        with screen.progress() as tell:
            tell("waiting for MCP servers and other sources of tools…")
            await runtime.registry.wait_ready()
