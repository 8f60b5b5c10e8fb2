"""Backslashes and percent signs: how arbitrary text is put into a document without being read as markup, and taken out.

A line outside a fence that is backslashes and markup has one backslash more in the document than in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import Final

from holdfast.chat.grammar import ASSISTANT, MARKUP, THOUGHT, WS, closing_fence

_MARKUP: Final = tuple(
    f"{markup}|{THOUGHT}" if reader == ASSISTANT else markup for reader, markup in enumerate(MARKUP)
)
_RISKY: Final = tuple(re.compile(rf"\n(?=\\*+(?:{markup}))", re.MULTILINE) for markup in _MARKUP)
_OPENING: Final = r"(?=`{3,}+[^`\n]*+$)"
_ESCAPED: Final = tuple(
    re.compile(rf"\n(?:{_OPENING}|\\(?=\\*+(?:{markup})))", re.MULTILINE) for markup in _MARKUP
)
_CLOSING: Final = re.compile(rf"\n(`{{3,}}+){WS}$", re.MULTILINE)
_TICKS: Final = re.compile("`+")
_EMPTY: Final = re.compile(rf"\\*+{WS}\Z")
_UNSTORABLE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")

_FIELD: Final = re.compile(r'[\x00-\x1f\x7f-\x9f%`)">]')
_ATTRIBUTE: Final = re.compile(r'[\x00-\x20\x7f-\x9f%`)">:=/<]')
_ENCODED: Final = re.compile("(?:%[0-9A-Fa-f]{2})+")


def storable(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold. Bytes that were not UTF-8 stay."""
    return text if text.isascii() else _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def escape_lines(text: str, reader: int) -> str:
    text = "\n" + text
    fences: _Closings | None = None
    out: list[str] = []
    at = done = 0
    while found := _RISKY[reader].search(text, at):
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
    """Where fences can close, so that many that never do cost no more than one."""

    def __init__(self, text: str) -> None:
        found = list(_CLOSING.finditer(text))
        self.lines = [match.start() for match in found]
        self.ends = [match.end() for match in found]
        self.lengths = [len(match[1]) for match in found]
        self.longest = list(accumulate(reversed(self.lengths), max))[::-1]

    def end_of(self, text: str, line: int) -> int | None:
        """The end of the line that closes the fence which this line opens."""
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


def unescape_lines(text: str, reader: int) -> str:
    text = "\n" + text
    out: list[str] = []
    at = done = 0
    while found := _ESCAPED[reader].search(text, at):
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
    """Mark a first and a last line that would be taken for the blank lines around a text."""
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
    """A name, an id, a signature: what would end its place is written as `%60`."""
    return _FIELD.sub(_percent, storable(text))


def encode_attribute(text: str) -> str:
    return _ATTRIBUTE.sub(_percent, storable(text))


def encode_message(text: str) -> str:
    """The blanks around the message of an aborted marker are not its own, so those of the text are written out."""
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" ")) if inner else len(text)
    after = len(text) - before - len(inner)
    return "%20" * before + encode_field(inner) + "%20" * after


def decode_field(text: str) -> str:
    return _ENCODED.sub(_character, text) if "%" in text else text


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _character(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogateescape")
