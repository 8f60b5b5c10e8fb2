"""An MCP server with one tool, in several implementations: `mcp_peer.py sdk|fastmcp|holdfast|light [--http PORT]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
TOKEN = "0" * 64
"""Everybody checks a token over HTTP, or nobody does: holdfast always does."""


async def sdk(port: int | None) -> None:
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

    async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="add", description="Add two numbers.", input_schema=SCHEMA)])

    async def call_tool(ctx: Any, params: Any) -> CallToolResult:
        total = params.arguments["a"] + params.arguments["b"]
        return CallToolResult(content=[TextContent(type="text", text=str(total))])

    server: Any = Server("peer", on_list_tools=list_tools, on_call_tool=call_tool)
    if port is None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    else:
        await _uvicorn(server.streamable_http_app(), port)


async def fastmcp(port: int | None) -> None:
    from fastmcp import FastMCP

    server: Any = FastMCP("peer")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    if port is None:
        await server.run_async(transport="stdio", show_banner=False)
    else:
        await server.run_async(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="error")


async def holdfast(port: int | None) -> None:
    from holdfast import Runtime, tool
    from holdfast.mcp.server import serve_http, serve_stdio
    from holdfast.store.ledger import Ledger

    @tool(effects=())
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    with tempfile.TemporaryDirectory() as scratch:
        runtime = Runtime([add], ledger=Ledger.open(Path(scratch) / "ledger.db"), state=Path(scratch))
        if port is None:
            await serve_stdio(runtime)
        else:
            await serve_http(runtime, host="127.0.0.1", port=port, token=TOKEN)


def light(delay: float) -> None:
    """By hand, in the handshake generation: it starts as fast as Python does."""
    info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "l", "version": "1"}}
    tools = {"tools": [{"name": "add", "description": "Add two numbers.", "inputSchema": SCHEMA}]}
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] == "initialize":
            time.sleep(delay)
            answer["result"] = info
        elif asked["method"] == "tools/list":
            answer["result"] = tools
        elif asked["method"] == "tools/call":
            given = asked["params"]["arguments"]
            answer["result"] = {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


async def _uvicorn(app: Any, port: int) -> None:
    import uvicorn

    await uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error")).serve()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("made", choices=["sdk", "fastmcp", "holdfast", "light"])
    parser.add_argument("--http", type=int)
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    if options.made == "light":
        light(options.delay)
    else:
        asyncio.run(globals()[options.made](options.http))


if __name__ == "__main__":
    main()
