"""A hostile server harms only itself: every way of misbehaving, over the real transport under the SDK's client."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, ResourceLink

from holdfast.mcp.client.flow_control import MAX_OWED
from holdfast.mcp.client.stdio_transport import ServerBroken
from tests.mcp.client.stdio_fixtures import peak_memory, runtime_in, talking, text_of
from tests.runtime.command_helpers import mark, survivors, until
from tests.runtime.support import run

SURVIVED = (
    "healthy",
    "invalid JSON",
    "invalid UTF-8",
    "NUL bytes",
    "deep JSON",
    "numbers",
    "a batch",
    "wrong types",
    "unknown ids",
    "notification flood",
    "ping flood",
    "same request",
    "logs on stdout",
    "complains a lot",
)
BROKEN = {
    "huge line": "printed a line of more than 16 MiB",
    "many values": "sent a message of more than 1,000,000 values",
    "only bad lines": "printed 100 consecutive lines that are not protocol messages",
    "crash": "exited with 3",
    "half a message": "exited with 0",
}
SILENT = ("linger", "deaf", "close output", "close input", "complains", "elicitation flood")


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setattr("holdfast.mcp.client.server_process.GRACE", 0.2)


@pytest.mark.spec("K1")
@pytest.mark.parametrize("way", SURVIVED)
def test_what_can_be_overlooked_is_and_the_server_goes_on_answering(way: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime, talking(runtime, way) as (client, transport):
            for _ in range(3):
                assert text_of(await client.call_tool("do", {})) == "done"
            assert transport.reason == ""

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("way", BROKEN)
def test_what_cannot_ends_the_connection_at_once_and_says_why(way: str, tmp_path: Path) -> None:
    async def go() -> None:
        heard: list[Any] = []

        async def hear(message: Any) -> None:
            heard.append(message)

        marker, options = mark(), {"message_handler": hear}
        async with runtime_in(tmp_path / "project") as runtime:
            async with talking(runtime, way, marker, client=options) as (client, transport):
                with pytest.raises(MCPError, match="Connection closed"):
                    await client.call_tool("do", {})
                with pytest.raises(MCPError, match="Connection closed"):
                    await client.call_tool("do", {})
            assert f"The MCP server 'odd' {BROKEN[way]}" in transport.reason
            assert [str(item) for item in heard if isinstance(item, ServerBroken)] == [transport.reason]
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("way", [way for way in SILENT if "flood" not in way])
def test_a_server_that_never_answers_costs_a_call_its_time_and_is_killed_in_the_end(way: str, tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project") as runtime:
            async with talking(runtime, way, marker) as (client, _):
                assert len(survivors(marker)) > 0
                with pytest.raises(MCPError, match=r"timed out|Connection closed"):
                    await client.call_tool("do", {}, read_timeout_seconds=0.3)
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
def test_a_server_that_never_answers_initialize_is_given_up_and_killed(tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project") as runtime:
            with pytest.raises(ExceptionGroup) as caught:
                async with talking(runtime, "never initialises", marker, client={"read_timeout_seconds": 0.3}):
                    raise AssertionError("it answered")
            assert caught.group_contains(MCPError, match="timed out")
            await until(lambda: survivors(marker) == [])

    run(go())


@pytest.mark.spec("K1")
def test_output_closed_by_a_bare_server_that_stays_ends_the_connection(tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project", "off") as runtime:
            async with talking(runtime, "close output", marker) as (client, transport):
                with pytest.raises(MCPError, match="Connection closed"):
                    await client.call_tool("do", {})
                assert "closed its output" in transport.reason
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
def test_input_closed_by_a_bare_server_that_stays_ends_the_connection(tmp_path: Path) -> None:
    async def go() -> None:
        async with (
            runtime_in(tmp_path / "project", "off") as runtime,
            talking(runtime, "close input") as (client, transport),
        ):
            with pytest.raises(MCPError, match=r"timed out|Connection closed"):
                await client.call_tool("do", {}, read_timeout_seconds=0.3)
            with pytest.raises(MCPError, match="Connection closed"):
                await client.call_tool("do", {})
            await until(lambda: "is no longer reading its input" in transport.reason)

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("way", ["daemon", "daemon and exit", "stubborn"])
def test_nothing_a_server_started_outlives_it(mode: str, way: str, tmp_path: Path) -> None:
    async def go() -> None:
        marker = mark()
        async with runtime_in(tmp_path / "project", mode) as runtime:
            async with talking(runtime, way, marker) as (client, _):
                assert text_of(await client.call_tool("do", {})) == "done"
                if way == "daemon":
                    await until(lambda: any(line.startswith("sleep") for line in survivors(marker)))
            assert survivors(marker) == []

    run(go())


@pytest.mark.spec("K1")
def test_the_first_of_several_answers_counts(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime, talking(runtime, "double replies") as (client, _):
            for _ in range(20):
                assert text_of(await client.call_tool("do", {})) == "first"

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("way", ["huge line", "many values"])
def test_a_message_of_any_size_takes_little_memory(way: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime, talking(runtime, way) as (client, _):
            with peak_memory() as grown, pytest.raises(MCPError, match="Connection closed"):
                await client.call_tool("do", {})
            assert grown[0] < 64 * 1024**2

    run(go())


@pytest.mark.spec("K1")
def test_questions_without_end_wait_unread_until_the_first_are_answered(tmp_path: Path) -> None:
    asked = 0
    released = asyncio.Event()

    async def ask(context: Any, params: Any) -> ElicitResult:
        nonlocal asked
        asked += 1
        await released.wait()
        return ElicitResult(action="cancel")

    async def go() -> None:
        options = {"elicitation_callback": ask}
        async with (
            runtime_in(tmp_path / "project") as runtime,
            talking(runtime, "elicitation flood", client=options) as (client, transport),
        ):
            with peak_memory() as grown, pytest.raises(MCPError, match="timed out"):
                await client.call_tool("do", {}, read_timeout_seconds=5)
            assert asked == MAX_OWED
            assert grown[0] < 16 * 1024**2
            released.set()
            await until(lambda: asked > 2 * MAX_OWED)
            assert transport.reason == ""

    run(go())


@pytest.mark.spec("K1")
def test_a_server_that_dies_while_its_questions_wait_is_seen_to_be_dead(tmp_path: Path) -> None:
    async def never(context: Any, params: Any) -> ElicitResult:
        await asyncio.Event().wait()
        raise AssertionError

    async def go() -> None:
        options = {"elicitation_callback": never}
        async with (
            runtime_in(tmp_path / "project") as runtime,
            talking(runtime, "asks and dies", client=options) as (client, transport),
        ):
            with pytest.raises(MCPError, match="Connection closed"):
                await client.call_tool("do", {})
            assert "exited with 4" in transport.reason

    run(go())


@pytest.mark.spec("K1")
def test_addresses_in_resource_links_stay_text(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime, talking(runtime, "links") as (client, _):
            found = (await client.call_tool("do", {})).content
            assert [link.uri for link in found if isinstance(link, ResourceLink)] == [
                "file:///etc/passwd",
                "../../etc/passwd",
                "file:///proc/self/environ",
                "http://127.0.0.1:1/",
            ]

    run(go())


@pytest.mark.spec("K1", "R9")
def test_ten_thousand_tools_are_listed(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime, talking(runtime, "many tools") as (client, _):
            assert len((await client.list_tools()).tools) == 10_000

    run(go())


@pytest.mark.spec("K1", "R7")
def test_names_that_no_tool_may_have_arrive_as_they_are_for_the_bridge_to_refuse(tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime, talking(runtime, "odd names") as (client, _):
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["do\nit", "\x1b[31mred", "a" * 5000, "", "do"]

    run(go())


@pytest.mark.spec("K1")
@pytest.mark.parametrize("way", ["notification flood", "many values", "complains"])
def test_a_healthy_server_beside_a_hostile_one_goes_on_answering(way: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with runtime_in(tmp_path / "project") as runtime, talking(runtime, "healthy") as (healthy, _):
            async with talking(runtime, way) as (hostile, _):
                calling = asyncio.create_task(_call_for_ever(hostile))
                dearest = 0.0
                for _ in range(50):
                    began = time.process_time()
                    assert text_of(await healthy.call_tool("do", {})) == "done"
                    dearest = max(dearest, time.process_time() - began)
                calling.cancel()
                await asyncio.wait((calling,))
            assert text_of(await healthy.call_tool("do", {})) == "done"
            assert dearest < 10, "seconds of the processor between a question and its answer"

    run(go())


async def _call_for_ever(client: Any) -> None:
    while True:
        try:
            await client.call_tool("do", {})
        except MCPError as error:
            if "Connection closed" in str(error):
                return
