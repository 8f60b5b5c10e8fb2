"""The tools of a server in the registry, as its list changes."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
from mcp_types import Tool as McpTool

from holdfast import Runtime, Tool
from holdfast.config.config import McpServer
from holdfast.contract.result import Result
from holdfast.mcp.client.tool_catalog import MAX_WARNINGS, ToolCatalog
from tests.runtime.support import run

pytestmark = pytest.mark.spec("K1", "R5")


async def _send(*_: Any) -> Result:
    return Result(True)


def _shelf(runtime: Runtime) -> ToolCatalog:
    return ToolCatalog(runtime, "p", McpServer(command="x"), None, _send)


def _listed(*names: str, description: str = "") -> list[McpTool]:
    return [McpTool(name=name, description=description, input_schema={"type": "object"}) for name in names]


def test_a_list_that_changes_is_one_change_of_the_registry_however_long_it_is() -> None:
    runtime = Runtime()
    shelf = _shelf(runtime)
    changes: list[tuple[str, ...]] = []

    async def work() -> None:
        await shelf.put(_listed("stays", "old", *(f"t{number}" for number in range(500))))
        stays = runtime.registry.get("mcp:p:stays")
        runtime.registry.on_change(lambda: changes.append(runtime.registry.names()))
        await shelf.put([*_listed("stays", "new"), *_listed(*(f"u{number}" for number in range(500)))])
        assert len(changes) == 1 and len(changes[0]) == len(shelf) == 502
        assert "mcp:p:old" not in changes[0] and "mcp:p:new" in changes[0]
        assert runtime.registry.get("mcp:p:stays") is stays
        await shelf.put(_listed("stays", "new", *(f"u{number}" for number in range(500))))
        assert len(changes) == 1
        shelf.clear()
        assert changes[1:] == [()] and len(shelf) == 0

    run(work())


def test_what_is_gone_is_not_kept() -> None:
    runtime = Runtime()
    shelf = _shelf(runtime)

    async def work() -> None:
        for number in range(20):
            await shelf.put(_listed(*(f"t{place}" for place in range(50)), description=str(number)))

    run(work())
    gc.collect()
    assert sum(isinstance(found, Tool) and found.source == "mcp:p" for found in gc.get_objects()) == 50


def test_names_that_differ_by_case_only_cost_the_later_of_them_and_nothing_else() -> None:
    runtime = Runtime()
    shelf = _shelf(runtime)
    changes: list[int] = []
    runtime.registry.on_change(lambda: changes.append(1))

    async def work() -> None:
        pairs = [name for number in range(300) for name in (f"tool{number}", f"TOOL{number}")]
        await shelf.put(_listed("echo", *pairs))
        assert len(changes) == 1 and len(shelf) == 301
        assert "mcp:p:TOOL7" not in runtime.registry.names()
        await shelf.put(_listed("ECHO", "echo"))
        assert runtime.registry.names() == ("mcp:p:echo",)
        assert len(runtime.registry.warnings) == MAX_WARNINGS

    run(work())


def test_a_tool_from_elsewhere_is_in_the_way_of_one_and_not_of_the_others() -> None:
    runtime = Runtime()
    mine = Tool(name="mcp:p:t3", execute=_send, source="elsewhere")
    runtime.registry.register(mine)
    shelf = _shelf(runtime)

    async def work() -> None:
        await shelf.put(_listed("gone"))
        await shelf.put(_listed(*(f"t{number}" for number in range(9))))

    run(work())
    assert runtime.registry.names() == tuple(f"mcp:p:t{number}" for number in range(9))
    assert runtime.registry.get("mcp:p:t3") is mine and len(shelf) == 8
    assert "'t3'" in runtime.registry.warnings[0]
    shelf.clear()
    assert runtime.registry.names() == ("mcp:p:t3",)


def test_a_server_that_is_gone_takes_only_its_own_tools(tmp_path: Path) -> None:
    runtime = Runtime()
    shelf = _shelf(runtime)
    run(shelf.put(_listed("a", "b")))
    mine = Tool(name="mcp:p:a", execute=_send, source="program")
    runtime.registry.register(mine, replace=True)
    shelf.clear()
    assert runtime.registry.names() == ("mcp:p:a",) and runtime.registry.get("mcp:p:a") is mine
