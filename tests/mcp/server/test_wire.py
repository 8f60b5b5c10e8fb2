"""Whatever a tool says can be written to every client: half characters and numbers JSON lacks harm nobody."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from holdfast import Context, Tool, tool
from holdfast.contract.elicitation import FormRequest
from holdfast.mcp.server.stdio import LineWriter, OutstandingResponses, write_all
from holdfast.mcp.server.wire import clean, clean_text, writable
from tests.mcp.server.served_runtime import ERAS, Era, halves, running, served, text_of
from tests.mcp.server.test_http import HOLDER, listening
from tests.mcp.server.test_server import run
from tests.mcp.server.test_stdio import wired

pytestmark = pytest.mark.spec("K3a")

HALVED = "half �\n\n[Text that is not valid Unicode was replaced by �.]"
TEXT = st.text(st.characters(codec=None, categories=None) | st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Keep half characters out of the reports of these tests, which are sent between processes as UTF-8."""
    caplog.set_level(logging.CRITICAL + 1)
    caplog.set_level(logging.CRITICAL + 1, logger="holdfast")


@given(VALUES)
def test_what_is_clean_can_be_written_and_stays_as_it_is(value: Any) -> None:
    cleaned = clean(value)
    json.dumps(cleaned, ensure_ascii=False, allow_nan=False).encode()
    assert clean(cleaned) == cleaned
    message = types.JSONRPCResponse(jsonrpc="2.0", id=1, result={"value": cleaned})
    assert json.loads(writable(message) or b"")["result"] == json.loads(json.dumps({"value": cleaned}))


@given(st.text(st.characters(codec="utf-8")))
def test_a_text_that_is_whole_is_not_touched(text: str) -> None:
    assert clean_text(text) == text
    assert clean_text(text.encode("utf-16-le").decode("utf-16-le", "surrogatepass")) == text
    assert clean_text("\ud83d\ude00") == "😀"


@given(TEXT)
def test_an_answer_that_cannot_be_written_is_an_error_under_its_id(text: str) -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}
    for result in (deep, {"half": f"\ud800{text}"}):
        line = writable(types.JSONRPCResponse(jsonrpc="2.0", id="seven", result=result))
        said = json.loads(line or b"")
        assert (said["id"], said["error"]["code"]) == ("seven", types.INTERNAL_ERROR)
    assert writable(types.JSONRPCNotification(jsonrpc="2.0", method="x", params={"half": "\ud800"})) is None


def test_a_message_that_cannot_be_written_ends_neither_the_stream_nor_the_next_one() -> None:
    async def body() -> None:
        source, sink = os.pipe()
        send, receive = anyio.create_memory_object_stream[SessionMessage](0)
        odd: Any = {"half": "\ud800"}
        async with anyio.create_task_group() as group:
            group.start_soon(write_all, LineWriter(sink), receive, OutstandingResponses())
            async with send:
                await send.send(SessionMessage(types.JSONRPCNotification(jsonrpc="2.0", method="x", params=odd)))
                await send.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=1, result=odd)))
                await send.send(SessionMessage(types.JSONRPCResponse(jsonrpc="2.0", id=2, result={})))
        os.close(sink)
        with os.fdopen(source, "rb") as file:
            first, second = (json.loads(line) for line in file)
        assert (first["id"], first["error"]["code"], second["id"]) == (1, types.INTERNAL_ERROR, 2)

    run(body())


def test_what_json_does_not_have_is_named() -> None:
    for odd in (1 << 5000, b"bytes", {"deep": [object()]}):
        with pytest.raises(ValueError, match=r"bits|a bytes|a object"):
            clean(odd)


def test_half_a_character_does_not_end_the_server_on_stdio(tmp_path: Path) -> None:
    with wired(tmp_path) as wire:
        wire.shake_hands()
        params = {"name": "halves", "arguments": {}, "_meta": {"progressToken": "p"}}
        wire.send(id=2, method="tools/call", params=params)
        told = wire.read()["params"]
        assert (told["message"], told["progress"], told.get("total")) == ("half �", 1.0, None)
        result = wire.answer(2)["result"]
        assert result["content"][0]["text"] == HALVED and result["content"][1]["resource"]["uri"] == "x:�"
        wire.call(3, "halves", fail=True)
        assert wire.answer(3)["result"]["content"][0]["text"] == "ValueError: half �"
        wire.send(id=4, method="ping")
        assert wire.answer(4)["result"] == {}


@pytest.mark.parametrize("era", ERAS)
def test_half_a_character_reaches_a_client_over_http(tmp_path: Path, era: Era) -> None:
    async def body() -> None:
        async with (
            listening(tmp_path, tools=(halves,)) as address,
            httpx2.AsyncClient(headers=HOLDER) as web,
            Client(streamable_http_client(address, http_client=web), mode=era) as client,
        ):
            assert text_of(await client.call_tool("halves", {})) == HALVED
            assert text_of(await client.call_tool("halves", {"fail": True})) == "ValueError: half �"

    run(body())


@pytest.mark.parametrize("era", ERAS)
def test_a_list_a_question_and_an_error_are_clean_too(tmp_path: Path, era: Era) -> None:
    def execute(_: object) -> str:
        return ""

    odd = Tool(name="odd", execute=execute, description="half \ud800", effects=frozenset())
    huge = Tool(
        name="huge", execute=execute, effects=frozenset(),
        input_schema={"type": "object", "properties": {"n": {"const": 1 << 5000}}},
    )  # fmt: skip

    @tool(name="notes", effects=(), capabilities=("mcp:resources/read",))
    async def notes(uri: str) -> dict[str, Any]:
        """Has none."""
        raise ValueError(f"half \ud800 of {uri}")

    @tool(name="name_it", effects=("person",))
    async def asks(ctx: Context) -> str:
        """Asks with half a character."""
        schema: Any = {"type": "object", "properties": {"n": {"type": "string", "title": "half \ud800"}}}
        (reply,) = await ctx.elicit(FormRequest(message="half \ud800", schema=schema))
        return reply.action

    async def body() -> None:
        seen: list[Any] = []

        async def person(_: object, params: Any) -> types.ElicitResult:
            seen.append((params.message, params.requested_schema["properties"]["n"]["title"]))
            return types.ElicitResult(action="cancel")

        async with (
            running(tmp_path, tools=(odd, huge, notes, asks)) as runtime,
            served(runtime, era, elicitation_callback=person) as client,
        ):
            listed = {item.name: item for item in (await client.list_tools()).tools}
            assert listed["odd"].description == "half �" and "huge" not in listed
            with pytest.raises(MCPError) as raised:
                await client.read_resource("x:y")
            raised.value.error.message.encode()
            await client.call_tool("name_it", {})
            assert seen == [("half �", "half �")]

    run(body())
