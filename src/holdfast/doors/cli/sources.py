"""Sources of tools, such as MCP servers, for commands that only look: started, and ended again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.doors.cli import screen

if TYPE_CHECKING:
    from holdfast.runtime.runtime import Runtime


@asynccontextmanager
async def sources_started(runtime: Runtime) -> AsyncGenerator[None]:
    """Every source has reported or timed out. Calls that were approved meanwhile are not run."""
    async with AsyncExitStack() as stack:
        runtime.attach()
        stack.push_async_exit(runtime.__aexit__)
        await runtime.registry.start()
        await wait_for_sources(runtime)
        yield


async def wait_for_sources(runtime: Runtime) -> None:
    if not runtime.registry.ready:
        with screen.progress() as tell:
            tell("waiting for MCP servers and other sources of tools…")
            await runtime.registry.wait_ready()
