"""Hypothesis strategies for replies rich in tags, fences, delimiters and frames, and for calls."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import strategies as st

from holdfast.contract.message import ToolUse
from holdfast.models.text_protocol.syntax import FRAMES, TAGS, TOOLS

WORDS: Final = (
    *TAGS,
    *FRAMES,
    "[read_file: a.py]",
    "[read_file: a[0].py]",
    "[read_file: a[0 ]",
    "[list_dir: ]",
    "[search_code: f(x)]",
    "[write_file: path=b.py]",
    "[call: file.find]",
    '[call: "odd \\u005d name"]',
    '{"a": "[/call]"}',
    '{"a": {"b": "}\\""}}',
    '{"a": 1, "a": 2}',
    "{",
    "}",
    '"',
    "\\",
    "path: a.py",
    "path:",
    "---content---",
    "---search---",
    "---replace---",
    "---old words---",
    "---",
    "<<<<<<< SEARCH",
    "=======",
    ">>>>>>> REPLACE",
    "old content:",
    "New content: x",
    "query: needle",
    "=== /tool_result ===",
    "===",
    "```",
    "```json",
    "````",
    "``",
    "~~~",
    "~~~~",
    "> ",
    "[",
    "]",
    "[[",
    "]]",
    "[read",
    "words",
    "é∂\U0001f600",
    "\ud800",
    "\x00",
    "\u2028",
)
_ENDS: Final = st.sampled_from(["\n", "\n", "\n", "\r\n", "", "", " ", "\t", "    ", "\n\n", "\r", " \r\n"])
_LINE: Final = st.tuples(st.sampled_from(["", "", "", " ", "\t", "    "]), st.sampled_from(WORDS), _ENDS).map("".join)
_NOISE: Final = st.text(st.sampled_from('[]`~=-{}"\\:/ \r\nax'), max_size=8)

WRITE: Final = "[write_file]\npath: w.py\n---content---\n{}\n[/write_file]"
EDIT: Final = "[edit_file]\npath: e.py\n---search---\n{}\n---replace---\nnew\n[/edit_file]"
_INNER: Final = st.lists(_LINE, max_size=4).map("".join)
_WHOLE: Final = st.one_of(
    _INNER.map(lambda body: WRITE.replace("{}", body)),
    _INNER.map(lambda body: EDIT.replace("{}", body)),
    _INNER.map(lambda body: WRITE.replace("{}", body).replace("\n", "\r\n")),
    _INNER.map(lambda body: f"```\n{body}\n```"),
    _INNER.map(lambda body: f"[call: any.tool]\n{json.dumps({'text': body})}\n[/call]"),
)
REPLY: Final = st.lists(st.one_of(_LINE, _LINE, _LINE, _NOISE, _WHOLE), max_size=14).map("".join)
"""Anything a model may write, and more of what it should not."""

TEXT: Final = st.one_of(_INNER, st.text(max_size=8), st.sampled_from(WORDS))
_NAMES: Final = st.one_of(st.sampled_from(WORDS), st.text(max_size=12), st.sampled_from(["mcp:server:tool", "x.y"]))
_VALUES: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)


def _use(name: str, args: dict[str, Any]) -> ToolUse:
    return ToolUse("call-1", name, json.dumps(args))


def _short_form_uses() -> list[st.SearchStrategy[ToolUse]]:
    path = st.fixed_dictionaries({"path": TEXT})
    write = st.fixed_dictionaries({"path": TEXT, "content": TEXT})
    modes = st.sampled_from(["first", "all", None])
    edit = st.fixed_dictionaries({"path": TEXT, "search": TEXT, "replace": TEXT, "mode": modes})
    return [
        st.builds(_use, st.sampled_from(["file.read", "file.list"]), path),
        st.builds(_use, st.just("code.search"), st.fixed_dictionaries({"query": TEXT})),
        st.builds(_use, st.sampled_from(["git.status", "git.diff", "git.log"]), st.just({})),
        st.builds(_use, st.just("file.write"), write),
        st.builds(_use, st.just("file.edit"), edit),
    ]


_SHORT_FORM_USES: Final = _short_form_uses()
_ANY_TOOL: Final = st.one_of(st.sampled_from(sorted(TOOLS.values())), st.sampled_from(sorted(TOOLS)), _NAMES)
USE: Final = st.one_of(*_SHORT_FORM_USES, st.builds(_use, _ANY_TOOL, st.dictionaries(TEXT, _VALUES, max_size=4)))
"""A call of one of the eight tools with any strings, or of anything with any JSON object."""
