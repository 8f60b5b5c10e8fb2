"""Measure holdfast as an MCP server against the official SDK's and FastMCP's: prints one JSON object."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

from mcp_peer import TOKEN
from measure import Effort, Run, race

PEER = str(Path(__file__).resolve().with_name("mcp_peer.py"))
MADE = ("sdk", "fastmcp", "holdfast")
FLIGHT = 100


async def stdio(effort: Effort, stack: AsyncExitStack) -> dict[str, float]:
    from mcp import Client, StdioServerParameters

    runs: dict[str, Run] = {}
    for made in MADE:
        parameters = StdioServerParameters(command=sys.executable, args=[PEER, made])
        runs[made] = _calls(await stack.enter_async_context(Client(parameters)))
    return {f"stdio.{made}": seconds for made, seconds in (await race(runs, effort)).items()}


async def http(effort: Effort, rounds: int, stack: AsyncExitStack) -> dict[str, float]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    runs: dict[str, Run] = {}
    clients: dict[str, Any] = {}
    for made in MADE:
        port = _free_port()
        process = await asyncio.create_subprocess_exec(sys.executable, PEER, made, "--http", str(port))
        stack.callback(process.kill)
        await _listening(port)
        carrier = httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        transport = streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=carrier)
        clients[made] = await stack.enter_async_context(Client(transport))
        runs[made] = _calls(clients[made])
    found = {f"http.{made}": seconds for made, seconds in (await race(runs, effort)).items()}
    return found | await flight(clients, rounds)


async def flight(clients: dict[str, Any], rounds: int) -> dict[str, float]:
    """Seconds a call takes when a hundred are under way."""
    best = dict.fromkeys(clients, float("inf"))
    for _ in range(rounds):
        for made, client in clients.items():
            begun = perf_counter()
            await asyncio.gather(*(client.call_tool("add", {"a": 3, "b": 4}) for _ in range(FLIGHT)))
            best[made] = min(best[made], (perf_counter() - begun) / FLIGHT)
    return {f"flight.{made}": seconds for made, seconds in best.items()}


def _calls(client: Any) -> Run:
    async def run(n: int) -> None:
        for _ in range(n):
            answer = await client.call_tool("add", {"a": 3, "b": 4})
            assert answer.content[0].text == "7", answer

    return run


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def _listening(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            return


async def measure(effort: Effort, rounds: int) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        found = await stdio(effort, stack)
    async with AsyncExitStack() as stack:
        return found | await http(effort, rounds, stack)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    effort = Effort(10, 0.05) if quick else Effort(40, 0.05)
    json.dump({"times": asyncio.run(measure(effort, 2 if quick else 10))}, sys.stdout)


if __name__ == "__main__":
    main()
