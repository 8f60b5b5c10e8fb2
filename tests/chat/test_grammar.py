"""Model and tool output round-trips through a document and never becomes markup."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.agent.conversation import Status
from holdfast.chat import grammar
from holdfast.chat.document import Document
from holdfast.chat.parser import (
    AbortedSegment,
    AttachmentLink,
    MessageBlock,
    Segment,
    TextSegment,
    ThinkingSegment,
    ToolResultSegment,
    ToolUseSegment,
)
from holdfast.contract.message import Aborted, Part, Text, Thinking, ToolResult, ToolUse
from tests.chat.chat_strategies import ANY_TEXT, FIELD, NEWLINE, PARTS, THINKING, TOOL_USE
from tests.soak import rounds

CALL = "**Tool Use:** `a` (`b`)\n\n```json\n{}\n```\n\n"
BEFORE = f"```lua\nx = 1\n```\n@System:\nS\n\n@You:\nq\n\n@Assistant:\nw\n\n{CALL}"
AFTER = "@You:\n\n**Tool Result:** `b`\n\n```\n1\n```\n\nnext\n\n@Assistant:\nlast"


def between(message: str, newline: str) -> MessageBlock:
    """The message parsed inside a document, checked not to change the other nodes."""
    before, after = (text.replace("\n", newline) for text in (BEFORE, AFTER))
    around = Document.parse(before).blocks, Document.parse(after).blocks
    document = Document.parse(f"{before}{message}{newline}{after}")
    count = len(around[0])
    assert document.blocks[:count] == around[0]
    assert document.blocks[count + 1 :] == around[1]
    assert not document.diagnostics
    return document.messages[count - 1]


def part(segment: Segment) -> Part:
    match segment:
        case TextSegment():
            return Text(segment.text)
        case ThinkingSegment():
            return Thinking(segment.text, segment.provider, segment.signature, segment.redacted)
        case ToolUseSegment():
            return ToolUse(segment.id, segment.name, segment.body)
        case ToolResultSegment():
            return ToolResult(segment.id, segment.status or "", segment.content, segment.error)
        case AbortedSegment():
            return Aborted(segment.message)
        case AttachmentLink():
            return Text(segment.source)


def parts(message: MessageBlock) -> list[Part]:
    return [part(segment) for segment in message.segments]


def as_written(said: Sequence[Part]) -> list[Part]:
    """Adjacent texts are joined, empty ones dropped, and thinking comes last."""
    kept: list[Part] = []
    for one in said:
        if isinstance(one, Text) and kept and isinstance(kept[-1], Text):
            kept[-1] = Text(kept[-1].text + one.text)
        elif not isinstance(one, Thinking):
            kept.append(one)
    return [one for one in kept if one != Text("")] + [one for one in said if isinstance(one, Thinking)]


@pytest.mark.spec("D4")
@given(ANY_TEXT, st.sampled_from(["You", "Assistant", "System", "Critic"]), NEWLINE)
@example("", "You", "\n")
@example("\n", "Assistant", "\n")
@example("\\\n\\\\", "You", "\r\n")
@example("end\r", "Assistant", "\n")
@example("end\r", "Assistant", "\r\n")
@example("```\n@You:", "Assistant", "\n")
@settings(max_examples=rounds(50, 250), deadline=None)
def test_text_round_trips(text: str, role: str, newline: str) -> None:
    message = between(grammar.message(role, grammar.text(text, role), newline), newline)
    assert message.role == role
    assert parts(message) == [Text(text)]


@pytest.mark.spec("D4")
@given(THINKING, NEWLINE)
@settings(max_examples=rounds(40, 150), deadline=None)
def test_thinking_round_trips(thought: Thinking, newline: str) -> None:
    written = grammar.message("Assistant", grammar.thinking(thought, newline), newline)
    assert parts(between(written, newline)) == [thought]


@pytest.mark.spec("D4")
@given(TOOL_USE, NEWLINE)
@settings(max_examples=rounds(40, 150), deadline=None)
def test_a_call_round_trips(use: ToolUse, newline: str) -> None:
    assert parts(between(grammar.message("Assistant", grammar.tool_use(use, newline), newline), newline)) == [use]


@pytest.mark.spec("D4")
@given(FIELD, ANY_TEXT, st.booleans(), st.none() | st.sampled_from(Status), NEWLINE)
@settings(max_examples=rounds(40, 150), deadline=None)
def test_tool_output_round_trips(use_id: str, output: str, error: bool, status: Status | None, newline: str) -> None:
    if status is None:
        block = grammar.tool_result(use_id, output, error=error, newline=newline)
    else:
        block, error = grammar.placeholder(use_id, status, newline, output), False
    body = f"words{newline}{newline}{block}{newline}{newline}more"
    expected = ToolResult(use_id, status.value if status else "", output, error)
    assert parts(between(grammar.message("You", body, newline), newline)) == [Text("words"), expected, Text("more")]


@pytest.mark.spec("D4")
@given(FIELD | ANY_TEXT, NEWLINE)
@example("  ", "\n")
@example(" a -->\n@You:\n ", "\n")
@settings(max_examples=rounds(40, 200), deadline=None)
def test_an_abort_reason_round_trips(reason: str, newline: str) -> None:
    assert parts(between(grammar.message("Assistant", grammar.aborted(reason), newline), newline)) == [Aborted(reason)]


@pytest.mark.spec("D4")
@given(PARTS, st.none() | FIELD, NEWLINE)
@settings(max_examples=rounds(50, 250), deadline=None)
def test_a_reply_has_one_node_for_each_part(said: list[Part], aborted: str | None, newline: str) -> None:
    message = between(grammar.reply(said, aborted, newline), newline)
    expected = as_written(said)
    assert parts(message) == expected + ([] if aborted is None else [Aborted(aborted)])


@pytest.mark.spec("D1", "D4")
def test_a_reply_has_a_readable_layout() -> None:
    said: list[Part] = [
        Thinking("plan", "anthropic", "c2ln"),
        Text("Two calls.\n```\n@You:\n```"),
        ToolUse("1", "file.read", '{"path": "a"}'),
        ToolUse("2", "file.write", '{"text": "```"}'),
    ]
    assert grammar.reply(said, "Stopped by the user.", "\n") == (
        "@Assistant:\nTwo calls.\n```\n@You:\n```\n\n"
        '**Tool Use:** `file.read` (`1`)\n\n```json\n{"path": "a"}\n```\n\n'
        '**Tool Use:** `file.write` (`2`)\n\n````json\n{"text": "```"}\n````\n\n'
        '<thinking anthropic:signature="c2ln">\nplan\n</thinking>\n\n'
        "<!-- flemma:aborted: Stopped by the user. -->\n"
    )
    alone = grammar.reply([ToolUse("1", "a", "{}")], None, "\r\n")
    assert alone == "@Assistant:\r\n\r\n**Tool Use:** `a` (`1`)\r\n\r\n```json\r\n{}\r\n```\r\n"
    assert grammar.reply([Text("a @You: b\n@You:\n```")], None, "\n") == "@Assistant:\na @You: b\n\\@You:\n\\```\n"


@pytest.mark.spec("D4")
def test_only_the_line_that_would_be_read_as_markup_is_escaped() -> None:
    said = "1. \\alpha\n\\\n\\\\server\n@You: hi\n**Tool Use:** bold\n<thinking> out loud\n"
    assert grammar.text(said, "Assistant") == said + "\\"
    assert grammar.text("**Tool Use:** `a` (`b`)", "You") == "**Tool Use:** `a` (`b`)"
    assert grammar.text("**Tool Use:** `a` (`b`)", "Assistant") == "\\**Tool Use:** `a` (`b`)"


@pytest.mark.spec("D4")
def test_lone_surrogates_are_replaced() -> None:
    message = between(grammar.reply([Text("a\ud83d\udc80b"), ToolUse("\udfff", "\ud800", "\ud800")], None, "\n"), "\n")
    assert parts(message) == [Text("a\ufffd\udc80b"), ToolUse("\ufffd", "\ufffd", "\ufffd")]


@pytest.mark.spec("D4")
def test_a_part_that_cannot_be_in_a_reply_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot contain ToolResult"):
        grammar.reply([ToolResult("1", "a", "b")], None, "\n")
