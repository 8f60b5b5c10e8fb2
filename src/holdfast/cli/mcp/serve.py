"""`holdfast mcp serve`: serve the tools on stdio, or over HTTP with a bearer token that only the user can read."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.mcp.connection import require_sdk
from holdfast.cli.project_context import Flags, install_warning_handler, project_here
from holdfast.cli.root import json_option
from holdfast.contract.elicitation import CANCELLED, Elicitation, ElicitationReply
from holdfast.contract.errors import ConfigError
from holdfast.factory.runtime import Project, build_runtime
from holdfast.fs.own_paths import user_state_dir
from holdfast.fs.replace import create_private_once, read_private
from holdfast.json_output import ServingOutput
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape

_FILE: Final = "mcp-token"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{20,512}")
_PORT: Final = 4633

port_option = click.option(
    "--port", type=click.IntRange(0, 65_535), default=_PORT, show_default=True, help="With --http; 0 takes a free one."
)
token_file_option = click.option(
    "--token-file", type=click.Path(), help="With --http: the token's file, created if missing."
)
show_token_option = click.option("--show-token", is_flag=True, help="With --http: also print the token.")


def require_http(ctx: click.Context, http: bool) -> None:
    """Raise `UsageError` for an option that has no effect without `--http`."""
    for name in ("port", "token_file", "show_token"):
        given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and not http:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --http.")


@click.command()
@click.option("--http", is_flag=True, help="Serve over HTTP on this machine, until Ctrl-C.")
@click.option("--stdio", is_flag=True, help="Serve on stdio even if it is a terminal.")
@port_option
@token_file_option
@show_token_option
@json_option
@click.pass_context
def serve(
    ctx: click.Context, http: bool, stdio: bool, port: int, token_file: str | None, show_token: bool, as_json: bool
) -> int:
    """Serve the tools of this project to MCP clients.

    Without --http: one client on stdio, which is how clients start it (see
    `holdfast mcp install`). With --http: any number of clients on 127.0.0.1 that
    have the token.

    A call that needs approval asks the user of the client, and is pending for
    `holdfast approve` at the same time. The first answer counts.

    \b
    Example:
      holdfast mcp serve --http --port 4700
    """
    if http and stdio:
        raise click.UsageError("--http and --stdio exclude each other. Use one of them.")
    require_http(ctx, http)
    if not http:
        return _serve_stdio(ctx.obj, anyway=stdio)
    return _serve_http(ctx.obj, port=port, given_file=token_file, show_token=show_token, as_json=as_json)


def token_path(project: Project, given: str | None) -> Path:
    """Return the token's file: by default one per user, so that a client has one token for all projects."""
    if given is None:
        return user_state_dir() / _FILE
    path = Path.cwd() / given
    if project.root is not None and Path(os.path.realpath(path)).is_relative_to(project.root):
        raise UsageProblem(f"{escape(str(path))} lies inside the project, where tools can read it. Keep it elsewhere.")
    return path


def read_token(path: Path) -> str:
    """Return the token in the file, creating it if missing. Raise `UsageProblem` if other users could read it."""
    try:
        return _read(path)
    except FileNotFoundError:
        create_private_once(path, _new_token)
        return _read(path)


def _read(path: Path) -> str:
    where = escape(str(path))
    try:
        text = read_private(path, 4096).decode(errors="replace").strip()
    except PermissionError as error:
        raise UsageProblem(
            f"{where} {error.strerror or error}, so it cannot hold a token. Remove it, `chmod 600` it, "
            "or name another with --token-file."
        ) from error
    if not _TOKEN.fullmatch(text):
        raise UsageProblem(
            f"{where} holds no token (20 to 512 letters, digits and ._~+/=-). Remove it to have one created."
        )
    return text


def _new_token() -> bytes:
    return f"{secrets.token_urlsafe(32)}\n".encode()


def _serve_stdio(flags: Flags, *, anyway: bool) -> int:
    """Serve until the client closes standard input. On a terminal, explain the command unless `anyway`."""
    if console.is_terminal(sys.stdin) and not anyway:
        raise UsageProblem(
            "`holdfast mcp` talks to an MCP client on standard input, but that is a terminal. "
            "`holdfast mcp install claude` (or cursor, vscode, zed) sets up a client, "
            "`holdfast mcp --http` serves over HTTP, and --stdio serves here anyway."
        )
    require_sdk()
    from holdfast.mcp.server import serve_stdio

    with _runtime(project_here(flags)) as runtime, suppress(KeyboardInterrupt):
        asyncio.run(_run(runtime, serve_stdio(runtime)))
    return 0


def _serve_http(flags: Flags, *, port: int, given_file: str | None, show_token: bool, as_json: bool) -> int:
    """Serve until Ctrl-C."""
    require_sdk()
    from holdfast.mcp.server import serve_http

    project = project_here(flags)
    file = token_path(project, given_file)
    token = read_token(file)

    def started(url: str) -> None:
        if as_json:
            console.print_json(ServingOutput(url=url, token_file=str(file), token=token if show_token else None))
        else:
            console.print_out(f"Serving {escape(url)}. Press Ctrl-C to end.")
            console.print_out(f"Requests need the token in {escape(str(file))} as `Authorization: Bearer TOKEN`.")
            if show_token:
                console.print_out(f"Token: {token}")
        sys.stdout.flush()

    with _runtime(project) as runtime, suppress(KeyboardInterrupt):
        try:
            asyncio.run(_run(runtime, serve_http(runtime, token=token, port=port, started=started)))
        except ConfigError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            why = error.__cause__.strerror or str(error.__cause__)
            raise UsageProblem(f"Cannot use port {port}: {why}. Choose another with --port.") from error
    return 0


async def _run(runtime: Runtime, serving: Coroutine[object, object, None]) -> None:
    # Servers learn at the handshake whether elicitation is supported, and they start before the first client connects.
    runtime.attach(elicitor=_cancel_elicitation)
    async with runtime:
        await serving


async def _cancel_elicitation(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
    return (CANCELLED,) * len(elicitation.questions)


@contextmanager
def _runtime(project: Project) -> Generator[Runtime]:
    """Build the runtime. Pending calls stay pending if the client cannot ask: any other interface can answer them."""
    install_warning_handler()
    keeps = project.loaded.config.ledger.enabled
    runtime = build_runtime(project, nobody="pending" if keeps else "deny", interface="mcp")
    try:
        yield runtime
    finally:
        if runtime.ledger is not None:
            runtime.ledger.close()
