"""The grammar of `.chat` documents: patterns of markup lines, escaping, and functions that write blocks.

Only a line feed ends a line. The patterns need MULTILINE; possessive quantifiers keep all of them linear. A line of
backslashes and markup outside a fence has one more backslash in the document than in the text. Reading a written block
yields exactly what was written. A block has no line break at its end, a message has one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from holdfast.contract.message import Aborted, Part, Text, Thinking, ToolUse

BOM: Final = "\ufeff"
BLANK_CHARS: Final = " \t\r\v\f"
"""The characters of a blank line, which may also follow markup on its line."""

WS: Final = r"[ \t\r\v\f]*+"
MARKER: Final = rf"@(?P<role>[A-Za-z0-9]++):{WS}$"
FENCE: Final = r"(?P<fence>`{3,}+)[^`\n]*+$"
FRONTMATTER: Final = rf"```(?P<language>[A-Za-z0-9_]++){WS}$"
TOOL_USE: Final = rf"\*\*Tool Use:\*\*{WS}`(?P<name>[^`\n]*+)`{WS}\(`(?P<use>[^)\n]*)`\)[^\n]*+$"
TOOL_RESULT: Final = rf"\*\*Tool Result:\*\*{WS}`(?P<result>[^`\n]*+)`(?P<suffix>[^\n]*+)$"
BODY: Final = rf"(?:\n(?:{WS}\n)*+(?P<ticks>`{{3,}}+)(?P<info>[^`\n]*+)$)?"
"""The opening fence of a tool block, which may follow blank lines."""
_SIGNED: Final = r'(?:(?P<provider>[^ \n":=>]*+):)?signature="(?P<signature>[^"\n]*+)"'
THINKING: Final = (
    rf'<thinking(?P<redacted> redacted)?(?: {_SIGNED}| provider="(?P<unsigned>[^"\n]*+)")? ?(?P<closed>/?)>{WS}$'
)
THINKING_END: Final = rf"</thinking>{WS}$"
LINKED: Final = "linked by the tool"
"""The title of a link to an address: it tells the link of a result from one that a person wrote."""
NOT_SENT: Final = "not sent to the model"
"""The title of an attachment that is for the person only."""
_FILE: Final = r"[^<>/\n]*+(?<=\.files)/[0-9a-f]{16}-[^<>/\n]*+"
_TITLES: Final = rf"{LINKED}(?:, {NOT_SENT})?"
_LINK: Final = rf'\(<(?:{_FILE}>(?: "{NOT_SENT}")?|[^<>\n]*+> "{_TITLES}")\)'
_CODE: Final = rf' \(`[^`\n]*+` "{_TITLES}"\)'
ATTACHMENT: Final = rf"!?\[[^\]\n]*+\](?:{_LINK}|{_CODE}){WS}$"
"""The link to an attachment of the result before it; its address is code if a click must not open it."""
ABORTED: Final = rf"<!-- flemma:aborted:(?P<message>[^\n]*)-->{WS}$"

NO_ROLE, OTHER, YOU, ASSISTANT = range(4)
"""Roles by their markup: before the first marker there is none; two roles have markup of their own."""

MARKUP: Final = (
    rf"{MARKER}|{FENCE}",
    rf"{MARKER}|{FENCE}",
    rf"{MARKER}|{FENCE}|{TOOL_RESULT}|{ATTACHMENT}",
    rf"{MARKER}|{FENCE}|{TOOL_USE}|{THINKING}|{ABORTED}",
)

IN_THINKING: Final = re.compile(rf"\n(?:{THINKING_END}|{MARKER}|{FENCE})", re.MULTILINE)
"""The lines that matter inside a thinking block."""

BLANK_LINES: Final = rf"(?:{WS}\n)*+(?:{WS}\Z)?"
"""The rest of a line and the blank lines after it, including a last one without a line feed."""

_CLOSING_LINE: Final = re.compile(rf"`++{WS}($){BLANK_LINES}", re.MULTILINE)


def markup_role(role: str) -> int:
    return YOU if role == "You" else ASSISTANT if role == "Assistant" else OTHER


def closing_fence(text: str, at: int, length: int) -> re.Match[str] | None:
    """Find the line that closes a fence of this length; `at` is the line feed before the content.

    The group is at the end of that line; the match includes the blank lines after it.
    """
    wanted = "\n" + "`" * length
    while (at := text.find(wanted, at)) >= 0:
        at += 1
        if found := _CLOSING_LINE.match(text, at):
            return found
    return None


_MARKUP: Final = tuple(
    f"{markup}|{THINKING_END}" if role_kind == ASSISTANT else markup for role_kind, markup in enumerate(MARKUP)
)
_RISKY: Final = tuple(re.compile(rf"\n(?=\\*+(?:{markup}))", re.MULTILINE) for markup in _MARKUP)
_OPENING: Final = r"(?=`{3,}+[^`\n]*+$)"
_ESCAPED: Final = tuple(re.compile(rf"\n(?:{_OPENING}|\\(?=\\*+(?:{markup})))", re.MULTILINE) for markup in _MARKUP)
_CLOSING: Final = re.compile(rf"\n(`{{3,}}+){WS}$", re.MULTILINE)
_TICKS: Final = re.compile("`+")
_EMPTY: Final = re.compile(rf"\\*+{WS}\Z")
_UNSTORABLE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")

_FIELD: Final = re.compile(r'[\x00-\x1f\x7f-\x9f%`)">\udc80-\udcff]')
_ATTRIBUTE: Final = re.compile(r'[\x00-\x20\x7f-\x9f%`)">:=/<\udc80-\udcff]')
_TARGET: Final = re.compile(r'[\x00-\x1f\x7f-\xa0<>"`%\\\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\udc80-\udcff]')
_ENCODED: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")


def replace_unencodable(text: str) -> str:
    """Replace lone surrogates, except those of `surrogateescape`, which stand for bytes that are not UTF-8."""
    return text if text.isascii() else _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_lines(text: str, role_kind: int) -> str:
    text = "\n" + text
    fences: _Closings | None = None
    out: list[str] = []
    at = done = 0
    while found := _RISKY[role_kind].search(text, at):
        at = found.end()
        if text[at] == "`":
            fences = fences or _Closings(text)
            if (end := fences.end_of(text, at)) is not None:
                at = end
                continue
        out += (text[done:at], "\\")
        done = at
    return ("".join(out) + text[done:])[1:]


class _Closings:
    """An index of closing fences, so that many unclosed fences take linear time."""

    def __init__(self, text: str) -> None:
        found = list(_CLOSING.finditer(text))
        self.lines = [match.start() for match in found]
        self.ends = [match.end() for match in found]
        self.lengths = [len(match[1]) for match in found]
        self.longest = list(accumulate(reversed(self.lengths), max))[::-1]

    def end_of(self, text: str, line: int) -> int | None:
        """The end of the line that closes the fence opened by this line."""
        length = _ticks(text, line)
        index = bisect_right(self.lines, line)
        if index == len(self.lines) or self.longest[index] < length:
            return None
        while self.lengths[index] < length:
            index += 1
        return self.ends[index]


def _ticks(text: str, line: int) -> int:
    found = _TICKS.match(text, line)
    return len(found[0]) if found else 0


def unescape_lines(text: str, role_kind: int) -> str:
    text = "\n" + text
    out: list[str] = []
    at = done = 0
    while found := _ESCAPED[role_kind].search(text, at):
        at = found.end()
        if text[at - 1] == "\\":
            out.append(text[done : at - 1])
            done = at
            continue
        closing = closing_fence(text, at, _ticks(text, at))
        if closing is None:
            break
        at = closing.start(1)
    return ("".join(out) + text[done:])[1:]


def escape_edges(text: str) -> str:
    """Escape a first or last line that would be read as a blank line around the text."""
    first, feed, rest = text.partition("\n")
    if _EMPTY.match(first):
        text = "\\" + text
    if feed and _EMPTY.match(rest, last := rest.rfind("\n") + 1):
        text = text[: len(text) - len(rest) + last] + "\\" + rest[last:]
    return text


def unescape_edges(text: str) -> str:
    first, feed, rest = text.partition("\n")
    if first.startswith("\\") and _EMPTY.match(first):
        text = text[1:]
    if feed and rest.startswith("\\", last := rest.rfind("\n") + 1) and _EMPTY.match(rest, last):
        text = text[: len(text) - len(rest) + last] + rest[last + 1 :]
    return text


def encode_field(text: str) -> str:
    """Percent-encode the characters of a name, id or signature that would end its field."""
    return _FIELD.sub(_percent, replace_unencodable(text))


def encode_attribute(text: str) -> str:
    return _ATTRIBUTE.sub(_percent, replace_unencodable(text))


def encode_message(text: str) -> str:
    """Like `encode_field`; also encodes outer spaces, because those around an aborted marker's message are ignored."""
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" ")) if inner else len(text)
    after = len(text) - before - len(inner)
    return "%20" * before + encode_field(inner) + "%20" * after


def decode_field(text: str) -> str:
    return _ENCODED.sub(_character, text) if "%" in text else text


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogateescape"))


def _character(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogateescape")


def text(text: str, role: str) -> str:
    """Escape text of this role; line breaks are unchanged."""
    return escape_edges(escape_lines(replace_unencodable(text), markup_role(role)))


def thinking(part: Thinking, newline: str) -> str:
    tag = "<thinking redacted" if part.redacted else "<thinking"
    if part.signature is not None:
        whose = "" if part.provider is None else f"{encode_attribute(part.provider)}:"
        tag += f' {whose}signature="{encode_field(part.signature)}"'
    elif part.provider is not None:
        tag += f' provider="{encode_field(part.provider)}"'
    inner = escape_lines(replace_unencodable(part.text), ASSISTANT)
    return f"{tag}>{newline}{inner}{newline if inner else ''}</thinking>"


def tool_use(use: ToolUse, newline: str) -> str:
    header = f"**Tool Use:** `{encode_field(use.name)}` (`{encode_field(use.id)}`)"
    return f"{header}{newline}{newline}{_fenced(use.arguments, 'json', newline)}"


def tool_result(use_id: str, text: str, *, error: bool, newline: str, links: Sequence[str] = ()) -> str:
    block = f"{_result_header(use_id)}{' (error)' if error else ''}{newline}{newline}{_fenced(text, '', newline)}"
    return (newline * 2).join((block, newline.join(links))) if links else block


def attachment_link(label: str, target: str, *, image: bool, title: str = "") -> str:
    """The line that names an attachment; `target` is already encoded. Only files and web pages are links to click."""
    shown = f' "{title}"' if title else ""
    if title.startswith(LINKED) and not target.startswith(("https://", "http://")):
        return f"[{label}] (`{target}`{shown})"
    return f"{'!' if image else ''}[{label}](<{target}>{shown})"


def encode_target(text: str) -> str:
    """Percent-encode the characters of a file name or address that would end its link or hide in it."""
    return _TARGET.sub(_percent, replace_unencodable(text))


def placeholder(use_id: str, status: str, newline: str, content: str = "") -> str:
    return f"{_result_header(use_id)}{newline}{newline}{_fenced(content, f'flemma:tool status={status}', newline)}"


def aborted(message: str) -> str:
    return f"<!-- flemma:aborted: {encode_message(message)} -->"


def message(role: str, body: str, newline: str) -> str:
    """A message with this body. A blank line precedes a tool block that comes first."""
    apart = newline if body.startswith("**Tool ") else ""
    return f"@{role}:{newline}{apart}{body}{newline if body else ''}"


def reply(parts: Sequence[Part], aborted: str | None, newline: str) -> str:
    """An assistant message: text and calls in order, then thinking, then the abort reason.

    Adjacent texts are joined; empty texts are not written.
    """
    content = [part for part in parts if not isinstance(part, Thinking | Aborted)]
    thinking_parts = [part for part in parts if isinstance(part, Thinking)]
    aborts = [part for part in parts if isinstance(part, Aborted)]
    if aborted is not None:
        aborts.append(Aborted(aborted))
    blocks = [_block(part, newline) for part in (*_merged(content), *thinking_parts, *aborts)]
    return message("Assistant", (newline * 2).join(blocks), newline)


def _merged(parts: Sequence[Part]) -> Iterator[Part]:
    texts: list[str] = []
    for part in (*parts, None):
        if isinstance(part, Text):
            texts.append(part.text)
            continue
        if text := "".join(texts):
            yield Text(text)
        texts.clear()
        if part is not None:
            yield part


def _block(part: Part, newline: str) -> str:
    match part:
        case Text():
            return text(part.text, "Assistant")
        case Thinking():
            return thinking(part, newline)
        case ToolUse():
            return tool_use(part, newline)
        case Aborted():
            return aborted(part.message)
        case _:
            raise TypeError(f"A reply cannot contain {type(part).__name__}.")


def _result_header(use_id: str) -> str:
    return f"**Tool Result:** `{encode_field(use_id)}`"


def _fenced(content: str, info: str, newline: str) -> str:
    content = replace_unencodable(content)
    longest = max(map(len, _TICKS.findall(content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{info}{newline}{content}{newline if content else ''}{fence}"
