"""Selects configured MCP servers, and connects to them: shared by the subcommands of `holdfast mcp`."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Collection, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli import console, errors
from holdfast.cli.elicitation import TerminalElicitor, attach_silent_elicitor
from holdfast.cli.errors import UsageProblem
from holdfast.cli.project_context import bridge_of, open_runtime_for, sources_started
from holdfast.config.config import McpServer
from holdfast.factory.runtime import Project
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape
from holdfast.text.suggest import did_you_mean

if TYPE_CHECKING:
    # The MCP SDK is an optional extra.
    from holdfast.mcp.client.bridge import Bridge
    from holdfast.mcp.client.connection import ServerStatus

POLL_SECONDS: Final = 0.1


def require_sdk() -> None:
    if find_spec("mcp") is None:
        raise UsageProblem("The MCP SDK is not installed. Run `pip install 'holdfast[mcp]'`.")


def select_servers(project: Project, names: Sequence[str]) -> dict[str, McpServer]:
    """Return the named servers, all without names; raise `UsageProblem` for an unknown one."""
    servers = project.loaded.config.mcp.servers
    for name in names:
        if name not in servers:
            meant = did_you_mean(name, servers)
            hint = f"Did you mean '{meant}'?" if meant else "`holdfast mcp servers` lists them."
            raise UsageProblem(f"There is no MCP server '{escape(name)}'. {hint}")
    return {name: server for name, server in servers.items() if not names or name in names}


def select_remote(project: Project, name: str) -> McpServer:
    """Return the server; raise `UsageProblem` if it has no url, and so no login."""
    server = select_servers(project, (name,))[name]
    if server.url is None:
        raise UsageProblem(f"The MCP server '{name}' is a command. Only servers with a url have logins.")
    return server


@asynccontextmanager
async def connected_bridge(
    project: Project, servers: Collection[str], *, asks: bool = False
) -> AsyncGenerator[tuple[Runtime, Bridge | None]]:
    """Start the servers and list their tools, and nothing else of the runtime. No bridge if all are disabled."""
    require_sdk()
    with open_runtime_for(project, entry_points=False, read_only=True, servers=servers) as runtime:
        attach_silent_elicitor(runtime, servers)
        if asks:
            runtime.attach(elicitor=TerminalElicitor(runtime))
        async with sources_started(runtime):
            yield runtime, bridge_of(runtime)


def is_ready(status: ServerStatus | None) -> bool:
    return status is not None and status.state == "ready"


@contextmanager
def reporting_interrupt(as_json: bool, message: str = "Nothing was changed.") -> Generator[None]:
    """Report Ctrl-C on a line of its own."""
    try:
        yield
    except KeyboardInterrupt:
        if console.is_terminal(sys.stderr):
            console.print_err()
        code = errors.report("interrupted", f"Interrupted. {message}", errors.INTERRUPTED, as_json=as_json)
        raise click.exceptions.Exit(code) from None
