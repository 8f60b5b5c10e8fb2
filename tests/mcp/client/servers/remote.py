"""An MCP server of the official SDK under uvicorn on a free port of this machine, which it prints, and odd addresses.

/mcp speaks streamable HTTP in both generations, /legacy only the first, /sse the older transport; the rest answers in
ways no server should.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

server = MCPServer("remote", version="2.0")
sockets: list[int] = []
seen: list[str] = []
cancelled: list[str] = []
forgotten: list[str] = []


class Who(BaseModel):
    name: str


def who() -> Elicit[Who]:
    return Elicit("Who are you?", Who)


@server.tool()
async def echo(text: str, ctx: Context) -> str:
    """Say it again."""
    return f"{text} ({ctx.protocol_version})"


@server.tool()
async def greet(whom: Annotated[Who, Resolve(who)]) -> str:
    """Ask for a name and greet it."""
    return f"Hello {whom.name}"


@server.tool()
async def slow(ctx: Context) -> str:
    """Never come to an end."""
    seen.append("slow")
    try:
        await ctx.report_progress(1, 2, "half way")
        await asyncio.sleep(60)
    except BaseException:
        cancelled.append("slow")
        raise
    return "done"


@server.tool()
async def grow(ctx: Context) -> str:
    """Get another tool."""

    async def grown() -> str:
        return "grown"

    server.add_tool(grown, name=f"grown{len(await server.list_tools())}")
    await ctx.notify_tools_changed()
    return "more"


@server.tool()
async def headers(ctx: Context) -> dict[str, str]:
    """What the request came with."""
    return dict(ctx.headers or {})


@server.tool()
async def happened() -> dict[str, list[str]]:
    """What was begun, and what was cancelled."""
    return {"seen": seen, "cancelled": cancelled}


@server.tool()
async def forget() -> str:
    """Let the next request of a session find that there is no such session."""
    forgotten.append("")
    return "forgotten"


class Legacy:
    """The server as those see it that never heard of the protocol of 2026."""

    def __init__(self, app: ASGIApp, *, clingy: bool = False) -> None:
        self._app = app
        self._clingy = clingy
        """Never lets a session end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        body = await request.body()
        if self._clingy and request.method == "DELETE":
            await asyncio.sleep(60)
        if b"server/discover" in body or (b"tools/call" in body and forgotten):
            if b"tools/call" in body:
                forgotten.pop()
            await Response(status_code=404)(scope, receive, send)
            return
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Message:
            return next(messages, None) or await receive()

        await self._app({**scope, "path": "/mcp", "raw_path": b"/mcp", "root_path": ""}, again, send)


async def huge(request: Request) -> Response:
    return Response(b'"' + b"x" * (17 * 1024 * 1024) + b'"', media_type="application/json")


async def packed(request: Request) -> Response:
    return Response(gzip.compress(b"{}"), media_type="application/json", headers={"content-encoding": "gzip"})


async def elsewhere(request: Request) -> Response:
    return RedirectResponse(f"http://localhost:{sockets[0]}/mcp", 307)


async def closed(request: Request) -> Response:
    return JSONResponse({"error": "who are you"}, 403)


def main() -> None:
    http, sse = server.streamable_http_app(), server.sse_app()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        async with server.session_manager.run():
            yield

    odd = [Route(f"/{view.__name__}", view, methods=["GET", "POST"]) for view in (huge, packed, elsewhere, closed)]
    old = [Mount("/legacy", app=Legacy(http)), Mount("/clingy", app=Legacy(http, clingy=True))]
    app = Starlette(routes=[*odd, *http.routes, *sse.routes, *old], lifespan=lifespan)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        sockets.append(listening.getsockname()[1])
        sys.stdout.write(f"{sockets[0]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listening])


main()
