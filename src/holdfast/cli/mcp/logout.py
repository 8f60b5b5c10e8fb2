"""`holdfast mcp logout`: delete the stored login to an MCP server."""

from __future__ import annotations

import click

from holdfast.cli import console
from holdfast.cli.mcp.connection import select_remote
from holdfast.cli.project_context import Flags, project_here
from holdfast.cli.root import complete_server, with_flags
from holdfast.fs.own_paths import user_state_dir
from holdfast.json_output import LoginOutput


@click.command()
@click.argument("server", shell_complete=complete_server)
@with_flags
def logout(flags: Flags, server: str, as_json: bool) -> int:
    """Delete the stored login to a server.

    \b
    Example:
      holdfast mcp logout issues
    """
    from holdfast.mcp.client.oauth_store import forget_login  # needs the optional MCP SDK

    deleted = forget_login(server, select_remote(project_here(flags), server), user_state_dir())
    if as_json:
        reason = "" if deleted else "there was no login"
        console.print_json(LoginOutput(server=server, logged_in=False, reason=reason))
    elif deleted:
        console.print_err("Logged out here. The server's token stays valid until it expires; revoke it there too.")
    else:
        console.print_err(f"There is no login for '{server}'.")
    return 0
