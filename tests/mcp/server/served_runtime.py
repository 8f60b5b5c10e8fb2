"""A runtime with the tools that the tests serve, also as a process: `python -m tests.mcp.server.served_runtime`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import mcp_types as types
from mcp import Client

from holdfast import Config, Context, Result, Runtime, Tool, tool
from holdfast.config.config import ApprovalConfig, McpConfig, PolicyLayer, ToolsConfig
from holdfast.contract.result import Attachment
from holdfast.mcp.server import serve_http, serve_stdio
from holdfast.runtime.workspace import Workspace
from holdfast.store.ledger import Ledger

Era = Literal["legacy", "auto"]
ERAS: tuple[Era, ...] = ("legacy", "auto")


@tool(name="math.add", effects=())
async def add(a: int, b: int) -> dict[str, int]:
    """Adds two numbers."""
    return {"sum": a + b}


@tool(effects=())
async def tell(ctx: Context) -> str:
    """Tells how it gets on."""
    ctx.progress("begun", 0, 10)
    ctx.stream("some output")
    ctx.progress("half", 5, 10)
    ctx.progress("still at half", 5, 10)
    await ctx.call("math.add", {"a": 1, "b": 1})
    ctx.progress("done", 10, 10)
    return "told"


async def _show(_: object) -> Result:
    return Result(
        True,
        "see below",
        attachments=(
            Attachment(kind="image", mime_type="image/png", data=b"\x89PNG"),
            Attachment(kind="audio", mime_type="audio/wav", data=b"RIFF"),
            Attachment(kind="file", mime_type="text/plain", data=b"words", uri="file:///notes.txt"),
            Attachment(kind="file", mime_type="application/zip", uri="https://example.org/a.zip", name="a.zip"),
        ),
    )


show = Tool(name="show", execute=_show, description="A picture, a sound, a text and an address.", effects=frozenset())


@tool(effects=())
async def halves(ctx: Context, fail: bool = False) -> Result:
    """Everything it says has half a character in it."""
    ctx.progress("half \ud800", 1, float("inf"))
    ctx.stream("half \ud800")
    if fail:
        raise ValueError("half \ud800")
    item = Attachment(kind="file", mime_type="text/\ud800", data=b"x", uri="x:\ud800", name="\udc00")
    return Result(True, "half \ud800", attachments=(item,))


class Deeds:
    """What has really been done."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.waiting = asyncio.Event()
        self.stopped = asyncio.Event()

    def tools(self) -> list[Tool]:
        @tool(effects=("external",))
        async def erase(what: str) -> str:
            """Asks before it does it."""
            self.done.append(what)
            return f"Erased {what}."

        @tool(effects=())
        async def wait() -> str:
            """Never ends by itself."""
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.stopped.set()
            return ""

        @tool(effects=())
        async def around(ctx: Context) -> str:
            """Calls the one that asks."""
            return (await ctx.call("erase", {"what": "from inside"})).text

        return [erase, wait, around, add, tell, show]


CONFIG = Config(
    tools=ToolsConfig(profile="full", agents={"small": PolicyLayer(deny=("erase",))}),
    approval=ApprovalConfig(auto_approve=("math.add", "tell", "show", "wait", "around", "name_*", "halve*")),
    mcp=McpConfig(wait=0.2),
)


@asynccontextmanager
async def running(
    folder: Path, *, deeds: Deeds | None = None, tools: tuple[Tool, ...] = (), config: Config = CONFIG
) -> AsyncGenerator[Runtime]:
    """A runtime whose ledger is in a folder, so that another one finds what waits there."""
    with Ledger.open(folder / "ledger.db") as ledger:
        every = [*(deeds or Deeds()).tools(), *tools]
        async with Runtime(
            every, config=config, ledger=ledger, workspace=Workspace(root=folder, state=folder)
        ) as runtime:
            yield runtime


@asynccontextmanager
async def served(runtime: Runtime, era: Era, *, name: str = "tester", **options: Any) -> AsyncGenerator[Client]:
    """A client of this runtime, in memory."""
    from holdfast.mcp.server.server import McpServer

    async with AsyncExitStack() as stack:
        interface = await stack.enter_async_context(McpServer(runtime))
        info = types.Implementation(name=name, version="1.2")
        yield await stack.enter_async_context(Client(interface.server, mode=era, client_info=info, **options))


def text_of(result: types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def serve(folder: Path, token: str | None) -> None:
    async with running(folder, tools=(halves,)) as runtime:
        if token is None:
            await serve_stdio(runtime)
        else:
            await serve_http(runtime, token=token, started=told)


def told(address: str) -> None:
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
