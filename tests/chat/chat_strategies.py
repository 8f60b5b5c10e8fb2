"""Hypothesis strategies: text rich in `.chat` markup, documents, and edits."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from holdfast.contract.message import Part, Text, Thinking, ToolUse

MARKUP: Final = (
    "@You:",
    "@Assistant:",
    "@System:",
    "@Critic:",
    "@You: hello",
    "@You:  \t",
    "**Tool Use:** `file.read` (`toolu_1`)",
    "**Tool Use:** `` (``) and more",
    "**Tool Use:** `broken`",
    "**Tool Result:** `toolu_1`",
    "**Tool Result:** `toolu_1` (error)",
    "**Tool Result:** `toolu_1` (approved)",
    '**Tool Result:** `toolu_1` (status=denied policy="no shell")',
    "```",
    "```json",
    "```lua",
    "````",
    "`````text",
    "``",
    "``` inline ```",
    "```flemma:tool status=approved",
    "```flemma:tool status=nonsense",
    "<thinking>",
    "<thinking redacted>",
    '<thinking anthropic:signature="c2ln">',
    '<thinking openai:signature="c2ln"/>',
    "</thinking>",
    "<!-- flemma:aborted: stopped -->",
    "<!-- flemma:aborted: -->",
    "![shot.png](<a.chat.files/5f70bf18a0860070-shot.png>)",
    '[r.pdf](<a.chat.files/1c7a5e0c0a1d9c1f-r.pdf> "not sent to the model")',
    '[page](<https://example.com/> "linked by the tool")',
    "[page](<https://example.com/>)",
    '{"path": "a.md"}',
    "some words",
    "  indented",
)
_EDGE: Final = st.sampled_from(["", "", "", "\\", "\\\\", " ", "\t", "\r", "`", "\ufeff", "x"])
_ENDS: Final = st.sampled_from(["\n", "\n", "\n", "\n\n", "\r\n", "\r\n\r\n", "", " \n", "\r", "\n \n", "\v\n"])
_ESCAPED_BYTES: Final = [chr(code) for code in (0xDC80, 0xDCC3, 0xDCE9, 0xDCFF)]
CHARACTERS: Final = st.one_of(
    st.sampled_from([*"\\`@*<>()\"'%:=/ \t\r\n\v\f\x00\x1b\x7f\x85\u2028\ufeff", *_ESCAPED_BYTES]),
    st.characters(exclude_categories=["Cs"]),
)
_LINES: Final = st.tuples(_EDGE, st.sampled_from(MARKUP), _EDGE, _ENDS).map("".join)
_NOISE: Final = st.text(CHARACTERS, max_size=6)
_BLANKS: Final = st.sampled_from(["\n", "\r\n", " \n", "\\\n", "\\", "`" * 9 + "\n"])
ANY_TEXT: Final = st.lists(st.one_of(_LINES, _LINES, _NOISE, _BLANKS), max_size=14).map("".join)
"""Anything a model or a tool may say, and anything a file may hold."""

FIELD: Final = st.one_of(st.text(CHARACTERS, max_size=8), st.sampled_from(MARKUP))
NEWLINE: Final = st.sampled_from(["\n", "\r\n"])

THINKING: Final = st.builds(Thinking, ANY_TEXT, st.none() | FIELD, st.none() | FIELD, st.booleans())
TOOL_USE: Final = st.builds(ToolUse, FIELD, FIELD, ANY_TEXT)
PARTS: Final[st.SearchStrategy[list[Part]]] = st.lists(
    st.one_of(st.builds(Text, ANY_TEXT), THINKING, TOOL_USE), max_size=4
)
EDIT: Final = st.tuples(st.integers(0, 400), st.integers(0, 40), ANY_TEXT | _NOISE)
"""Where, how much goes, and what comes."""
