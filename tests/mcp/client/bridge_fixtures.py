"""What the tests of the bridge share: a runtime with servers, a clock that does not wait, and a look at the wire."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast import Config, Runtime
from holdfast.config.config import ApprovalConfig, McpConfig, McpServer, SandboxConfig
from holdfast.mcp.client.bridge import Bridge
from holdfast.runtime.workspace import Workspace
from holdfast.store.pins import ToolPins

SERVERS = Path(__file__).parent / "servers"


def plain(folder: Path, **options: Any) -> McpServer:
    """The server written by hand, with a folder of its own."""
    folder.mkdir(exist_ok=True)
    return McpServer(command=sys.executable, args=(str(SERVERS / "plain.py"), str(folder)), **options)


def script(code: str, **options: Any) -> McpServer:
    return McpServer(command=sys.executable, args=("-c", code), **options)


@asynccontextmanager
async def bridged(
    folder: Path,
    servers: Mapping[str, McpServer],
    *,
    approve: bool = True,
    pins: ToolPins | None = None,
    clock: Any = None,
    ready: bool = True,
    **options: Any,
) -> AsyncGenerator[tuple[Runtime, Bridge]]:
    """A runtime whose servers have been listed once."""
    config = Config(
        mcp=McpConfig(servers=dict(servers)),
        sandbox=SandboxConfig(mode="off"),
        approval=ApprovalConfig(auto_approve=("mcp:*",) if approve else ()),
    )
    elicitor = options.pop("elicitor", None)
    runtime = Runtime(config=config, **options, workspace=Workspace(root=folder, state=folder / ".state"))
    if elicitor is not None:
        runtime.attach(elicitor=elicitor)
    bridge = Bridge(runtime, servers, pins=pins, state=None, clock=clock)
    bridge.attach()
    async with asyncio.timeout(60), runtime:
        if ready:
            await runtime.pipeline.wait_for_sources()
        yield runtime, bridge


class Impatient:
    """A clock by which every pause is over at once; what was paused is remembered."""

    def __init__(self) -> None:
        self.time = 0.0
        self.pauses: list[float] = []
        self._enough = asyncio.Event()
        self._wanted = 0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.time += seconds
        if len(self.pauses) >= self._wanted:
            self._enough.set()
        await asyncio.sleep(0)

    async def until(self, count: int) -> list[float]:
        self._wanted = count
        if len(self.pauses) < count:
            self._enough.clear()
            await self._enough.wait()
        return self.pauses[:count]


async def until(holds: Callable[[], object]) -> None:
    """Bounded by whoever runs the test."""
    while not holds():  # noqa: ASYNC110 - what is waited for happens in other processes
        await asyncio.sleep(0.01)


def wire(folder: Path) -> list[dict[str, Any]]:
    """What a plain server got."""
    return [json.loads(line) for line in (folder / "wire.jsonl").read_text().splitlines()]


def methods(folder: Path) -> list[str]:
    return [message.get("method", "") for message in wire(folder)]
