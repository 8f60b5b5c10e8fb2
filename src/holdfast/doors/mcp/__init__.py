"""holdfast as an MCP server: the tools of a runtime over stdio or HTTP, with approvals. The SDK is imported on use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdfast.contract.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"


async def serve_stdio(runtime: Runtime) -> None:
    """Serve one client on stdin and stdout until it goes away. Whatever else is printed goes to stderr.

    In the main thread SIGTERM and SIGINT end it in order, too.
    """
    from holdfast.doors.mcp.stdio import serve
    from holdfast.doors.mcp.stopping import until_told

    await until_told(serve(runtime))


async def serve_http(
    runtime: Runtime,
    *,
    token: str | None,
    host: str = HOST,
    port: int = 0,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve any number of clients on loopback until cancelled, or told to end; `started` is told the address.

    Requests must carry `Authorization: Bearer TOKEN`. Without a token everybody on this machine is let in.
    """
    if host != HOST:
        raise ConfigError(f"MCP over HTTP is for this machine only: use {HOST} as its host, not '{host}'.")
    from holdfast.doors.mcp.http import serve
    from holdfast.doors.mcp.stopping import until_told

    await until_told(serve(runtime, token=token, host=host, path=PATH, port=port, started=started))
