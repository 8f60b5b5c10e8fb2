"""Messages: text, tool uses, and content included from files."""

from __future__ import annotations

import pytest

from holdfast.contract.message import Message, Text, Thinking, ToolResult, ToolUse
from holdfast.contract.result import Attachment


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [('{"a": 1}', {"a": 1}), ("", {}), ("  ", {}), ("[1]", None), ('{"a": ', None), ('{"a": 1, "a": 2}', None)],
)
def test_arguments_that_are_not_a_json_object_are_none(arguments: str, parsed: object) -> None:
    assert ToolUse("1", "note", arguments).parsed == parsed


def test_the_text_of_a_message_leaves_out_thinking_and_tool_results() -> None:
    use = ToolUse("1", "note")
    parts = (Thinking("hm"), Text("one "), use, ToolResult("1", "note", "done"), Text("two"))
    message = Message("assistant", parts)
    assert (message.text, message.own_text, message.tool_uses) == ("one two", "one \ntwo", (use,))


def test_attachments_and_included_text_are_included_content() -> None:
    image = Attachment(kind="image", mime_type="image/png")
    assert Message("user", (Text("a"), image)).has_included_content
    assert Message("user", (Text("a", included=True),)).has_included_content
    assert not Message("user", (Text("a"),)).has_included_content
