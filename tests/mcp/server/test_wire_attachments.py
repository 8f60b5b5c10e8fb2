"""Attachments over MCP, both ways: kind, type, bytes, name, address and audience survive."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.result import Attachment, Result
from holdfast.mcp.client.tool_call import result_from
from holdfast.mcp.server.wire import block_of, clean, to_wire
from tests.attachment_strategies import PNG, attachments
from tests.soak import rounds

SHOT = Attachment(kind="image", mime_type="image/png", data=PNG, name="shot.png")


def received(items: tuple[Attachment, ...]) -> Result:
    wire = clean(to_wire(Result(True, "text", attachments=items, call_id="c-1"), modern=True))
    return result_from(types.CallToolResult.model_validate(wire))


@pytest.mark.spec("T10l")
@given(st.lists(attachments(), max_size=4))
@settings(max_examples=rounds(50, 3000))
def test_what_a_server_sends_is_what_a_client_gets(items: list[Attachment]) -> None:
    result = received(tuple(items))
    assert (result.attachments, result.output) == (tuple(items), "text")


@pytest.mark.spec("T10l")
def test_a_block_for_the_person_says_so_and_every_block_has_name_digest_and_size() -> None:
    block = block_of(Attachment(kind="image", mime_type="image/png", data=PNG, name="a.png", audience="person"), "c", 0)
    assert block["annotations"] == {"audience": ["user"]}
    facts = {"kind": "image", "name": "a.png", "digest": SHOT.digest, "size": len(PNG)}
    assert block["_meta"] == {"holdfast/attachment": facts}
    assert "annotations" not in block_of(SHOT, "c", 0)


@pytest.mark.spec("T10l")
@pytest.mark.parametrize(
    ("annotations", "audience"),
    [
        (None, "everyone"),
        ({"audience": ["user"]}, "person"),
        ({"audience": ["user", "assistant"]}, "everyone"),
        ({"audience": ["assistant"]}, "everyone"),
        ({"priority": 1}, "everyone"),
    ],
)
def test_the_audience_of_any_server_is_kept(annotations: Any, audience: str) -> None:
    block = {"type": "image", "data": "AAAA", "mimeType": "a/b", "annotations": annotations}
    [item] = result_from(types.CallToolResult.model_validate({"content": [block]})).attachments
    assert (item.audience, item.name) == (audience, None)


@pytest.mark.parametrize(
    "facts", [1, {}, {"name": 5, "kind": "exe", "uri": []}, {"name": "x" * 9999, "digest": "0" * 64}]
)
def test_facts_of_a_hostile_server_are_bounded_and_never_replace_the_digest(facts: Any) -> None:
    block = {"type": "audio", "data": "QUJD", "mimeType": "a/b", "_meta": {"holdfast/attachment": facts}}
    [item] = result_from(types.CallToolResult.model_validate({"content": [block]})).attachments
    assert (item.kind, item.data, len(item.name or "") <= 4096) == ("audio", b"ABC", True)
    assert item.digest == Attachment(kind="file", mime_type="a/b", data=b"ABC").digest


@pytest.mark.spec("T10l")
def test_content_that_is_gone_is_a_sentence() -> None:
    block = block_of(SHOT.without_data(), "c", 0)
    assert block == {
        "type": "text",
        "text": f'[image "shot.png" (image/png, {len(PNG)}B) was attached, but its content is no longer stored.]',
    }
