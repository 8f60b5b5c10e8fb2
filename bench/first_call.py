"""The smallest program that uses holdfast: define a tool with plain types and call it."""

import asyncio

from holdfast import Runtime, tool


@tool(effects=())
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    async with Runtime(tools=[add]) as runtime:
        result = await runtime.call("add", '{"a": 3, "b": 4}')
    assert result.output == "7", result


asyncio.run(main())
