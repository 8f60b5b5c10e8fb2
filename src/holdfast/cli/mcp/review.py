"""`holdfast mcp review`: review new and changed tool definitions of MCP servers, and accept them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

import click

from holdfast.cli import console
from holdfast.cli.errors import PENDING, UsageProblem
from holdfast.cli.layout import quote, wrap_sentence
from holdfast.cli.mcp.connection import connected_bridge, is_ready, reporting_interrupt, select_servers
from holdfast.cli.pending_view import diff_style
from holdfast.cli.project_context import Flags, project_here
from holdfast.cli.prompt import confirm
from holdfast.cli.root import complete_server, with_flags
from holdfast.contract.names import mcp_server_name
from holdfast.factory.runtime import Project
from holdfast.json_output import DefinitionOutput
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape, escape_once
from holdfast.text.suggest import did_you_mean

if TYPE_CHECKING:
    from holdfast.mcp.client.bridge import Bridge
    from holdfast.mcp.client.tool_catalog import ChangedTool


@click.command()
@click.argument("server", required=False, shell_complete=complete_server)
@click.argument("tool", required=False)
@click.option("-y", "--yes", is_flag=True, help="Accept without asking; only with SERVER and TOOL.")
@with_flags
def review(flags: Flags, server: str | None, tool: str | None, yes: bool, as_json: bool) -> int:
    """Review changed tool definitions of servers, and accept them.

    A tool is blocked until you accept it here if its description, schema or
    annotations changed since you first saw it, or if a known server added it
    later. The exit code is 4 while one is left.

    \b
    Example:
      holdfast mcp review files
    """
    with reporting_interrupt(as_json, "Definitions that you did not accept stay blocked."):
        return _review(flags, server, tool, yes=yes, as_json=as_json)


def _review(flags: Flags, server: str | None, tool: str | None, *, yes: bool, as_json: bool) -> int:
    if yes and tool is None:
        raise UsageProblem("--yes accepts one definition. Name its SERVER and TOOL, or leave out --yes to see each.")
    project = project_here(flags)
    servers = select_servers(project, () if server is None else (server,))
    if not servers and not as_json:
        console.print_err("No MCP server is configured.")
    left = asyncio.run(_review_servers(project, servers, tool, yes=yes, as_json=as_json)) if servers else 0
    return PENDING if left else 0


async def _review_servers(
    project: Project, servers: Collection[str], tool: str | None, *, yes: bool, as_json: bool
) -> int:
    """Return how many definitions are left unaccepted."""
    async with connected_bridge(project, servers) as (runtime, bridge):
        if bridge is None:
            return 0
        away = [status.name for status in bridge.status() if not is_ready(status)]
        if away and not as_json:
            names = ", ".join(map(escape, away))
            console.print_err(f"Not reviewed, because unreachable: {names}. See `holdfast mcp servers`.")
        changes = [change for change in bridge.changed() if tool is None or change.tool == tool]
        if tool is not None and not changes:
            _require_tool(runtime, next(iter(servers)), tool, away)
        if not changes and not as_json and not away:
            console.print_err("No definition has changed." if tool is None else f"'{escape(tool)}' has not changed.")
        left = 0
        for change in changes:
            accepted = await _decide(bridge, change, yes=yes, as_json=as_json)
            left += not accepted
            if as_json:
                console.print_json(
                    DefinitionOutput(
                        server=change.server,
                        tool=change.tool,
                        new=change.new,
                        difference=change.difference,
                        accepted=accepted,
                    )
                )
        if left and not as_json and not console.can_ask():
            console.print_err("Accept them in a terminal, or one by one with `holdfast mcp review SERVER TOOL --yes`.")
        return left


def _require_tool(runtime: Runtime, server: str, tool: str, away: Collection[str]) -> None:
    """Raise `UsageProblem` if the server has no such tool, or is unreachable."""
    if server in away:
        raise UsageProblem(
            f"Cannot list the tools of '{server}': it is unreachable. See `holdfast mcp servers {server}`."
        )
    own = [found.name for found in runtime.registry.list() if mcp_server_name(found.name) == server]
    names = [name.removeprefix(f"mcp:{server}:") for name in own]
    if tool not in names:
        meant = did_you_mean(tool, names)
        hint = f"Did you mean '{escape(meant)}'?" if meant else "`holdfast tools` lists its tools."
        raise UsageProblem(f"The MCP server '{server}' has no tool '{escape(tool)}'. {hint}")


async def _decide(bridge: Bridge, change: ChangedTool, *, yes: bool, as_json: bool) -> bool:
    """Show a changed definition and ask; return whether it was accepted."""
    if not as_json:
        _print_change(change)
    if not yes:
        if as_json or not console.can_ask():
            return False
        if not await confirm("Accept this definition? [y/N] "):
            console.print_err("Not accepted. The tool stays blocked.")
            return False
    if not bridge.accept(change):
        console.print_err(f"{escape(change.tool)} changed again meanwhile. Review it again.")
        return False
    if not as_json:
        console.print_err("Accepted.")
    return True


def _print_change(change: ChangedTool) -> None:
    new = " (new)" if change.new else ""
    name = f"mcp:{escape(change.server)}:{escape(change.tool)}{new}"
    difference = quote(change.difference.rstrip("\n"), sys.stdout, style=_style, show=escape_once)
    console.print_out_lines((*wrap_sentence(name, sys.stdout, "bold"), *difference.lines))
    sys.stdout.flush()


def _style(line: str, number: int) -> tuple[str, ...]:
    return diff_style(line, number + 2)  # the difference has no file names in its first two lines
