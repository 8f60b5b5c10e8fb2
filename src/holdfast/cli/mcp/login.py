"""`holdfast mcp login`: log in to an MCP server with OAuth, in the browser."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from holdfast.cli import console
from holdfast.cli.errors import FAILED, UsageProblem
from holdfast.cli.mcp.connection import POLL_SECONDS, connected_bridge, is_ready, select_remote
from holdfast.cli.project_context import Flags, mute_source_warnings, project_here, unready_reason
from holdfast.cli.root import complete_server, with_flags
from holdfast.factory.runtime import Project
from holdfast.json_output import LoginOutput
from holdfast.text.escape import escape_once

if TYPE_CHECKING:
    from holdfast.mcp.client.connection import ServerStatus


@click.command()
@click.argument("server", shell_complete=complete_server)
@with_flags
def login(flags: Flags, server: str, as_json: bool) -> int:
    """Log in to a server with a url, in your browser.

    \b
    Example:
      holdfast mcp login issues
    """
    project = project_here(flags)
    config = select_remote(project, server)
    if not config.enabled:
        raise UsageProblem(f"The MCP server '{server}' is disabled. Set mcp.servers.{server}.enabled = true first.")
    if not console.can_ask():
        raise UsageProblem(f"A login needs a terminal. Run `holdfast mcp login {server}` in one.")
    mute_source_warnings()
    status = asyncio.run(_connect(project, server))
    ready = is_ready(status)
    if as_json:
        reason = "" if status is None else unready_reason(status, config)
        console.print_json(LoginOutput(server=server, logged_in=ready, reason=reason))
    elif ready:
        console.print_err(f"Logged in to '{server}': {status.tools if status else 0} tools.")
    else:
        reason = "it did not start" if status is None else status.reason or "it did not answer"
        console.print_err(f"Cannot reach '{server}': {escape_once(reason)}")
    return 0 if ready else FAILED


async def _connect(project: Project, name: str) -> ServerStatus | None:
    async with connected_bridge(project, (name,), asks=True) as (_, bridge):
        while bridge is not None:  # a login takes as long as the person does, longer than sources are waited for
            (status,) = [status for status in bridge.status() if status.name == name]
            if status.state != "starting":
                return status
            await asyncio.sleep(POLL_SECONDS)
    return None
