"""Which tools an MCP client is shown, and how."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from holdfast.contract.tool import Tool
from tests.mcp.server.served_runtime import ERAS, Era, running, served

pytestmark = [pytest.mark.spec("K3a"), pytest.mark.parametrize("era", ERAS)]


def run(work: Any) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(bounded())


def empty(name: str) -> Tool:
    def execute(_: object) -> str:
        return ""

    return Tool(name=name, execute=execute, effects=frozenset())


def test_the_list_has_api_names_schemas_and_annotations_that_follow_from_effects(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, era) as client:
            tools = {item.title: item for item in (await client.list_tools()).tools}
            add, erase = tools["math.add"], tools["erase"]
            assert add.name == runtime.registry.find("math.add").api_name  # pyright: ignore[reportOptionalMemberAccess]
            assert set(add.input_schema["properties"]) == {"a", "b"} and add.input_schema["type"] == "object"
            assert add.annotations is not None and erase.annotations is not None
            assert (add.annotations.read_only_hint, add.annotations.destructive_hint) == (True, False)
            assert add.annotations.open_world_hint is False
            assert (erase.annotations.read_only_hint, erase.annotations.destructive_hint) == (False, True)
            assert erase.annotations.open_world_hint is True

    run(body())


def test_a_long_list_comes_in_pages_and_a_foreign_cursor_is_refused(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        many = tuple(empty(f"many.t{n:03}") for n in range(450))
        async with running(tmp_path, tools=many) as runtime, served(runtime, era) as client:
            names: list[str] = []
            cursor: str | None = None
            for _ in range(3):
                page = await client.list_tools(cursor=cursor)
                names += [item.name for item in page.tools]
                cursor = page.next_cursor
            assert cursor is None and len(names) == len(set(names)) == 456
            with pytest.raises(MCPError, match="is not a cursor of this list"):
                await client.list_tools(cursor="???")

    run(body())


def test_the_list_waits_for_sources_that_are_loading(tmp_path: Path, era: Era) -> None:
    from holdfast.registry.registration import ToolSource

    async def body() -> None:
        late: asyncio.Future[tuple[Any, Any]] = asyncio.get_running_loop().create_future()

        def resolve(register: Any, done: Any) -> None:
            late.set_result((register, done))

        async with running(tmp_path) as runtime:
            runtime.register(ToolSource(resolve, "late"))
            async with served(runtime, era) as client:
                listing = asyncio.ensure_future(client.list_tools())
                register, done = await late
                assert not listing.done()
                register(empty("late"))
                done()
                assert "late" in {item.name for item in (await listing).tools}

    run(body())
