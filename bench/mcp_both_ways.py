"""Run the benchmarks of the MCP client and server: `python bench/mcp_both_ways.py [--quick]`."""

from __future__ import annotations

import parts
from targets import Target, ratio, times

TARGETS: tuple[Target, ...] = (
    Target(
        "a call through the bridge; against the bare official client",
        "×",
        ratio("mcp_client.call.bridge", "mcp_client.call.bare"),
        1.1,
    ),
    Target("the bare call", "ms", times("mcp_client.call.bare", 1e3), None),
    Target(
        "20 servers of the official SDK started; against 20 bare clients",
        "×",
        ratio("mcp_client.sdk.bridge", "mcp_client.sdk.bare"),
        1.2,
    ),
    Target(
        "20 servers that are ready in 40 ms; against 20 bare clients",
        "×",
        ratio("mcp_client.light.bridge", "mcp_client.light.bare"),
        1.2,
    ),
    Target(
        "20 servers that only wait; against the slowest",
        "×",
        ratio("mcp_client.waiting.bridge", "mcp_client.waiting.slowest"),
        1.2,
    ),
    *(
        Target(
            f"a call into our server, {name}; against the official SDK's",
            "×",
            ratio(f"mcp_server.{key}.holdfast", f"mcp_server.{key}.sdk"),
            1.1,
        )
        for key, name in (("stdio", "stdio"), ("http", "HTTP"), ("flight", "HTTP, 100 in flight"))
    ),
    *(
        Target(f"{made}, {key}", "ms", times(f"mcp_server.{key}.{made}", 1e3), None)
        for key in ("stdio", "http", "flight")
        for made in ("sdk", "holdfast", "fastmcp")
    ),
)


if __name__ == "__main__":
    parts.main("Measure MCP, both ways.", "mcp", ("mcp_client", "mcp_server"), TARGETS)
