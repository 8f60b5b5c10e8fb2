"""The lines that mean something in a `.chat` document, as patterns shared by everything that reads or writes one.

Only a line feed ends a line. The patterns want MULTILINE; possessive repeats keep every one of them linear.
"""

from __future__ import annotations

import re
from typing import Final

BOM: Final = "\ufeff"
BLANK: Final = " \t\r\v\f"
"""What a blank line may consist of, and what may follow the markup on a line of its own."""

WS: Final = r"[ \t\r\v\f]*+"
MARKER: Final = rf"@(?P<role>[A-Za-z0-9]++):{WS}$"
FENCE: Final = r"(?P<fence>`{3,}+)[^`\n]*+$"
FRONTMATTER: Final = rf"```(?P<language>[A-Za-z0-9_]++){WS}$"
TOOL_USE: Final = rf"\*\*Tool Use:\*\*{WS}`(?P<name>[^`\n]*+)`{WS}\(`(?P<use>[^)\n]*)`\)[^\n]*+$"
TOOL_RESULT: Final = rf"\*\*Tool Result:\*\*{WS}`(?P<result>[^`\n]*+)`(?P<suffix>[^\n]*+)$"
BODY: Final = rf"(?:\n(?:{WS}\n)*+(?P<ticks>`{{3,}}+)(?P<info>[^`\n]*+)$)?"
"""The fence of a tool block, which may come after blank lines."""
_SIGNED: Final = r'(?:(?P<provider>[^ \n":=>]*+):)?signature="(?P<signature>[^"\n]*+)"'
THINKING: Final = (
    rf'<thinking(?P<redacted> redacted)?(?: {_SIGNED}| provider="(?P<unsigned>[^"\n]*+)")? ?(?P<closed>/?)>{WS}$'
)
THOUGHT: Final = rf"</thinking>{WS}$"
ABORTED: Final = rf"<!-- flemma:aborted:(?P<message>[^\n]*)-->{WS}$"

NOBODY, OTHER, YOU, ASSISTANT = range(4)
"""Whose text is read: nobody's before the first marker; two roles have markup of their own."""

MARKUP: Final = (
    rf"{MARKER}|{FENCE}",
    rf"{MARKER}|{FENCE}",
    rf"{MARKER}|{FENCE}|{TOOL_RESULT}",
    rf"{MARKER}|{FENCE}|{TOOL_USE}|{THINKING}|{ABORTED}",
)

IN_THINKING: Final = re.compile(rf"\n(?:{THOUGHT}|{MARKER}|{FENCE})", re.MULTILINE)
"""The lines that matter inside a thinking block."""

BLANKS: Final = rf"(?:{WS}\n)*+(?:{WS}\Z)?"
"""The rest of a line and the blank lines after it; at the end of the text also a last one without a line feed."""

_CLOSING: Final = re.compile(rf"`++{WS}($){BLANKS}", re.MULTILINE)


def reader_of(role: str) -> int:
    return YOU if role == "You" else ASSISTANT if role == "Assistant" else OTHER


def closing_fence(text: str, at: int, length: int) -> re.Match[str] | None:
    """The line that closes a fence of this length; `at` is the line feed before its content.

    The line ends where the group begins; the match has the blank lines after it, too.
    """
    wanted = "\n" + "`" * length
    while (at := text.find(wanted, at)) >= 0:
        at += 1
        if found := _CLOSING.match(text, at):
            return found
    return None
