"""Syntax of the text protocol: tags, short tool names, parsed pieces, and the bodies of blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, cast

from msgspec import Struct

from holdfast.contract.json import Args

TOOLS: Final[dict[str, str]] = {
    "read_file": "file.read",
    "list_dir": "file.list",
    "search_code": "code.search",
    "git_status": "git.status",
    "git_diff": "git.diff",
    "git_log": "git.log",
    "write_file": "file.write",
    "edit_file": "file.edit",
}
"""Short names used in prompts, and the tools they stand for."""
_SHORT_NAMES: Final = {tool: name for name, tool in TOOLS.items()}

INLINE: Final = ("read_file", "list_dir", "search_code", "write_file")
"""Calls written as one bracket with an argument."""
STATIC: Final = ("git_status", "git_diff", "git_log")
BLOCKS: Final = ("write_file", "edit_file", "search_code")
WRITE_EMPTY: Final = "[write_file:"
"""The opening of the only bracket form that also exists as a block."""
CALL: Final = "[call:"
"""The opening of the generic form, which works for any tool."""
CALL_END: Final = "[/call]"
CONTENT: Final = "---content---"
FRAMES: Final = ("=== tool_result:", "=== tool_error:")
"""The openings of result frames. Only the runtime writes them."""
TAGS: Final[tuple[str, ...]] = (
    *(f"[{name}:" for name in INLINE),
    *(f"[{name}]" for name in (*STATIC, *BLOCKS)),
    *(f"[/{name}]" for name in BLOCKS),
    CALL,
    CALL_END,
)
ANY_TAG: Final = (
    rf"\[(?:(?:{'|'.join(INLINE)}):|(?:{'|'.join((*STATIC, *BLOCKS))})\]|call:|/(?:{'|'.join((*BLOCKS, 'call'))})\])"
)
ANY_FRAME: Final = r"=== tool_(?:result|error):"
BLANKS: Final = " \t\r\f\v\N{NO-BREAK SPACE}"
"""White space within a line."""


class TextPiece(Struct, frozen=True):
    """Text between calls."""

    text: str


class TextCall(Struct, frozen=True):
    """A call in a reply."""

    name: str
    """The tool's full name for a short name, else the name in `[call: NAME]`."""
    args: Args
    text: str
    """As the model wrote it."""


class ProblemKind(StrEnum):
    UNOPENED = "unopened"
    UNCLOSED = "unclosed"
    UNREADABLE = "unreadable"
    """An ambiguous or malformed block."""
    UNREADABLE_EDIT = "unreadable_edit"
    OPEN_FENCE = "open_fence"
    """A fence that is never closed and contains a tag or follows a call."""
    FABRICATED = "fabricated"
    """A result that the model wrote itself."""


class SyntaxProblem(Struct, frozen=True):
    kind: ProblemKind
    tag: str
    line: int
    """The line of the tag or fence, from 1."""


def short_name(tool: str) -> str:
    """Return the short name of a tool, or its full name if it has none."""
    return _SHORT_NAMES.get(tool, tool)


_TOKEN_PREFIXES: Final = frozenset(
    word[:size] for word in (*TAGS, *FRAMES, "```", "~~~") for size in range(1, len(word))
)
_MAX_PREFIX: Final = max(map(len, _TOKEN_PREFIXES))
_TOKEN_START: Final = re.compile(r"[\[`~=]")


def incomplete_token_start(text: str) -> int:
    """Return the start of a token that the end of the text truncates, else the length of the text."""
    at = max(0, len(text) - _MAX_PREFIX)
    while found := _TOKEN_START.search(text, at):
        if text[found.start() :] in _TOKEN_PREFIXES:
            return found.start()
        at = found.end()
    return len(text)


_SEARCH: Final = "---search---"
_REPLACE: Final = "---replace---"
# Within a line, a delimiter follows a blank, else it is part of a name. `re` is faster with the lookbehind last.
_CONTENT: Final = rf"{CONTENT}(?<!\S{CONTENT})"
_CANONICAL: Final = rf"^[ \t]*+{_SEARCH}|{_SEARCH}(?<!\S{_SEARCH})|^{_REPLACE}"
_CONFLICT_START: Final = r"^<{7}(?!<)"
_LABELS: Final = r"^[ \t]*+(?i:old content|new content):"
_WORDS: Final = r"^[ \t]*+---(?=[^\n]*\w)(?:(?!---)[^\n])++---[ \t]*+\r?$"

DELIMITERS: Final[dict[str, str]] = {
    "write_file": _CONTENT,
    "edit_file": rf"{_CANONICAL}|{_CONFLICT_START}|{_LABELS}|{_WORDS}",
    "call": "(?!)",
}
"""Patterns that end a block's header; `call` has no body besides its object."""

_CONTENT_MARK: Final = re.compile(_CONTENT)
_FIRST: Final = re.compile(
    rf"(?P<canonical>{_CANONICAL})|(?P<conflict>{_CONFLICT_START})|(?P<labelled>{_LABELS})|(?P<worded>{_WORDS})",
    re.MULTILINE,
)
_REPLACE_LINE: Final = re.compile(rf"^{_REPLACE}", re.MULTILINE)
_CANONICAL_LINE: Final = re.compile(rf"^[ \t]*+(?:{_SEARCH}|{_REPLACE})[ \t]*+\r?$", re.MULTILINE)
_CONFLICT_LINE: Final = re.compile(
    rf"{_CONFLICT_START}[^\n]*+$|^={{7}}[ \t]*+\r?$|^>{{7}}(?!>)[^\n]*+$|^\|{{7}}(?!\|)", re.MULTILINE
)
_LABEL: Final = re.compile(rf"{_LABELS}[ \t]*+", re.MULTILINE)
_WORDS_LINE: Final = re.compile(_WORDS, re.MULTILINE)
_LINE_END: Final = re.compile(r"[ \t]*+\r?\n")
_BLANK_LINE: Final = re.compile(r"^[ \t]*+\r?\n", re.MULTILINE)
_FOREIGN: Final = re.compile(rf"{ANY_TAG}|```|~~~|{ANY_FRAME}")
_CLOSING_LIKE: Final = re.compile(r"\[[ \t]*+/|edit_file|---[ \t]*+\Z")
_QUERY_LABEL: Final = re.compile(r"\A(?:pattern|query)[=:]")

_EditTexts = tuple[slice, slice]
"""The slices of the search text and the replacement."""


def parse_query(inner: str) -> str:
    """Return the first non-blank line without its label; empty if there is none."""
    queries = (_QUERY_LABEL.sub("", line.strip(), count=1).strip() for line in inner.split("\n"))
    return next(filter(None, queries), "")


def parse_write(inner: str) -> Args | None:
    delimiter = _CONTENT_MARK.search(inner)
    path = _header_path(inner[: delimiter.start()]) if delimiter else ""
    return {"path": path, "content": _trim_body(inner[delimiter.end() :])} if path and delimiter else None


def parse_edit(inner: str, nested: Iterable[tuple[int, int]]) -> Args | None:
    """Parse an edit in the form of its first delimiter; None if it is malformed or its boundaries are ambiguous."""
    plain = _blank_out(inner, nested)
    first = _FIRST.search(plain)
    path = _header_path(inner[: first.start()]) if first else ""
    found = _edit_texts(plain, first) if first else None
    return _edit_arguments(inner, path, found) if found and path else None


def parse_unclosed_edit(inner: str) -> Args | None:
    """Parse an edit whose closing tag is missing at the end of the reply; None unless the end of its texts is certain.

    Both texts must be there. A tag, fence or frame may begin something else, the last line may be a misspelt closing
    tag, and a blank line in the replacement may separate it from an explanation, unless a conflict marker closes it.
    """
    inner = inner.rstrip("\r\n")
    if _FOREIGN.search(inner) or _CLOSING_LIKE.search(inner.rpartition("\n")[2]):
        return None
    first = _FIRST.search(inner)
    path = _header_path(inner[: first.start()]) if first else ""
    found = _edit_texts(inner, first) if first else None
    if found is None or not path:
        return None
    search, replace = (inner[each] for each in found)
    if not search.strip() or not replace.strip():
        return None
    args, closed = _edit_arguments(inner, path, found), found[1].stop is not None
    return args if closed or not _BLANK_LINE.search(cast(str, args["replace"])) else None


def _edit_arguments(inner: str, path: str, texts: _EditTexts) -> Args:
    search, replace = texts
    # Drop a blank line before the second delimiter from the search text: replacing it would join two lines.
    wanted = _without_newline(_trim_body(inner[search]))
    return {"path": path, "search": wanted, "replace": _trim_body(inner[replace]), "mode": "first"}


def _blank_out(inner: str, nested: Iterable[tuple[int, int]]) -> str:
    """Blank out nested blocks, so that their delimiters are ignored."""
    parts: list[str] = []
    at = 0
    for start, end in nested:
        parts += (inner[at:start], " " * (end - start))
        at = end
    return "".join((*parts, inner[at:])) if parts else inner


def _edit_texts(plain: str, first: re.Match[str]) -> _EditTexts | None:
    if first.lastgroup == "canonical":
        return _canonical_texts(plain, first)
    if _CANONICAL_LINE.search(plain):
        return None
    match first.lastgroup:
        case "conflict":
            return _between_delimiters(plain, _CONFLICT_LINE, "<=>", "<=")
        case "labelled":
            return _between_delimiters(plain, _LABEL, "on")
        case _:
            return _between_delimiters(plain, _WORDS_LINE, "--")


def _canonical_texts(plain: str, first: re.Match[str]) -> _EditTexts | None:
    """Without `---search---` the search text is empty, which the tool rejects with an explanation."""
    start = first.end() if first[0].endswith(_SEARCH) else None
    replace = first if start is None else _REPLACE_LINE.search(plain, start)
    if replace is None:
        return None
    for line in _CANONICAL_LINE.finditer(plain, first.end()):
        if not line.start() <= replace.start() < line.end():
            return None
    return slice(start or 0, replace.start() if start else 0), slice(replace.end(), None)


def _between_delimiters(plain: str, delimiter: re.Pattern[str], *initials: str) -> _EditTexts | None:
    """Return the texts after the first two delimiters, if the initials of all delimiters equal one of `initials`."""
    found = list(delimiter.finditer(plain))
    if "".join(each[0].lstrip()[0].lower() for each in found) not in initials:
        return None
    first, second, *last = found
    if last and plain[last[0].end() :].strip():
        return None
    return slice(first.end(), second.start()), slice(second.end(), last[0].start() if last else None)


def _header_path(header: str) -> str:
    path = ""
    for line in header.split("\n"):
        key, colon, value = line.partition(":")
        if colon and key.strip() == "path":
            path = value.strip()
    return path


def _trim_body(body: str) -> str:
    """Remove the rest of the delimiter's line and the one newline before the next delimiter."""
    line_end = _LINE_END.match(body)
    return _without_newline(body[line_end.end() :] if line_end else body)


def _without_newline(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
