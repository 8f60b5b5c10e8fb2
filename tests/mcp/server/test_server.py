"""What an MCP client is shown and what its calls give it, in both generations of the protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from holdfast import Config, Runtime, tool
from holdfast.config.config import ApprovalConfig, ToolsConfig
from holdfast.contract.enums import State
from holdfast.contract.tool import Tool
from tests.mcp.server.served_runtime import ERAS, Deeds, Era, running, served, text_of

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


def test_a_result_keeps_its_structure_and_says_which_call_it_was(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, era) as client:
            for name in ("math--add", "math.add"):
                result = await client.call_tool(name, {"a": 2, "b": 3})
                assert result.structured_content == {"sum": 5} and not result.is_error
                assert result.meta is not None
                kept = runtime.pending.result(result.meta["holdfast/call"])
                assert kept is not None and kept.state is State.DONE

    run(body())


@pytest.mark.spec("T10b")
def test_attachments_arrive_as_typed_blocks_in_their_order(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, era) as client:
            kinds = [block.type for block in (await client.call_tool("show", {})).content]
            assert kinds == ["text", "image", "audio", "resource", "resource_link"]

    run(body())


def test_an_unknown_tool_is_a_protocol_error_and_wrong_arguments_are_named(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, era) as client:
            with pytest.raises(MCPError, match="There is no tool 'nope'") as raised:
                await client.call_tool("nope", {})
            assert raised.value.error.code == types.INVALID_PARAMS
            result = await client.call_tool("math--add", {"a": "one"})
            assert result.is_error and "b is missing" in text_of(result) and "must be integer" in text_of(result)

    run(body())


@pytest.mark.spec("R6")
def test_a_client_is_told_once_of_names_that_no_tool_has(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        logged: list[types.LoggingMessageNotificationParams] = []

        async def log(params: types.LoggingMessageNotificationParams) -> None:
            logged.append(params)

        config = Config(tools=ToolsConfig(deny=("tel",)))
        async with running(tmp_path, config=config) as runtime, served(runtime, era, logging_callback=log) as client:
            wanted: Any = {} if era == "legacy" else {"io.modelcontextprotocol/logLevel": "warning"}
            for _ in range(2):
                await client.call_tool("math--add", {"a": 1, "b": 2}, meta=wanted)
            (warning,) = logged
            assert (warning.level, warning.logger) == ("warning", "holdfast")
            assert warning.data == "tools.deny names 'tel', but there is no such tool or group. Did you mean 'tell'?"

    run(body())


def test_a_cancelled_request_stops_the_call_and_the_ledger_says_so(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        deeds = Deeds()
        async with running(tmp_path, deeds=deeds) as runtime, served(runtime, era) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "wait")
                await deeds.waiting.wait()
                group.cancel_scope.cancel()
            await deeds.stopped.wait()
        async with running(tmp_path) as runtime:
            assert runtime.ledger is not None
            assert [item.state for item in runtime.ledger.calls()] == [State.CANCELLED]

    run(body())


def test_a_hundred_calls_in_flight_all_get_their_own_answer(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, era) as client:
            asked = [client.call_tool("math--add", {"a": number, "b": 1}) for number in range(100)]
            sums = [result.structured_content["sum"] for result in await asyncio.gather(*asked)]
            assert sums == list(range(1, 101))

    run(body())


@pytest.mark.spec("P4")
def test_a_clients_name_can_only_take_tools_away(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime, served(runtime, era, name="small") as client:
            assert "erase" not in {item.name for item in (await client.list_tools()).tools}
            with pytest.raises(MCPError, match="not allowed"):
                await client.call_tool("erase", {"what": "all"})

    run(body())


def test_changed_tools_are_told_of(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        changed = asyncio.Event()

        async def seen(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                changed.set()

        async with running(tmp_path) as runtime, served(runtime, era, message_handler=seen) as client:
            await client.list_tools()
            if era == "legacy":
                runtime.register(empty("fresh"))
                await changed.wait()
            else:
                async with client.listen(tools_list_changed=True) as events:
                    runtime.register(empty("fresh"))
                    async for _ in events:
                        break
            assert "fresh" in {item.name for item in (await client.list_tools()).tools}

    run(body())


def test_requests_for_resources_and_prompts_are_answered_by_tools_that_are_not_listed(tmp_path: Path, era: Era) -> None:
    @tool(name="notes.list", effects=(), capabilities=("mcp:resources/list",))
    async def notes() -> dict[str, Any]:
        """Notes."""
        return {"resources": [{"uri": "note://1", "name": "one"}]}

    @tool(name="more.list", effects=(), capabilities=("mcp:resources/list",))
    async def more() -> dict[str, Any]:
        """More notes."""
        return {"resources": [{"uri": "note://2", "name": "two"}]}

    @tool(name="notes.read", effects=(), capabilities=("mcp:resources/read",))
    async def read(uri: str) -> dict[str, Any]:
        """One of them."""
        if uri != "note://1":
            raise ValueError(f"There is no {uri}.")
        return {"contents": [{"uri": uri, "text": "words"}]}

    async def body() -> None:
        config = Config(tools=ToolsConfig(profile="full"), approval=ApprovalConfig(auto_approve=("*",)))
        async with (
            running(tmp_path, tools=(notes, more, read), config=config) as runtime,
            served(runtime, era) as client,
        ):
            assert not {"notes.list", "notes.read"} & {item.title for item in (await client.list_tools()).tools}
            with pytest.raises(MCPError, match="There is no tool"):
                await client.call_tool("notes.read", {"uri": "note://1"})
            listed = (await client.list_resources()).resources
            assert sorted(item.name for item in listed) == ["one", "two"]
            content = (await client.read_resource("note://1")).contents[0]
            assert isinstance(content, types.TextResourceContents) and content.text == "words"
            with pytest.raises(MCPError, match=r"There is no note://9\.") as raised:
                await client.read_resource("note://9")
            assert raised.value.error.code == (-32002 if era == "legacy" else types.INVALID_PARAMS)
            assert client.server_capabilities.prompts is None

    run(body())


def test_closing_the_server_restores_the_runtime(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with running(tmp_path) as runtime:
            async with served(runtime, era):
                assert runtime.interfaces.askers and runtime.interfaces.nobody == "pending"
            assert isinstance(runtime, Runtime)
            assert not runtime.interfaces.askers and runtime.interfaces.nobody == "deny"
            assert runtime.events.idle

    run(body())
