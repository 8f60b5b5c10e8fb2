"""How much room text takes on a screen, and cutting it to fit without hiding that it was cut.

Widths are those of text that went through `visible`; a tab or an escape sequence has no width of its own.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from unicodedata import category, east_asian_width

ELLIPSIS: Final = "…"


def char_width(char: str) -> int:
    """Columns of one character, at most: two for wide ones and for symbols, about which terminals disagree, none for
    those drawn onto the one before."""
    kind = category(char)
    if kind in ("Mn", "Me", "Cf"):
        return 0
    wide = kind == "So" or east_asian_width(char) in ("W", "F") or "\U0001d360" <= char <= "\U0001d37f"
    return 2 if wide else 1


def text_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(char_width, text))


def clip(text: str, width: int) -> str:
    """The text, or as much of its beginning as fits in `width` columns together with `…`."""
    if width <= 0:
        return ""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + ELLIPSIS
    used = 0
    fits = 0
    for index, char in enumerate(text):
        used += char_width(char)
        if used <= width - 1:
            fits = index + 1
        elif used > width:
            return text[:fits] + ELLIPSIS
    return text


def clip_middle(text: str, limit: int) -> str:
    """At most `limit` characters: the beginning, how many are hidden, and the end."""
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    hidden_at_most = _hidden(len(text))
    room = limit - len(hidden_at_most)
    if room < 2:
        return _ends(text, limit - 1, ELLIPSIS)
    return _ends(text, room, _hidden(len(text) - room))


def fingerprint(text: str) -> str:
    """Length and digest of a text, to show beside a cut one."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{len(text):,} characters, sha256 {digest}"


def _hidden(count: int) -> str:
    return f"{ELLIPSIS}[{count:,} characters hidden]{ELLIPSIS}"


def _ends(text: str, room: int, marker: str) -> str:
    tail = room // 2
    return text[: room - tail] + marker + (text[-tail:] if tail else "")
