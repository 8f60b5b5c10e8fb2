"""Attachments round trip: nothing is lost and nothing invented between any two ways that they take."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import replace

from holdfast import Attachment, Result, Runtime, tool
from holdfast.agent.conversation import SetResult
from holdfast.cli.attachment_view import save_attachments
from holdfast.contract.json import encode_json
from holdfast.contract.message import ToolResult
from holdfast.json_output import result_output
from holdfast.mcp.client.tool_call import result_from
from holdfast.mcp.server.wire import clean, to_wire
from holdfast.models.attachments import missing_reason
from holdfast.store.ledger import Ledger
from tests.attachment_strategies import PNG, attachments
from tests.chat.chat_files import ONE, conversation_with_calls, only_slot, open_conversation
from tests.soak import rounds
from tests.store.calls import APPROVED, make_call

ITEMS = st.lists(attachments(), max_size=4).map(tuple)
SHOT = Attachment(kind="image", mime_type="image/png", data=PNG, name="shot.png", audience="person")


def through_ledger(folder: Path, items: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    """Written by one connection, read by another, as another process does."""
    path = folder / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.record_call_now(make_call("a"), APPROVED, Result(True, attachments=items))
    with Ledger.open(path, read_only=True) as ledger:
        result = ledger.result("a")
    assert result is not None
    return result.attachments


def through_document(folder: Path, items: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    """Written into a document, and read again as a message for a model."""
    conversation = conversation_with_calls(folder, ONE)
    conversation.change([SetResult(only_slot(conversation), Result(True, "done", attachments=items))])
    [*_, last] = open_conversation(folder).messages()
    [result] = last.parts
    assert isinstance(result, ToolResult)
    return tuple(replace(item, path=None) for item in result.attachments)


def through_mcp(folder: Path, items: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    wire = clean(to_wire(Result(True, attachments=items, call_id="c"), modern=True))
    return result_from(types.CallToolResult.model_validate_json(json.dumps(wire))).attachments


def through_json(folder: Path, items: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
    """Printed with --json; the bytes are in the files that it names."""
    saved = save_attachments(Result(True, attachments=items), folder)
    shown: list[dict[str, Any]] = json.loads(encode_json(result_output(saved)))["attachments"]
    return tuple(
        replace(convert({"type": "attachment", **item}, Attachment), path=None, data=Path(item["path"]).read_bytes())
        if item["path"]
        else convert({"type": "attachment", **item}, Attachment)
        for item in shown
    )


WAYS = {"ledger": through_ledger, "document": through_document, "mcp": through_mcp, "json": through_json}


@pytest.mark.parametrize("second", WAYS)
@pytest.mark.parametrize("first", WAYS)
@pytest.mark.spec("T10c")
@given(items=ITEMS)
@settings(max_examples=rounds(3, 300), deadline=None)
def test_what_takes_one_way_and_then_another_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, first: str, second: str, items: tuple[Attachment, ...]
) -> None:
    once = WAYS[first](tmp_path_factory.mktemp("first"), items)
    assert once == items
    assert WAYS[second](tmp_path_factory.mktemp("second"), once) == items
    assert [item.digest for item in once] == [item.digest for item in items]


@pytest.mark.spec("T10", "T10e")
def test_another_process_gets_the_attachments_that_a_tool_returned(tmp_path: Path) -> None:
    @tool(effects=())
    def draw() -> Result:
        """Draws."""
        return Result(True, "drawn", attachments=(SHOT,))

    async def call() -> Result:
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            async with Runtime([draw], ledger=ledger) as runtime:
                return await runtime.call("draw", {})

    result = asyncio.run(call())
    assert result.attachments == (SHOT,)
    program = (
        "import sys; from pathlib import Path; from holdfast.store.ledger import Ledger\n"
        "with Ledger.open(Path(sys.argv[1]), read_only=True) as ledger:\n"
        "    [item] = ledger.result(sys.argv[2]).attachments\n"
        "print(item.digest, item.size, item.name, item.audience, item.data.hex())"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "ledger.db"), result.call_id]
    told = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=True).stdout.split()
    assert told == [SHOT.digest, str(SHOT.size), "shot.png", "person", PNG.hex()]


@given(attachments())
@settings(max_examples=rounds(20, 1000))
@pytest.mark.spec("T10j")
def test_a_model_never_gets_the_content_that_is_for_the_person(item: Attachment) -> None:
    assert (missing_reason(item) is None) is (item.audience == "everyone" and bool(item.data))
