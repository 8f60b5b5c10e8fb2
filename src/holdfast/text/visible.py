"""Text made safe to look at: whatever a terminal would obey, hide or reorder is written out, and nothing is dropped.

A hidden character is shown as `‹\\x1b›` or `‹\\u{202e}›`, a run of the same one as `‹\\xa0×5000›`. Only `‹` opens an
escape, and a `‹` of the text's own is itself escaped, so a literal `\\x1b` stays as it is and is not taken for one.
Escape once, at the place where text is shown: escaping twice escapes the escapes.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

NEWLINE: Final = "↵"
_OPEN: Final = "‹"
_CLOSE: Final = "›"
_NAMED: Final = {"\t": "\\t", "\r": "\\r"}

_BLANK: Final = (
    "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef"
)
"""Printable to Unicode, yet nothing is seen: fillers, variation selectors, the empty braille cell."""
_MARK: Final = (
    "[\u0300-\u034e\u0350-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1ace\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f]"
)
_MARKS_KEPT: Final = 4
"""More combining marks than this on one letter paint over the neighbouring lines."""

# The patterns for what is rare are compiled when they are first needed: most text is plain, and start-up is counted.
_ODD: Final = f"[{_OPEN}{_BLANK}]|{_MARK}{{{_MARKS_KEPT + 1}}}"
_PIECE: Final = f"(?s)({_MARK}{{{_MARKS_KEPT}}})({_MARK}+)|(.)\\3*"
_NOT_ASCII: Final = re.compile("[^ -~]+")
_NOT_ASCII_IN_BLOCK: Final = re.compile("[^\n\t -~]+")

_PLAIN_URL: Final = (
    r"(?:https?|wss?|ftp)://"
    r"(?=[^/?#:]{1,40}(?:[/?#:]|\Z))(?![^/?#:]*xn--)"
    r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?"
    r"(?::[0-9]{1,5})?(?:[/?#][!-~]*)?"
)
_AUTHORITY: Final = r"[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)"
_READABLE_HOST: Final = r"[a-z0-9._-]+|\[[0-9a-f:.]+\]"
_HOST_CHARS: Final = 60
"""A longer host is cut at its front: who owns it stands at its end."""


def visible(text: str, *, newline: str = NEWLINE) -> str:
    """One line in which every character can be seen; a newline is shown as `newline`."""
    if text.isprintable() and (text.isascii() or not (re.search(_ODD, text) or newline in text)):
        return text
    return _NOT_ASCII.sub(lambda found: _show_run(found[0], newline), text)


def visible_block(text: str) -> str:
    """The same for text of several lines: newlines and tabs stay, all else that cannot be seen is written out."""
    return _NOT_ASCII_IN_BLOCK.sub(lambda found: _show_run(found[0], "\n"), text)


def visible_url(url: str) -> str:
    """The address as `visible` shows it, led by `[host: …]` in punycode unless its host cannot be misread.

    That is: a lower-case ASCII name of at most 40 characters after a common scheme, no user part, no punycode, no
    number in place of the name. Where programs disagree about what the host is, it says `[no clear host]`.
    """
    if re.fullmatch(_PLAIN_URL, url):
        return url
    host = _host(url)
    return f"{f'[host: {host}]' if host else '[no clear host]'} {visible(url)}"


def _host(url: str) -> str | None:
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
    from unicodedata import normalize

    labels = normalize("NFKC", host).lower().replace("。", ".").split(".")
    return ".".join(label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels)


def _show_run(run: str, newline: str) -> str:
    if run.isprintable() and not re.search(_ODD, run) and newline not in run:
        return run
    return re.sub(_PIECE, lambda piece: _show_piece(piece, newline), run)


def _show_piece(piece: re.Match[str], newline: str) -> str:
    if piece[2]:
        return piece[1] + "".join(_escape(mark, 1) for mark in piece[2])
    char, count = piece[3], len(piece[0])
    if char == "\n":
        return newline * count
    plain = char.isprintable() and char != newline and not re.match(_ODD, char)
    return piece[0] if plain else _escape(char, count)


def _escape(char: str, count: int) -> str:
    code = ord(char)
    shown = _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}")
    return f"{_OPEN}{shown}{f'×{count}' if count > 1 else ''}{_CLOSE}"
