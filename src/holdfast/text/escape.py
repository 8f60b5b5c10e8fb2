r"""Escapes untrusted text for display: control, invisible and bidi characters, excess combining marks.

Nothing is dropped. A character is escaped as `‹\x1b›` or `‹\u{202e}›`, a run of the same one as `‹\xa0×5000›`, and a
long run of spaces as `‹␠×400›`. Only `‹` starts an escape, and a `‹` in the text is itself escaped, so a literal `\x1b`
is not mistaken for one. Escape once, where text is displayed: escaping twice escapes the escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from itertools import groupby
from typing import Final
from unicodedata import category, combining, east_asian_width, normalize
from urllib.parse import urlsplit

ELLIPSIS: Final = "…"
CHARS_PER_COLUMN: Final = 5
"""A letter with as many combining marks as `escape` leaves on it."""


def char_width(char: str) -> int:
    """Return the maximum number of terminal columns of a character: 2 for wide characters and for symbols, on which
    terminals disagree, 0 for combining characters."""
    kind = category(char)
    if kind in ("Mn", "Me", "Cf"):
        return 0
    wide = kind == "So" or east_asian_width(char) in ("W", "F") or "\U0001d360" <= char <= "\U0001d37f"
    return 2 if wide else 1


def text_width(text: str) -> int:
    return len(text) if text.isascii() else sum(map(char_width, text))


def clip(text: str, width: int) -> str:
    """Return the text, or the beginning of it that fits in `width` columns with `…`.

    It has at most `CHARS_PER_COLUMN` characters per column, because characters without a width would fit without end.
    """
    if width <= 0:
        return ""
    if text.isascii():
        return text if len(text) <= width else text[: width - 1] + ELLIPSIS
    used = 0
    fits = 0
    most = width * CHARS_PER_COLUMN
    for index, char in enumerate(text):
        used += char_width(char)
        if used > width or index >= most:
            return text[:fits] + ELLIPSIS
        if used <= width - 1 and index < most - 1:
            fits = index + 1
    return text


def clip_escaped(text: str, width: int) -> str:
    """Escape to a single line, of which the beginning is shown in `width` columns. A long text is not read to its
    end."""
    start = text[: width * CHARS_PER_COLUMN]
    shown = escape(start)
    return clip(shown if len(start) == len(text) else shown + ELLIPSIS, width)


def clip_middle(text: str, limit: int) -> str:
    """Return at most `limit` characters: the beginning, the number of hidden characters, and the end."""
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    hidden_at_most = _hidden_note(len(text))
    room = limit - len(hidden_at_most)
    if room < 2:
        return _join_ends(text, limit - 1, ELLIPSIS)
    return _join_ends(text, room, _hidden_note(len(text) - room))


def fingerprint(text: str) -> str:
    """Return the length and digest of a text, to display with a truncated one."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{len(text):,} characters, sha256 {digest}"


def _hidden_note(count: int) -> str:
    return f"{ELLIPSIS}[{count:,} characters hidden]{ELLIPSIS}"


def _join_ends(text: str, room: int, marker: str) -> str:
    tail = room // 2
    return text[: room - tail] + marker + (text[-tail:] if tail else "")


NEWLINE: Final = "↵"
_OPEN: Final = "‹"
_CLOSE: Final = "›"
_NAMED: Final = {"\t": "\\t", "\r": "\\r"}

_INVISIBLE: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u303f\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef"
)
"""Printable according to Unicode, but invisible: fillers, variation selectors, the empty braille cell."""
_MAX_MARKS: Final = 4
"""More combining marks on one letter overlap the neighbouring lines."""
_MAX_SPACES: Final = 8
"""Longer runs of spaces are escaped: they can push text out of view."""

# Patterns for rare cases are compiled on first use, to save start-up time.
_ALWAYS_ESCAPED: Final = f"[{_OPEN}{_INVISIBLE}]"
_MANY_SPACES: Final = " " * (_MAX_SPACES + 1)
_NOT_ASCII: Final = re.compile("[^ -~]+")
_NOT_ASCII_IN_BLOCK: Final = re.compile("[^\n\t -~]+")

_ESCAPE_PATTERN: Final = r"(‹(?:\\(?:[tr]|x[0-9a-f]{2}|u\{[0-9a-f]{1,6}\})|␠)(?:×[0-9]+)?›|↵|‹↩›)"
"""An escape, or the mark of a newline or of a wrapped line."""

_PLAIN_URL: Final = (
    r"(?:https?|wss?|ftp)://"
    r"(?=[^/?#:]{1,40}(?:[/?#:]|\Z))(?![^/?#:]*xn--)"
    r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?"
    r"(?::[0-9]{1,5})?(?:[/?#][!-~]*)?"
)
_AUTHORITY: Final = r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)"
_READABLE_HOST: Final = r"[a-z0-9._-]+|\[[0-9a-f:.]+\]"
_HOST_CHARS: Final = 60
"""A longer host loses its beginning: the registered domain is at its end."""


def escape(text: str, *, newline: str = NEWLINE) -> str:
    """Escape to a single line of visible characters; newlines become `newline`."""
    if not (text.isascii() and text.isprintable()):
        text = _NOT_ASCII.sub(lambda found: _escape_run(found, newline), text)
    return re.sub(f"{_MANY_SPACES}+", _count_spaces, text) if _MANY_SPACES in text else text


def escape_name(text: str) -> str:
    """Escape a name for use inside a sentence; quoted if it contains spaces or non-ASCII characters."""
    return text if text.isascii() and text.isprintable() and text and " " not in text else f"'{escape(text)}'"


def escape_block(text: str) -> str:
    """Escape multi-line text, such as tool output. Newlines, tabs and runs of spaces stay."""
    return _NOT_ASCII_IN_BLOCK.sub(lambda found: _escape_run(found, "\n"), text)


def escape_once(text: str) -> str:
    """Like `escape`, for text of which parts are already escaped: existing escapes stay. The text can fake an escape,
    but cannot hide a character."""
    return (
        text if text.isascii() and text.isprintable() and _MANY_SPACES not in text else _escape_unescaped(text, escape)
    )


def escape_block_once(text: str) -> str:
    """Like `escape_once`, for multi-line text."""
    return _escape_unescaped(text, escape_block)


def _escape_unescaped(text: str, show: Callable[[str], str]) -> str:
    return "".join(part if place % 2 else show(part) for place, part in enumerate(re.split(_ESCAPE_PATTERN, text)))


def escape_url(url: str) -> str:
    """Escape a URL and prefix it with `[host: …]` in punycode, unless the host is unambiguous.

    Unambiguous means: a lower-case ASCII name of at most 40 characters after a common scheme, without user info, not
    punycode and not a number. If programs may disagree about the host, the prefix is `[no clear host]`.
    """
    if re.fullmatch(_PLAIN_URL, url):
        return url
    host = _clear_host(url)
    return f"{f'[host: {host}]' if host else '[no clear host]'} {escape(url)}"


def _clear_host(url: str) -> str | None:
    found = re.match(_AUTHORITY, url)
    if found is None or not found[1].isprintable() or set(found[1]) & set(" \\%"):
        return None
    try:
        host = _punycode(urlsplit(url).hostname or "")
    except ValueError:
        return None
    if found[1].rpartition("@")[2].startswith("["):
        host = f"[{host}]"
    if not re.fullmatch(_READABLE_HOST, host):
        return None
    return host if len(host) <= _HOST_CHARS else "…" + host[-_HOST_CHARS:]


def _punycode(host: str) -> str:
    labels = normalize("NFKC", host).lower().replace("。", ".").split(".")
    return ".".join(label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels)


def _count_spaces(found: re.Match[str]) -> str:
    return f"{_OPEN}␠×{len(found[0])}{_CLOSE}"


def _escape_run(found: re.Match[str], newline: str) -> str:
    """Escape a run without printable ASCII. The character before the run can be the base of a leading mark."""
    run = found[0]
    if newline not in run and all(_is_unmarked(char) for char in set(run)):
        return run
    base, marks = found.string[found.start() - 1 : found.start()].strip(), 0
    shown: list[str] = []
    for char, group in groupby(run):
        count = sum(1 for _ in group)
        if char == "\n":
            shown.append(newline * count)
            base = ""
        elif _is_mark(char):
            kept = max(0, min(count, _MAX_MARKS - marks)) if _can_carry(base, char) else 0
            shown.append(char * kept + _escape_char(char, 1) * (count - kept))
            base, marks = base if kept == count else "", marks + count
        elif char != newline and _is_visible(char):
            shown.append(char * count)
            base, marks = char, 0
        else:
            shown.append(_escape_char(char, count))
            base = ""
    return "".join(shown)


@lru_cache(4096)
def _is_unmarked(char: str) -> bool:
    return _is_visible(char) and not _is_mark(char)


def _is_visible(char: str) -> bool:
    return char.isprintable() and not re.match(_ALWAYS_ESCAPED, char)


def _is_mark(char: str) -> bool:
    """Whether a character combines with the one before it: combining marks, Hangul vowels and finals."""
    if "\u1161" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7fb":
        return char.isprintable()
    return category(char) in ("Mn", "Me", "Mc") and _is_visible(char)


def _can_carry(base: str, mark: str) -> bool:
    """Whether terminals draw the mark on the base: an accent on any narrow letter, other marks on letters of the same
    script. Otherwise terminals drop the mark, or the character after it."""
    if not base:
        return False
    return ord(base) >> 8 == ord(mark) >> 8 or (combining(mark) > 0 and char_width(base) == 1)


def _escape_char(char: str, count: int) -> str:
    code = ord(char)
    shown = _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}")
    return f"{_OPEN}{shown}{f'×{count}' if count > 1 else ''}{_CLOSE}"
