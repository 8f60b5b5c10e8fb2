"""The same battery through the bridge: the calls of a hostile server end, and nobody else notices."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Config, Runtime
from holdfast.config.config import ApprovalConfig, McpServer, ToolsConfig
from holdfast.contract.enums import State
from holdfast.mcp.client.bridge import Bridge
from holdfast.runtime.workspace import Workspace
from tests.mcp.client.stdio_fixtures import peak_memory, server
from tests.mcp.client.test_stdio_transport_hostile import BROKEN, SILENT, SURVIVED
from tests.runtime.command_helpers import mark, survivors, until
from tests.runtime.support import run


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 0.2)


@asynccontextmanager
async def _beside(folder: Path, **hostile: McpServer) -> AsyncGenerator[tuple[Runtime, Bridge]]:
    """A runtime with hostile servers and one that is not, all in the sandbox."""
    os.mkdir(folder)  # noqa: PTH102
    servers = {**hostile, "good": server("healthy")}
    runtime = Runtime(
        config=Config(tools=ToolsConfig(profile="full"), approval=ApprovalConfig(auto_approve=("mcp:*",))),
        workspace=Workspace(root=folder, state=folder.with_name("project-state")),
    )
    bridge = Bridge(runtime, servers, pins=None, state=None)
    bridge.attach()
    async with runtime:
        await runtime.pipeline.wait_for_sources()
        yield runtime, bridge


def _state(bridge: Bridge, name: str) -> str:
    return next(status.state for status in bridge.status() if status.name == name)


@pytest.mark.spec("K1", "R5")
@pytest.mark.parametrize("way", SURVIVED)
def test_what_can_be_overlooked_does_not_disturb_a_call(way: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with _beside(tmp_path / "project", bad=server(way)) as (runtime, _):
            results = await asyncio.gather(*(runtime.call(f"mcp:{name}:do") for name in ("bad", "good", "good")))
            assert [result.output for result in results] == ["done"] * 3

    run(go())


@pytest.mark.spec("K1", "R5")
@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_server_costs_its_own_call_and_comes_back(way: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with _beside(tmp_path / "project", bad=server(way)) as (runtime, bridge):
            with peak_memory() as grown:
                bad, *good = await asyncio.gather(*(runtime.call(f"mcp:{name}:do") for name in ("bad", "good", "good")))
            assert bad.state is State.UNKNOWN
            assert [result.output for result in good] == ["done", "done"]
            assert grown[0] < 64 * 1024**2
            assert _state(bridge, "good") == "ready"
            await until(lambda: _state(bridge, "bad") == "ready")
            assert runtime.registry.get("mcp:bad:do") is not None

    run(go())


@pytest.mark.spec("K1", "R5")
def test_servers_that_never_answer_cost_their_own_calls_their_time(tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        silent = {f"bad{number}": server(way, marker, timeout=0.5) for number, way in enumerate(SILENT)}
        async with _beside(tmp_path / "project", **silent) as (runtime, _):
            calls = [asyncio.create_task(runtime.call(f"mcp:{name}:do")) for name in silent]
            for _ in range(20):
                assert (await runtime.call("mcp:good:do")).output == "done"
            for result in await asyncio.gather(*calls):
                assert result.state is not State.DONE
            assert (await runtime.call("mcp:good:do")).output == "done"
        assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1", "R4", "R5")
def test_one_that_never_starts_holds_up_nobody_for_longer_than_its_time(tmp_path: Path) -> None:
    async def go() -> None:
        bad = server("never initialises", start_timeout=0.5)
        async with _beside(tmp_path / "project", bad=bad) as (runtime, bridge):
            assert (await runtime.call("mcp:good:do")).output == "done"
            assert _state(bridge, "bad") != "ready"
            assert runtime.registry.get("mcp:bad:do") is None

    run(go())


@pytest.mark.spec("K1", "R7", "R9")
def test_odd_names_are_left_out_and_ten_thousand_tools_are_not(tmp_path: Path) -> None:
    async def go() -> None:
        servers: dict[str, Any] = {"odd": server("odd names"), "many": server("many tools")}
        async with _beside(tmp_path / "project", **servers) as (runtime, _):
            names = runtime.registry.names()
            assert [name for name in names if name.startswith("mcp:odd:")] == ["mcp:odd:do"]
            assert sum(name.startswith("mcp:many:") for name in names) == 10_000
            assert all(name.isprintable() for name in names)
            assert "\x1b" not in "".join(runtime.warnings())

    run(go())


@pytest.mark.spec("K1")
def test_links_are_kept_as_text_and_nothing_is_fetched(tmp_path: Path) -> None:
    async def go() -> None:
        async with _beside(tmp_path / "project", bad=server("links")) as (runtime, _):
            found = (await runtime.call("mcp:bad:do")).attachments
            assert [item.uri for item in found][:2] == ["file:///etc/passwd", "../../etc/passwd"]
            assert all(item.data == b"" for item in found)

    run(go())
