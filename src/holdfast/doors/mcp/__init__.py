"""holdfast as an MCP server: the tools of a runtime over stdio or HTTP, with approvals. The SDK is imported on use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime


async def serve_stdio(runtime: Runtime) -> None:
    """Serve one client on stdin and stdout until it goes away. Whatever else is printed goes to stderr."""
    from holdfast.doors.mcp.stdio import serve

    await serve(runtime)


async def serve_http(
    runtime: Runtime,
    *,
    token: str | None,
    host: str = "127.0.0.1",
    port: int = 0,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve any number of clients on loopback until cancelled; `started` is told the address.

    Requests must carry `Authorization: Bearer TOKEN`. Without a token everybody on this machine is let in.
    """
    from holdfast.doors.mcp.http import serve

    await serve(runtime, token=token, host=host, port=port, started=started)
