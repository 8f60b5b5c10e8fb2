"""A runtime with one MCP server, for a test to kill: prints that it is ready, then waits for ever."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.mcp.client.stdio_fixtures import runtime_in, talking


async def main(folder: str, mode: str, way: str, marker: str) -> None:
    async with runtime_in(Path(folder), mode) as runtime, talking(runtime, way, marker) as (client, _):
        await client.call_tool("do", {})
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
