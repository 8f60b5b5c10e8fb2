"""`holdfast mcp`: tools for MCP clients, and the tools of MCP servers."""

from __future__ import annotations

import click

from holdfast.doors.cli.groups import DefaultGroup
from holdfast.doors.cli.options import common, complete_server
from holdfast.doors.cli.place import Flags

_PORT = 4633
_port = click.option(
    "--port", type=click.IntRange(0, 65_535), default=_PORT, show_default=True, help="For --http; 0 takes a free one."
)
_token_file = click.option(
    "--token-file", type=click.Path(), help="For --http: where the token is; made if it is not there."
)
_show_token = click.option("--show-token", is_flag=True, help="For --http: also show the token.")


@click.group(cls=DefaultGroup)
def mcp() -> None:
    """MCP, both ways: serve the tools here, use those of servers."""


@mcp.command()
@click.option("--http", is_flag=True, help="Serve over HTTP on this machine, until Ctrl-C.")
@click.option("--stdio", is_flag=True, help="Serve on the standard streams, even if they are a terminal.")
@_port
@_token_file
@_show_token
@common
@click.pass_obj
def serve(
    flags: Flags, http: bool, stdio: bool, port: int, token_file: str | None, show_token: bool, as_json: bool
) -> int:
    """Give the tools of this project to MCP clients.

    This is what `holdfast mcp` alone does: it serves one client on its standard
    streams, which is how clients start it (see `holdfast mcp install`). With
    --http it serves any number of clients on 127.0.0.1 that know its token.

    A call that needs a person asks the client's person, and waits for
    `holdfast approve` at the same time; the first answer counts.
    """
    from holdfast.doors.cli.mcp.serving import serve_http, serve_streams

    if http and stdio:
        raise click.UsageError("Choose one of --http and --stdio.")
    if not http:
        return serve_streams(flags, anyway=stdio)
    return serve_http(flags, port=port, given_file=token_file, show_token=show_token, as_json=as_json)


@mcp.command()
@click.argument("names", nargs=-1, metavar="[SERVER]...", shell_complete=complete_server)
@common
@click.pass_obj
def servers(flags: Flags, names: tuple[str, ...], as_json: bool) -> int:
    """Start the configured MCP servers and show how they are.

    The exit code is 1 when one that is switched on could not be reached.
    """
    from holdfast.doors.cli.mcp.looking import show_servers

    return show_servers(flags, names, as_json=as_json)


@mcp.command()
@click.argument("server", required=False, shell_complete=complete_server)
@click.argument("tool", required=False)
@click.option("-y", "--yes", is_flag=True, help="Accept it without being asked; only with SERVER and TOOL.")
@common
@click.pass_obj
def review(flags: Flags, server: str | None, tool: str | None, yes: bool, as_json: bool) -> int:
    """See what servers changed in their tools, and accept it.

    A tool whose description, schema or annotations are not those you saw first
    is held until you have seen the difference. The exit code is 4 while one is
    left.
    """
    from holdfast.doors.cli.mcp.reviewing import review_changes

    return review_changes(flags, server, tool, yes=yes, as_json=as_json)


@mcp.command()
@click.argument("server", shell_complete=complete_server)
@common
@click.pass_obj
def login(flags: Flags, server: str, as_json: bool) -> int:
    """Log in to a server with a url, in your browser."""
    from holdfast.doors.cli.mcp.looking import log_in

    return log_in(flags, server, as_json=as_json)


@mcp.command()
@click.argument("server", shell_complete=complete_server)
@common
@click.pass_obj
def logout(flags: Flags, server: str, as_json: bool) -> int:
    """Forget the login to a server."""
    from holdfast.doors.cli.mcp.looking import log_out

    return log_out(flags, server, as_json=as_json)


@mcp.command()
@click.argument("client", type=click.Choice(["claude", "cursor", "vscode", "zed"]))
@click.option("--project", "scope", flag_value="project", default="project", help="In this project only (the default).")
@click.option("--user", "scope", flag_value="user", help="For all your projects.")
@click.option("--http", is_flag=True, help="As a server that runs already; the client gets its token.")
@_port
@_token_file
@_show_token
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@click.option("--print", "only_print", is_flag=True, help="Write nothing; print the entry to put in by hand.")
@common
@click.pass_obj
def install(
    flags: Flags,
    client: str,
    scope: str,
    http: bool,
    port: int,
    token_file: str | None,
    show_token: bool,
    yes: bool,
    only_print: bool,
    as_json: bool,
) -> int:
    """Set up an MCP client to use holdfast.

    Shows what would change in its configuration file, and asks. Nothing else in
    the file is touched.
    """
    from holdfast.doors.cli.mcp.installing import Wish, install_entry
    from holdfast.doors.cli.mcp.serving import HOST, PATH

    if http and port == 0:
        raise click.UsageError("With --http a client needs a port that stays the same; give one with --port.")
    wish = Wish(
        client=client,
        user=scope == "user",
        url=f"http://{HOST}:{port}{PATH}" if http else None,
        token_file=token_file,
        yes=yes,
        only_print=only_print,
        show_token=show_token,
        as_json=as_json,
    )
    return install_entry(flags, wish)
