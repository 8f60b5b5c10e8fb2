"""Measure the MCP client bridge against the official client: `python mcp_client.py [--quick]` prints JSON."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from measure import Effort, race

from holdfast import Config, Runtime
from holdfast.config.config import ApprovalConfig, McpConfig, McpServer, SandboxConfig
from holdfast.factory.runtime import add_servers
from holdfast.store.ledger import Ledger

PEER = str(Path(__file__).resolve().with_name("mcp_peer.py"))
CALL = Effort(batches=40, batch=0.05)
SERVERS = 20
WAIT = 3.0


def _argv(*words: str) -> McpServer:
    return McpServer(command=sys.executable, args=(PEER, *words), start_timeout=300.0)


async def calls(scratch: Path, effort: Effort) -> dict[str, float]:
    """One call of one tool: by the official client, and through the whole path and the bridge. One server each."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(_client(_argv("sdk")))
        runtime = await stack.enter_async_context(_runtime(scratch, {"peer": _argv("sdk")}))
        await runtime.pipeline.wait_for_sources()

        async def bare(n: int) -> None:
            for _ in range(n):
                answer = await client.call_tool("add", {"a": 3, "b": 4})
                assert answer.content[0].text == "7"

        async def bridge(n: int) -> None:
            for _ in range(n):
                result = await runtime.call("mcp:peer:add", {"a": 3, "b": 4})
                assert result.output == "7", result

        return await race({"bare": bare, "bridge": bridge}, effort)


async def starts(scratch: Path, made: str, server: McpServer, rounds: int) -> dict[str, float]:
    """Twenty servers until all their tools are known, by bare clients together and as configured servers."""
    best = {"bare": float("inf"), "bridge": float("inf")}
    for _ in range(rounds):
        best["bare"] = min(best["bare"], await _bare_start(server))
        begun = perf_counter()
        async with _runtime(scratch, {f"s{number}": server for number in range(SERVERS)}) as runtime:
            await runtime.pipeline.wait_for_sources()
            best["bridge"] = min(best["bridge"], perf_counter() - begun)
            found = sum(tool.name.startswith("mcp:") for tool in runtime.registry.list())
            assert found == SERVERS, runtime.registry.warnings
    return {f"{made}.{name}": seconds for name, seconds in best.items()}


async def _bare_start(server: McpServer, count: int = SERVERS) -> float:
    """A client is left in the task it was entered in, so each has one."""
    ready, leave = asyncio.Semaphore(0), asyncio.Event()

    async def one() -> None:
        async with _client(server) as client:
            assert (await client.list_tools()).tools
            ready.release()
            await leave.wait()

    begun = perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
        for _ in range(count):
            await ready.acquire()
        seconds = perf_counter() - begun
        leave.set()
    return seconds


def _client(server: McpServer) -> Any:
    from mcp import Client, StdioServerParameters

    assert server.command is not None
    return Client(StdioServerParameters(command=server.command, args=list(server.args)))


def _runtime(scratch: Path, servers: Mapping[str, McpServer]) -> Runtime:
    config = Config(
        mcp=McpConfig(servers=dict(servers)),
        approval=ApprovalConfig(auto_approve=("mcp:*",)),
        sandbox=SandboxConfig(mode="required"),
    )
    root = scratch / "project"
    root.mkdir(exist_ok=True)
    state = scratch / "state"
    runtime = Runtime(config=config, root=root, state=state, ledger=Ledger.open(state / "ledger.db"))
    add_servers(runtime, state / "user.db")
    return runtime


async def measure(effort: Effort, rounds: int) -> dict[str, float]:
    import mcp  # noqa: F401 - its import is nobody's start-up here

    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        scratch = Path(folder)
        found = {f"call.{name}": seconds for name, seconds in (await calls(scratch, effort)).items()}
        found |= await starts(scratch, "light", _argv("light"), rounds)
        found |= await starts(scratch, "sdk", _argv("sdk"), 1 if rounds == 1 else 2)
        slow = _argv("light", "--delay", str(WAIT))
        found |= await starts(scratch, "waiting", slow, 1)
        return {**found, "waiting.slowest": await _bare_start(slow, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    effort = Effort(10, 0.05) if quick else CALL
    json.dump({"times": asyncio.run(measure(effort, 1 if quick else 5))}, sys.stdout)


if __name__ == "__main__":
    main()
