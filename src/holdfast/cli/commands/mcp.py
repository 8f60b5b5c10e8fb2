"""`holdfast mcp`: tools for MCP clients, and the tools of MCP servers."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

import click
from click.core import ParameterSource

from holdfast.cli import console, errors
from holdfast.cli.mcp.install import InstallOptions, install_entry
from holdfast.cli.mcp.serve import serve_http, serve_streams
from holdfast.cli.mcp.servers import forget_definitions, log_in, log_out, review_changes, show_servers
from holdfast.cli.project_context import Flags
from holdfast.cli.root import DefaultGroup, complete_server, json_option, with_flags

_PORT = 4633
_port = click.option(
    "--port", type=click.IntRange(0, 65_535), default=_PORT, show_default=True, help="For --http; 0 takes a free one."
)
_token_file = click.option(
    "--token-file", type=click.Path(), help="For --http: where the token is; made if it is not there."
)
_show_token = click.option("--show-token", is_flag=True, help="For --http: also show the token.")


@contextmanager
def _interruptible(as_json: bool, so: str = "nothing was changed") -> Generator[None]:
    """Ctrl-C, said on a line of its own."""
    try:
        yield
    except KeyboardInterrupt:
        if console.is_terminal(sys.stderr):
            console.print_err()
        code = errors.report("interrupted", f"Interrupted; {so}.", errors.INTERRUPTED, as_json=as_json)
        raise click.exceptions.Exit(code) from None


def _need_http(ctx: click.Context, http: bool) -> None:
    """Raises `UsageError` for an option that would do nothing."""
    for name in ("port", "token_file", "show_token"):
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and not http:
            raise click.UsageError(f"--{name.replace('_', '-')} is for --http.")


@click.group(cls=DefaultGroup)
def mcp() -> None:
    """MCP, both ways: serve the tools here, use those of servers."""


@mcp.command()
@click.option("--http", is_flag=True, help="Serve over HTTP on this machine, until Ctrl-C.")
@click.option("--stdio", is_flag=True, help="Serve on the standard streams, even if they are a terminal.")
@_port
@_token_file
@_show_token
@json_option
@click.pass_context
def serve(
    ctx: click.Context, http: bool, stdio: bool, port: int, token_file: str | None, show_token: bool, as_json: bool
) -> int:
    """Give the tools of this project to MCP clients.

    This is what `holdfast mcp` alone does: it serves one client on its standard
    streams, which is how clients start it (see `holdfast mcp install`). With
    --http it serves any number of clients on 127.0.0.1 that know its token.

    A call that needs a person asks the client's person, and waits for
    `holdfast approve` at the same time; the first answer counts.
    """
    if http and stdio:
        raise click.UsageError("Choose one of --http and --stdio.")
    _need_http(ctx, http)
    if not http:
        return serve_streams(ctx.obj, anyway=stdio)
    return serve_http(ctx.obj, port=port, given_file=token_file, show_token=show_token, as_json=as_json)


@mcp.command()
@click.argument("names", nargs=-1, metavar="[SERVER]...", shell_complete=complete_server)
@with_flags
def servers(flags: Flags, names: tuple[str, ...], as_json: bool) -> int:
    """Start the configured MCP servers and show how they are.

    What they say of their tools is remembered when it is first seen. The exit
    code is 1 when one that is switched on could not be reached.
    """
    with _interruptible(as_json):
        return show_servers(flags, names, as_json=as_json)


@mcp.command()
@click.argument("server", required=False, shell_complete=complete_server)
@click.argument("tool", required=False)
@click.option("-y", "--yes", is_flag=True, help="Accept it without being asked; only with SERVER and TOOL.")
@with_flags
def review(flags: Flags, server: str | None, tool: str | None, yes: bool, as_json: bool) -> int:
    """See what servers changed in their tools, and accept it.

    A tool whose description, schema or annotations are not those you saw first,
    or that a server you know has got since, is held until you have seen the
    difference. The exit code is 4 while one is left.
    """
    with _interruptible(as_json, "what was not accepted stays held"):
        return review_changes(flags, server, tool, yes=yes, as_json=as_json)


@mcp.command()
@click.argument("server", shell_complete=complete_server)
@click.option("-y", "--yes", is_flag=True, help="Do not ask; needed without a terminal.")
@with_flags
def forget(flags: Flags, server: str, yes: bool, as_json: bool) -> int:
    """Forget what was seen of a server's tools.

    Whatever it says of them the next time counts as seen: for a server you have
    replaced yourself, and trust as on the first day.
    """
    with _interruptible(as_json):
        return forget_definitions(flags, server, yes=yes, as_json=as_json)


@mcp.command()
@click.argument("server", shell_complete=complete_server)
@with_flags
def login(flags: Flags, server: str, as_json: bool) -> int:
    """Log in to a server with a url, in your browser."""
    return log_in(flags, server, as_json=as_json)


@mcp.command()
@click.argument("server", shell_complete=complete_server)
@with_flags
def logout(flags: Flags, server: str, as_json: bool) -> int:
    """Forget the login to a server."""
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
@json_option
@click.pass_context
def install(
    ctx: click.Context,
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
    from holdfast.mcp.server import HOST, PATH

    _need_http(ctx, http)
    if http and port == 0:
        raise click.UsageError("With --http a client needs a port that stays the same; give one with --port.")
    wish = InstallOptions(
        client=client,
        user=scope == "user",
        url=f"http://{HOST}:{port}{PATH}" if http else None,
        token_file=token_file,
        yes=yes,
        only_print=only_print,
        show_token=show_token,
        as_json=as_json,
    )
    with _interruptible(as_json):
        return install_entry(ctx.obj, wish)
