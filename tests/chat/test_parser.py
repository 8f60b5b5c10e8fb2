"""The whole grammar: roles, frontmatter, calls, results in both forms, thinking, aborted replies, fences."""

from __future__ import annotations

import pytest

from holdfast.chat.document import Document
from holdfast.chat.parser import (
    AbortedSegment,
    Frontmatter,
    MessageBlock,
    Preamble,
    TextSegment,
    ThinkingSegment,
    ToolResultSegment,
    ToolUseSegment,
)

PARALLEL = """@System:
Be brief.

@You:
Add 2+2 and divide 1 by 0.

@Assistant:
Two calls.

**Tool Use:** `calc` (`toolu_A`)

```json
{"expression":"2+2"}
```

**Tool Use:** `slack:list` (`urn:flemma:tool:slack:1f`)
```json
{"expression":"1/0"}
```

@You:

**Tool Result:** `toolu_A`

```
4
```

**Tool Result:** `urn:flemma:tool:slack:1f` (error)

```
division by zero
```

And now the sum?
"""


def only(text: str) -> MessageBlock:
    (message,) = Document.parse(text).messages
    return message


def shape(message: MessageBlock) -> list[tuple[object, ...]]:
    """The segments without their sources."""
    return [
        (type(segment), *[getattr(segment, name) for name in segment.__struct_fields__ if name != "source"])
        for segment in message.segments
    ]


@pytest.mark.spec("D1")
def test_parallel_calls_and_their_results_are_parsed() -> None:
    document = Document.parse(PARALLEL)
    assert [message.role for message in document.messages] == ["System", "You", "Assistant", "You"]
    assert shape(document.messages[2]) == [
        (TextSegment, "Two calls."),
        (ToolUseSegment, "calc", "toolu_A", '{"expression":"2+2"}', None),
        (ToolUseSegment, "slack:list", "urn:flemma:tool:slack:1f", '{"expression":"1/0"}', None),
    ]
    assert shape(document.messages[3]) == [
        (ToolResultSegment, "toolu_A", False, None, "4", None, None),
        (ToolResultSegment, "urn:flemma:tool:slack:1f", True, None, "division by zero", None, None),
        (TextSegment, "And now the sum?"),
    ]
    assert not document.diagnostics


@pytest.mark.spec("D1")
def test_blank_lines_belong_to_the_node_before_them() -> None:
    message = only("@You:\n\n \nfirst\n\nsecond  \n\n\n")
    assert message.marker == "@You:\n\n \n"
    assert message.segments == (TextSegment("first\n\nsecond  \n\n\n", "first\n\nsecond  "),)
    assert only("@You:\n \n").segments == ()


@pytest.mark.spec("D1")
@pytest.mark.parametrize("line", ["@You: hello", " @You:", "@Yöu:", "@:", "@You", "@You.:", "x@You:"])
def test_only_a_role_alone_on_its_line_starts_a_message(line: str) -> None:
    assert shape(only(f"@System:\n{line}\n")) == [(TextSegment, line)]


@pytest.mark.spec("D1")
def test_an_unknown_role_is_a_message_of_plain_text() -> None:
    message = only("@Critic7:  \n**Tool Use:** `a` (`b`)\n**Tool Result:** `b`\n<thinking>\n")
    assert message.role == "Critic7"
    assert shape(message) == [(TextSegment, "**Tool Use:** `a` (`b`)\n**Tool Result:** `b`\n<thinking>")]


@pytest.mark.spec("D1")
def test_each_role_has_its_own_markup() -> None:
    text = "@You:\n<!-- flemma:aborted: x -->\n**Tool Use:** `a` (`b`)\n\n@Assistant:\n**Tool Result:** `b`\n"
    assert [len(message.segments) for message in Document.parse(text).messages] == [1, 1]
    assert all(isinstance(message.segments[0], TextSegment) for message in Document.parse(text).messages)


@pytest.mark.spec("D1")
@pytest.mark.parametrize("bom", ["", "\ufeff"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_frontmatter_is_the_fence_on_the_first_line(newline: str, bom: str) -> None:
    text = newline.join([bom + "```toml ", "a = 1", "````", "b = 2", "``` ", "", "@You:", "hello", ""])
    document = Document.parse(text)
    assert document.frontmatter == Frontmatter(
        text[: text.index("@")], "toml", newline.join(["a = 1", "````", "b = 2"])
    )
    assert [message.role for message in document.messages] == ["You"]
    assert document.newline == newline and document.text == text


@pytest.mark.spec("D1")
@pytest.mark.parametrize("first", ["````lua", "``` lua", "```", "\n```lua", "```lua x"])
def test_any_other_fence_at_the_start_is_not_frontmatter(first: str) -> None:
    document = Document.parse(f"{first}\ncode\n````\n@You:\nhello\n")
    assert document.frontmatter is None
    assert isinstance(document.blocks[0], Preamble)
    assert len(document.messages) == 1


@pytest.mark.spec("D1")
def test_unclosed_frontmatter_is_an_error_and_there_are_no_messages() -> None:
    document = Document.parse("```lua\nflemma.opt.tools = {}\n\n@You:\nhello\n")
    assert document.frontmatter is None and not document.messages
    (found,) = document.diagnostics
    assert (found.severity, found.line, found.column) == ("error", 1, 1)
    assert found.message == "Unclosed frontmatter (missing closing fence)"


@pytest.mark.spec("D1")
def test_text_before_the_first_marker_is_kept_with_a_warning() -> None:
    document = Document.parse("\n\nhello\n@You:\nthere\n")
    assert document.blocks[0] == Preamble("\n\nhello\n")
    (found,) = document.diagnostics
    assert (found.severity, found.line, found.column) == ("warning", 3, 1)
    assert not Document.parse("\ufeff\n\n@You:\n").diagnostics


@pytest.mark.spec("D1")
@pytest.mark.parametrize("length", [3, 4, 5, 12])
def test_a_fence_of_any_length_can_contain_markup_and_shorter_fences(length: int) -> None:
    fence, inner = "`" * length, "@You:\n" + "`" * (length - 1) + "\n```json\n**Tool Result:** `x`\n</thinking>"
    result = only(f"@You:\n**Tool Result:** `a`\n{fence}\n{inner}\n{fence}``  \n").segments[0]
    assert isinstance(result, ToolResultSegment) and result.content == inner
    text = f"{fence}md\n{inner}\n{fence}"
    assert shape(only(f"@Assistant:\n{text}\n")) == [(TextSegment, text)]


@pytest.mark.spec("D1")
def test_a_line_with_further_backticks_opens_no_fence() -> None:
    document = Document.parse("@You:\n``` inline ``` code\n  ```\n~~~\n\n@Assistant:\nhello\n")
    assert [message.role for message in document.messages] == ["You", "Assistant"]


@pytest.mark.spec("D1")
def test_every_form_of_thinking_is_parsed() -> None:
    message = only(
        "@Assistant:\nWriting it.\n\n"
        '<thinking anthropic:signature="c2ln">\nshort plan\n\n```\n</thinking>\n```\n</thinking>\n'
        "<thinking redacted>\nb3BhcXVl\n</thinking>\n\n<thinking>\n</thinking>\n"
        '<thinking vertex:signature="abc"/>\n<thinking foo>\n'
    )
    assert shape(message) == [
        (TextSegment, "Writing it."),
        (ThinkingSegment, "short plan\n\n```\n</thinking>\n```", "anthropic", "c2ln", False),
        (ThinkingSegment, "b3BhcXVl", None, None, True),
        (ThinkingSegment, "", None, None, False),
        (ThinkingSegment, "", "vertex", "abc", False),
        (TextSegment, "<thinking foo>"),
    ]


@pytest.mark.spec("D1")
def test_unclosed_thinking_ends_with_its_message() -> None:
    document = Document.parse("@Assistant:\nhm\n<thinking>\nplan\n\n@You:\nwell?\n")
    assert shape(document.messages[0])[1] == (ThinkingSegment, "plan\n", None, None, False)
    assert document.messages[1].role == "You"
    (found,) = document.diagnostics
    assert (found.severity, found.line) == ("warning", 3)
    assert found.message == "Unclosed thinking block (missing </thinking>)"


@pytest.mark.spec("D1")
def test_an_aborted_reply_says_why() -> None:
    message = only("@Assistant:\nHalf an ans\n\n<!-- flemma:aborted: Response interrupted by the user. -->\n")
    assert shape(message) == [
        (TextSegment, "Half an ans"),
        (AbortedSegment, "Response interrupted by the user."),
    ]


@pytest.mark.spec("D1")
def test_a_call_without_a_body_does_not_swallow_the_next_one() -> None:
    document = Document.parse(
        "@Assistant:\n**Tool Use:** `a` (`1`)\n\nno fence here\n\n**Tool Use:** `b` (`2`)\n**Tool Use:** `c` (`3`)\n"
        "```json\n{broken\n```\n**Tool Use:** `d` (`4`)\n\n```json\n{}\n```\n"
    )
    problem = "Tool use requires a fenced code block with JSON input; without one it is not a call"
    assert shape(document.messages[0]) == [
        (ToolUseSegment, "a", "1", "", problem),
        (TextSegment, "no fence here"),
        (ToolUseSegment, "b", "2", "", problem),
        (ToolUseSegment, "c", "3", "{broken", None),
        (ToolUseSegment, "d", "4", "{}", None),
    ]
    assert [(one.severity, one.message, one.line) for one in document.diagnostics] == [
        ("warning", problem, 2),
        ("warning", problem, 6),
    ]


@pytest.mark.spec("D1")
@pytest.mark.parametrize(
    ("role", "header", "message"),
    [
        ("Assistant", "**Tool Use:** `a` (`1`)", "Unclosed fenced code block in tool use (missing closing fence)"),
        ("You", "**Tool Result:** `1`", "Unclosed fenced code block in tool result (missing closing fence)"),
        ("You", "some text", "Unclosed fenced code block (missing closing fence)"),
        ("Assistant", "<thinking>", "Unclosed fenced code block (missing closing fence)"),
    ],
)
def test_an_unclosed_fence_extends_to_the_end_and_is_an_error(role: str, header: str, message: str) -> None:
    text = f"@System:\nx\n\n@{role}:\n{header}\n\n```\nbody\n\n@You:\n**Tool Use:** `b` (`2`)\n"
    document = Document.parse(text)
    assert len(document.messages) == 2 and document.text == text
    found = document.diagnostics[-1]
    assert (found.severity, found.message, found.line, found.column) == ("error", message, 7, 1)
