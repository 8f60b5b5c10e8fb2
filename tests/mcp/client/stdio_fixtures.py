"""What the tests of stdio servers share: a runtime with one of them, and a look at who is still alive."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import CallToolResult, TextContent

from holdfast import Config, Runtime
from holdfast.config.config import McpServer, SandboxConfig
from holdfast.mcp.client.flow_control import flow_controlled
from holdfast.mcp.client.stdio_transport import StdioTransport
from holdfast.runtime.workspace import Workspace

SERVER = Path(__file__).with_name("hostile_server.py")


def server(way: str, marker: str = "", **options: Any) -> McpServer:
    # The sandbox has a /tmp of its own: where the tests are there, the folder is seen because the server runs in it.
    options.setdefault("cwd", str(SERVER.parent))
    return McpServer(command=sys.executable, args=(str(SERVER), way, *filter(None, (marker,))), **options)


def runtime_in(folder: Path, mode: Any = "auto", **options: Any) -> Runtime:
    config = Config(sandbox=SandboxConfig(mode=mode), **options)
    folder.mkdir(exist_ok=True)
    return Runtime(config=config, workspace=Workspace(root=folder, state=folder.with_name("project-state")))


@asynccontextmanager
async def talking(
    runtime: Runtime, way: str, marker: str = "", *, client: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[tuple[Client, StdioTransport]]:
    """A client of a server that behaves in one way."""
    transport = StdioTransport(runtime, "odd", server(way, marker, **options))
    how: dict[str, Any] = {"mode": "legacy", "read_timeout_seconds": 40, **(client or {})}
    async with Client(flow_controlled(transport, lambda reason: None), **how) as found:
        await found.list_tools()  # or the SDK does so after the first call
        yield found, transport


def text_of(result: CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextContent))


@contextmanager
def peak_memory() -> Generator[list[int]]:
    """By how many bytes this process grew at most, put into the list at the end."""
    grown: list[int] = []
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    yield grown
    grown.append(_status("VmHWM") - before)


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])
