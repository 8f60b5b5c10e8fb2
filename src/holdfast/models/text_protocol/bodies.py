"""Reads what is written between the tags of a block: path, delimiters and texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from holdfast.contract.values import Args
from holdfast.models.text_protocol.grammar import CONTENT

_SEARCH: Final = "---search---"
_REPLACE: Final = "---replace---"
# In the middle of a line a delimiter has a blank before it: else it is part of a name. `re` is faster if told so last.
_CONTENT: Final = rf"{CONTENT}(?<!\S{CONTENT})"
_CANONICAL: Final = rf"^[ \t]*+{_SEARCH}|{_SEARCH}(?<!\S{_SEARCH})|^{_REPLACE}"
_OURS: Final = r"^<{7}(?!<)"
_LABELS: Final = r"^[ \t]*+(?i:old content|new content):"
_WORDS: Final = r"^[ \t]*+---(?=[^\n]*\w)(?:(?!---)[^\n])++---[ \t]*+\r?$"

DELIMITERS: Final[dict[str, str]] = {
    "write_file": _CONTENT,
    "edit_file": rf"{_CANONICAL}|{_OURS}|{_LABELS}|{_WORDS}",
    "call": "(?!)",
}
"""What ends the header of a block, as a pattern; a `call` has no body but its object."""

_CONTENT_MARK: Final = re.compile(_CONTENT)
_FIRST: Final = re.compile(
    rf"(?P<canonical>{_CANONICAL})|(?P<conflict>{_OURS})|(?P<labelled>{_LABELS})|(?P<worded>{_WORDS})", re.MULTILINE
)
_REPLACE_LINE: Final = re.compile(rf"^{_REPLACE}", re.MULTILINE)
_CANONICAL_LINE: Final = re.compile(rf"^[ \t]*+(?:{_SEARCH}|{_REPLACE})[ \t]*+\r?$", re.MULTILINE)
_CONFLICT_LINE: Final = re.compile(
    rf"{_OURS}[^\n]*+$|^={{7}}[ \t]*+\r?$|^>{{7}}(?!>)[^\n]*+$|^\|{{7}}(?!\|)", re.MULTILINE
)
_LABEL: Final = re.compile(rf"{_LABELS}[ \t]*+", re.MULTILINE)
_WORDS_LINE: Final = re.compile(_WORDS, re.MULTILINE)
_LINE_END: Final = re.compile(r"[ \t]*+\r?\n")
_QUERY_LABEL: Final = re.compile(r"(?:pattern|query)[=:]")

_Texts = tuple[slice, slice]
"""Where the text to find and the one to put there are."""


def read_query(inner: str) -> str:
    """The first line that says something; empty if none does."""
    line = inner.strip().partition("\n")[0].strip()
    label = _QUERY_LABEL.match(line)
    return line[label.end() :].strip() if label else line


def read_write(inner: str) -> Args | None:
    delimiter = _CONTENT_MARK.search(inner)
    path = _path(inner[: delimiter.start()]) if delimiter else ""
    return {"path": path, "content": _trim(inner[delimiter.end() :])} if path and delimiter else None


def read_edit(inner: str, nested: Iterable[tuple[int, int]]) -> Args | None:
    """In the form its first delimiter belongs to; None if it does not fit, or if it is not clear where a text ends."""
    plain = _without(inner, nested)
    first = _FIRST.search(plain)
    path = _path(inner[: first.start()]) if first else ""
    found = _texts(plain, first) if first else None
    if found is None or not path:
        return None
    search, replace = found
    return {"path": path, "search": _trim(inner[search]), "replace": _trim(inner[replace]), "mode": "first"}


def _without(inner: str, nested: Iterable[tuple[int, int]]) -> str:
    """Blanks instead of the blocks that lie in the texts: their delimiters are not ours."""
    parts: list[str] = []
    at = 0
    for start, end in nested:
        parts += (inner[at:start], " " * (end - start))
        at = end
    return "".join((*parts, inner[at:])) if parts else inner


def _texts(plain: str, first: re.Match[str]) -> _Texts | None:
    if first.lastgroup == "canonical":
        return _canonical(plain, first)
    if _CANONICAL_LINE.search(plain):
        return None
    match first.lastgroup:
        case "conflict":
            return _between(plain, _CONFLICT_LINE, "<=>")
        case "labelled":
            return _between(plain, _LABEL, "on")
        case _:
            return _between(plain, _WORDS_LINE, "--")


def _canonical(plain: str, first: re.Match[str]) -> _Texts | None:
    """Without `---search---` the search text is empty, about which the tool has something to say."""
    start = first.end() if first[0].endswith(_SEARCH) else None
    replace = first if start is None else _REPLACE_LINE.search(plain, start)
    if replace is None:
        return None
    for line in _CANONICAL_LINE.finditer(plain, first.end()):
        if not line.start() <= replace.start() < line.end():
            return None
    return slice(start or 0, replace.start() if start else 0), slice(replace.end(), None)


def _between(plain: str, delimiter: re.Pattern[str], initials: str) -> _Texts | None:
    """The texts behind the first two delimiters, if there are exactly those with these initials."""
    found = list(delimiter.finditer(plain))
    if "".join(each[0].lstrip()[0].lower() for each in found) != initials:
        return None
    first, second, *last = found
    if last and plain[last[0].end() :].strip():
        return None
    return slice(first.end(), second.start()), slice(second.end(), last[0].start() if last else None)


def _path(header: str) -> str:
    path = ""
    for line in header.split("\n"):
        key, colon, value = line.partition(":")
        if colon and key.strip() == "path":
            path = value.strip()
    return path


def _trim(body: str) -> str:
    """Without the end of the delimiter's line, and without the one newline before the next delimiter."""
    line_end = _LINE_END.match(body)
    body = body[line_end.end() :] if line_end else body
    return body[:-2] if body.endswith("\r\n") else body.removesuffix("\n")
