"""`holdfast mcp`: serving on standard input or over HTTP, with a bearer token that only the user can read."""

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

from holdfast.cli import console
from holdfast.cli.errors import UsageProblem
from holdfast.cli.json_output import ServingOutput
from holdfast.cli.mcp.servers import need_sdk
from holdfast.cli.project_context import Flags, install_warning_handler, project_here
from holdfast.contract.elicitation import CANCELLED, Elicitation, ElicitationReply
from holdfast.contract.errors import ConfigError
from holdfast.factory.runtime import Project, build_runtime
from holdfast.fs.own_paths import user_state_dir
from holdfast.fs.replace import create_private_once, read_private
from holdfast.runtime.runtime import Runtime
from holdfast.text.escape import escape

_FILE: Final = "mcp-token"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{20,512}")


def token_file(project: Project, given: str | None) -> Path:
    """The person's own, so that a client set up for all projects reaches the server of each."""
    if given is None:
        return user_state_dir() / _FILE
    path = Path.cwd() / given
    if project.root is not None and Path(os.path.realpath(path)).is_relative_to(project.root):
        raise UsageProblem(f"{escape(str(path))} lies inside the project, where tools can read it; keep it elsewhere.")
    return path


def read_token(path: Path) -> str:
    """The token in the file; a new one where there is none yet. Raises `UsageProblem` if others could know it."""
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
            f"{where} {error.strerror or error}, so it can hold no token; remove it, `chmod 600` it, "
            "or name another with --token-file."
        ) from error
    if not _TOKEN.fullmatch(text):
        raise UsageProblem(
            f"{where} holds no token: 20 to 512 letters, digits and ._~+/=- are needed; remove it to have one made."
        )
    return text


def _new_token() -> bytes:
    return f"{secrets.token_urlsafe(32)}\n".encode()


def serve_streams(flags: Flags, *, anyway: bool) -> int:
    """Until the client closes our standard input. A person who types this at a terminal is told what it is for."""
    if console.is_terminal(sys.stdin) and not anyway:
        raise UsageProblem(
            "`holdfast mcp` talks to an MCP client on its standard input, and here that is a terminal. "
            "`holdfast mcp install claude` (or cursor, vscode, zed) sets a client up; "
            "`holdfast mcp --http` serves over HTTP; --stdio serves here all the same."
        )
    need_sdk()
    from holdfast.mcp.server import serve_stdio

    with _runtime(project_here(flags)) as runtime, suppress(KeyboardInterrupt):
        asyncio.run(_within(runtime, serve_stdio(runtime)))
    return 0


def serve_http(flags: Flags, *, port: int, given_file: str | None, show_token: bool, as_json: bool) -> int:
    """Until Ctrl-C."""
    need_sdk()
    from holdfast.mcp.server import serve_http as serve

    project = project_here(flags)
    file = token_file(project, given_file)
    token = read_token(file)

    def started(url: str) -> None:
        if as_json:
            console.print_json(ServingOutput(url=url, token_file=str(file), token=token if show_token else None))
        else:
            console.print_out(f"Serving {escape(url)}; Ctrl-C ends it.")
            console.print_out(f"Requests need the token in {escape(str(file))} as `Authorization: Bearer TOKEN`.")
            if show_token:
                console.print_out(f"Token: {token}")
        sys.stdout.flush()

    with _runtime(project) as runtime, suppress(KeyboardInterrupt):
        try:
            asyncio.run(_within(runtime, serve(runtime, token=token, port=port, started=started)))
        except ConfigError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            why = error.__cause__.strerror or str(error.__cause__)
            raise UsageProblem(f"Port {port} cannot be used ({why}); take another one with --port.") from error
    return 0


async def _within(runtime: Runtime, serving: Coroutine[object, object, None]) -> None:
    # Servers that start with the runtime are to know that somebody can be asked, before a client is there.
    runtime.attach(elicitor=_nobody_yet)
    async with runtime:
        await serving


async def _nobody_yet(elicitation: Elicitation) -> tuple[ElicitationReply, ...]:
    return (CANCELLED,) * len(elicitation.questions)


@contextmanager
def _runtime(project: Project) -> Generator[Runtime]:
    """Whoever cannot be asked over MCP can be asked from any other interface, so what waits is kept."""
    install_warning_handler()
    keeps = project.loaded.config.ledger.enabled
    runtime = build_runtime(project, nobody="pending" if keeps else "deny", interface="mcp")
    try:
        yield runtime
    finally:
        if runtime.ledger is not None:
            runtime.ledger.close()
