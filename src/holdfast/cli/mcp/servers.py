"""`holdfast mcp servers`: start the configured MCP servers and show their state."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from holdfast.cli import console
from holdfast.cli.errors import FAILED
from holdfast.cli.layout import print_table, wrap_sentence
from holdfast.cli.mcp.connection import POLL_SECONDS, connected_bridge, is_ready, reporting_interrupt, select_servers
from holdfast.cli.project_context import Flags, mute_source_warnings, project_here, unready_reason
from holdfast.cli.root import complete_server, with_flags
from holdfast.config.config import McpServer
from holdfast.factory.runtime import Project
from holdfast.json_output import ServerOutput

if TYPE_CHECKING:
    from holdfast.mcp.client.connection import ServerStatus

_NO_SERVERS: Final = (
    "No MCP server is configured. To add one, write into your configuration (`holdfast config path`):",
    "",
    "[mcp.servers.files]",
    'command = "mcp-server-filesystem"',
    'args = ["/home/ann/notes"]',
    "",
    "The program has to be installed. `holdfast help mcp` explains servers that npx or uvx downloads.",
)
_GRACE_POLLS: Final = 30
"""How often a server that timed out is polled for the reason it failed."""


@click.command()
@click.argument("names", nargs=-1, metavar="[SERVER]...", shell_complete=complete_server)
@with_flags
def servers(flags: Flags, names: tuple[str, ...], as_json: bool) -> int:
    """Start the configured MCP servers and show their state.

    Tool definitions are remembered when they are first seen. The exit code is 1
    if an enabled server could not be reached.

    \b
    Example:
      holdfast mcp servers
    """
    with reporting_interrupt(as_json):
        return _show_servers(flags, names, as_json=as_json)


def _show_servers(flags: Flags, names: tuple[str, ...], *, as_json: bool) -> int:
    project = project_here(flags)
    selected = select_servers(project, names)
    if not selected:
        if not as_json:
            for paragraph in _NO_SERVERS:
                console.print_out_lines(wrap_sentence(paragraph, sys.stdout))
        return 0
    mute_source_warnings()
    statuses = asyncio.run(_statuses(project, selected))
    if as_json:
        for name, server in selected.items():
            console.print_json(_output(name, server, statuses.get(name)))
    else:
        rows = [_row(name, server, statuses.get(name)) for name, server in selected.items()]
        print_table(["server", "state", "transport", "tools", "details"], rows)
    unreachable = [name for name, server in selected.items() if server.enabled and not is_ready(statuses.get(name))]
    return FAILED if unreachable else 0


async def _statuses(project: Project, names: Collection[str]) -> dict[str, ServerStatus]:
    async with connected_bridge(project, names) as (_runtime, bridge):
        if bridge is None:
            return {}
        for _ in range(_GRACE_POLLS):
            if all(status.state != "starting" for status in bridge.status()):
                break
            await asyncio.sleep(POLL_SECONDS)
        return {status.name: status for status in bridge.status()}


def _transport(server: McpServer) -> str:
    if server.command is not None:
        return "stdio"
    return {"auto": "http", "http": "http", "sse": "sse"}[server.transport]


def _row(name: str, server: McpServer, status: ServerStatus | None) -> list[str]:
    if status is None or not server.enabled:
        return [name, "off" if not server.enabled else "away", _transport(server), "", ""]
    product = " ".join(part for part in (status.title, status.version) if part)
    facts = [product, f"protocol {status.protocol}" if status.protocol else ""]
    if status.changed:
        facts.append(f"{status.changed} new or changed, blocked until `holdfast mcp review {name}`")
    facts.append(unready_reason(status, server))
    tools = str(status.tools) if status.state == "ready" else ""
    return [name, status.state, _transport(server), tools, "; ".join(fact for fact in facts if fact)]


def _output(name: str, server: McpServer, status: ServerStatus | None) -> ServerOutput:
    command = None if server.command is None else [server.command, *server.args]
    state = "off" if not server.enabled else "away" if status is None else status.state
    found = ServerOutput(name=name, state=state, transport=_transport(server), command=command, url=server.url)
    if status is None or not server.enabled:
        return found
    return replace(
        found,
        tools=status.tools,
        changed=status.changed,
        reason=unready_reason(status, server),
        title=status.title,
        version=status.version,
        protocol=status.protocol,
    )
