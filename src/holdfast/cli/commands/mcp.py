"""`holdfast mcp`: serve the tools here to MCP clients, and use MCP servers. Subcommands are in `holdfast.cli.mcp`."""

from __future__ import annotations

import click

from holdfast.cli.mcp.forget import forget
from holdfast.cli.mcp.install import install
from holdfast.cli.mcp.login import login
from holdfast.cli.mcp.logout import logout
from holdfast.cli.mcp.review import review
from holdfast.cli.mcp.serve import serve
from holdfast.cli.mcp.servers import servers
from holdfast.cli.root import DefaultGroup


@click.group(cls=DefaultGroup)
def mcp() -> None:
    """Serve tools to MCP clients, and manage MCP servers."""


for command in (serve, servers, review, forget, login, logout, install):
    mcp.add_command(command)
