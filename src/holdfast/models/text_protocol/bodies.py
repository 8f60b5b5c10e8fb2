"""Reads what is written between the tags of a block: path, delimiters and texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from holdfast.contract.values import Args

CONTENT: Final = "---content---"
SEARCH: Final = "---search---"
REPLACE: Final = "---replace---"
_OURS: Final = r"^<{7}(?!<)"
_OLD: Final = r"^[ \t]*+(?i:old content):"
_NEW: Final = r"^[ \t]*+(?i:new content):"
_WORDS: Final = r"^[ \t]*+---(?=[^\n]*\w)(?:(?!---)[^\n])++---[ \t]*+\r?$"

DELIMITERS: Final[dict[str, str]] = {
    "write_file": CONTENT,
    "edit_file": rf"{SEARCH}|^{REPLACE}|{_OURS}|{_OLD}|{_WORDS}",
    "call": "(?!)",
}
"""What ends the header of a block, as a pattern; a `call` has no body but its object."""

_REPLACE_LINE: Final = re.compile(rf"^{REPLACE}", re.MULTILINE)
_CANONICAL_LINE: Final = re.compile(rf"^[ \t]*+(?:{SEARCH}|{REPLACE})[ \t]*+\r?$", re.MULTILINE)
_CONFLICT: Final = re.compile(rf"{_OURS}[^\n]*+$|^={{7}}[ \t]*+\r?$|^>{{7}}(?!>)[^\n]*+$", re.MULTILINE)
_LABEL: Final = re.compile(rf"(?:{_OLD}|{_NEW})[ \t]*+", re.MULTILINE)
_WORDS_LINE: Final = re.compile(_WORDS, re.MULTILINE)
_QUERY_LABEL: Final = re.compile(r"(?:pattern|query)[=:]")

_Found = tuple[int, slice, slice]
"""Where the header ends, and where the two texts are."""


def read_query(inner: str) -> str:
    """The first line that says something; empty if none does."""
    line = inner.strip().partition("\n")[0].strip()
    label = _QUERY_LABEL.match(line)
    return line[label.end() :].strip() if label else line


def read_write(inner: str) -> Args | None:
    header, delimiter, body = inner.partition(CONTENT)
    path = _path(header)
    return {"path": path, "content": _trim(body)} if path and delimiter else None


def read_edit(inner: str, nested: Iterable[tuple[int, int]]) -> Args | None:
    """The first form that fits; None if there is none, or if it is not clear where its texts end."""
    plain = _without(inner, nested)
    if SEARCH in plain or _REPLACE_LINE.search(plain):
        found = _canonical(plain)
    else:
        found = _conflict(plain) or _labelled(plain) or _worded(plain)
    path = _path(inner[: found[0]]) if found else ""
    if found is None or not path:
        return None
    _, search, replace = found
    return {"path": path, "search": _trim(inner[search]), "replace": _trim(inner[replace]), "mode": "first"}


def _without(inner: str, nested: Iterable[tuple[int, int]]) -> str:
    """Delimiters of blocks that lie in the texts are not ours."""
    parts: list[str] = []
    at = 0
    for start, end in nested:
        parts += (inner[at:start], " " * (end - start))
        at = end
    return "".join((*parts, inner[at:])) if parts else inner


def _canonical(plain: str) -> _Found | None:
    """Without `---search---` the search text is empty, about which the tool has something to say."""
    start = plain.find(SEARCH)
    replace = _REPLACE_LINE.search(plain, max(start, 0))
    if replace is None:
        return None
    search = slice(start + len(SEARCH), replace.start()) if start >= 0 else slice(0)
    for line in _CANONICAL_LINE.finditer(plain, max(search.start or 0, 0)):
        if not line.start() <= replace.start() < line.end():
            return None
    return (start if start >= 0 else replace.start()), search, slice(replace.end(), None)


def _conflict(plain: str) -> _Found | None:
    lines = list(_CONFLICT.finditer(plain))
    if [line[0][0] for line in lines] != ["<", "=", ">"] or plain[lines[2].end() :].strip():
        return None
    ours, middle, theirs = lines
    return ours.start(), slice(ours.end(), middle.start()), slice(middle.end(), theirs.start())


def _labelled(plain: str) -> _Found | None:
    labels = list(_LABEL.finditer(plain))
    if [label[0].strip()[0].lower() for label in labels] != ["o", "n"]:
        return None
    old, new = labels
    return old.start(), slice(old.end(), new.start()), slice(new.end(), None)


def _worded(plain: str) -> _Found | None:
    lines = list(_WORDS_LINE.finditer(plain))
    if len(lines) != 2:
        return None
    first, second = lines
    return first.start(), slice(first.end(), second.start()), slice(second.end(), None)


def _path(header: str) -> str:
    path = ""
    for line in header.split("\n"):
        key, colon, value = line.partition(":")
        if colon and key.strip() == "path":
            path = value.strip()
    return path


def _trim(body: str) -> str:
    """Without the one newline that ends the line of a delimiter, and the one before the next."""
    body = body[2:] if body.startswith("\r\n") else body.removeprefix("\n")
    return body[:-2] if body.endswith("\r\n") else body.removesuffix("\n")
