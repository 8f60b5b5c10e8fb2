"""`holdfast mcp forget`: forget the pinned tool definitions of an MCP server."""

from __future__ import annotations

import asyncio

import click

from holdfast.cli import console
from holdfast.cli.errors import REJECTED, UsageProblem
from holdfast.cli.mcp.connection import reporting_interrupt, select_servers
from holdfast.cli.project_context import Flags, project_here
from holdfast.cli.prompt import confirm
from holdfast.cli.root import complete_server, with_flags
from holdfast.json_output import ForgottenOutput
from holdfast.store.pins import ToolPins


@click.command()
@click.argument("server", shell_complete=complete_server)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@with_flags
def forget(flags: Flags, server: str, yes: bool, as_json: bool) -> int:
    """Forget the tool definitions seen from a server.

    Its next definitions are accepted without review. Use this for a server that
    you replaced yourself and trust like a new one.

    \b
    Example:
      holdfast mcp forget files
    """
    with reporting_interrupt(as_json):
        return _forget(flags, server, yes=yes, as_json=as_json)


def _forget(flags: Flags, name: str, *, yes: bool, as_json: bool) -> int:
    from holdfast.mcp.client.definitions import pin_name  # needs the optional MCP SDK

    project = project_here(flags)
    server = select_servers(project, (name,))[name]
    if not yes:
        if as_json or not console.can_ask():
            raise UsageProblem(f"The definitions of '{name}' were not forgotten. Add --yes, or run it in a terminal.")
        console.print_err("The next definitions of this server will be accepted without review.")
        if not asyncio.run(confirm(f"Forget the definitions of '{name}'? [y/N] ")):
            console.print_err("Nothing was forgotten.")
            return REJECTED
    pins = ToolPins(project.user_db)
    try:
        forgotten = pins.forget(pin_name(name, server))
    finally:
        pins.close()
    if as_json:
        console.print_json(ForgottenOutput(server=name, forgotten=forgotten))
    else:
        done = f"Forgot the definitions of '{name}'. The next ones are accepted without review."
        console.print_err(done if forgotten else f"No definitions of '{name}' were stored.")
    return 0
