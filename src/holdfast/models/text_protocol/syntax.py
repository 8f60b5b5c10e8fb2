"""The words of the text protocol, what a reply is made of, and what is written between the tags of a block."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

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
"""The small names models know, and the tool each stands for."""
_SHORT_NAMES: Final = {tool: name for name, tool in TOOLS.items()}

INLINE: Final = ("read_file", "list_dir", "search_code", "write_file")
"""Written with their argument, in one bracket."""
STATIC: Final = ("git_status", "git_diff", "git_log")
BLOCKS: Final = ("write_file", "edit_file", "search_code")
WRITE_EMPTY: Final = "[write_file:"
"""Opens the one bracket that is also a block."""
CALL: Final = "[call:"
"""Opens the form any tool can be called with."""
CALL_END: Final = "[/call]"
CONTENT: Final = "---content---"
FRAMES: Final = ("=== tool_result:", "=== tool_error:")
"""How results begin. Only the runtime writes them."""
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
"""White space that does not end a line."""


class TextPiece(Struct, frozen=True):
    """Text that is no call."""

    text: str


class TextCall(Struct, frozen=True):
    """A call."""

    name: str
    """The tool's own name for the small names, else what `[call: NAME]` says."""
    args: Args
    text: str
    """As it was written."""


class ProblemKind(StrEnum):
    UNOPENED = "unopened"
    UNCLOSED = "unclosed"
    UNREADABLE = "unreadable"
    """A block whose meaning is not clear."""
    UNREADABLE_EDIT = "unreadable_edit"
    OPEN_FENCE = "open_fence"
    """A fence that is never closed, and holds a tag or comes after a call."""
    FABRICATED = "fabricated"
    """A result the model wrote itself."""


class SyntaxProblem(Struct, frozen=True):
    kind: ProblemKind
    tag: str
    line: int
    """Where the tag is, or the fence; from 1."""


def short_name(tool: str) -> str:
    """The name a small model knows the tool by, or the tool's own name where it has no other."""
    return _SHORT_NAMES.get(tool, tool)


_TOKEN_PREFIXES: Final = frozenset(
    word[:size] for word in (*TAGS, *FRAMES, "```", "~~~") for size in range(1, len(word))
)
_MAX_PREFIX: Final = max(map(len, _TOKEN_PREFIXES))
_TOKEN_START: Final = re.compile(r"[\[`~=]")


def incomplete_token_start(text: str) -> int:
    """Where a word of the grammar begins that the end of the text cuts; else where the text ends."""
    at = max(0, len(text) - _MAX_PREFIX)
    while found := _TOKEN_START.search(text, at):
        if text[found.start() :] in _TOKEN_PREFIXES:
            return found.start()
        at = found.end()
    return len(text)


_SEARCH: Final = "---search---"
_REPLACE: Final = "---replace---"
# In the middle of a line a delimiter has a blank before it: else it is part of a name. `re` is faster if told so last.
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
"""What ends the header of a block, as a pattern; a `call` has no body but its object."""

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
_QUERY_LABEL: Final = re.compile(r"\A(?:pattern|query)[=:]")

_EditTexts = tuple[slice, slice]
"""Where the text to find and the one to put there are."""


def parse_query(inner: str) -> str:
    """The first line that says something, without its label; empty if none does."""
    queries = (_QUERY_LABEL.sub("", line.strip(), count=1).strip() for line in inner.split("\n"))
    return next(filter(None, queries), "")


def parse_write(inner: str) -> Args | None:
    delimiter = _CONTENT_MARK.search(inner)
    path = _header_path(inner[: delimiter.start()]) if delimiter else ""
    return {"path": path, "content": _trim_body(inner[delimiter.end() :])} if path and delimiter else None


def parse_edit(inner: str, nested: Iterable[tuple[int, int]]) -> Args | None:
    """In the form its first delimiter belongs to; None if it does not fit, or if it is not clear where a text ends."""
    plain = _blank_out(inner, nested)
    first = _FIRST.search(plain)
    path = _header_path(inner[: first.start()]) if first else ""
    found = _edit_texts(plain, first) if first else None
    if found is None or not path:
        return None
    search, replace = found
    # A blank line before the second delimiter is not part of the search text: replacing it would join two lines.
    wanted = _without_newline(_trim_body(inner[search]))
    return {"path": path, "search": wanted, "replace": _trim_body(inner[replace]), "mode": "first"}


def _blank_out(inner: str, nested: Iterable[tuple[int, int]]) -> str:
    """Blanks instead of the blocks that lie in the texts: their delimiters are not ours."""
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
    """Without `---search---` the search text is empty, about which the tool has something to say."""
    start = first.end() if first[0].endswith(_SEARCH) else None
    replace = first if start is None else _REPLACE_LINE.search(plain, start)
    if replace is None:
        return None
    for line in _CANONICAL_LINE.finditer(plain, first.end()):
        if not line.start() <= replace.start() < line.end():
            return None
    return slice(start or 0, replace.start() if start else 0), slice(replace.end(), None)


def _between_delimiters(plain: str, delimiter: re.Pattern[str], *initials: str) -> _EditTexts | None:
    """The texts behind the first two delimiters, if the delimiters have exactly one of these sets of initials."""
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
    """Without the end of the delimiter's line, and without the one newline before the next delimiter."""
    line_end = _LINE_END.match(body)
    return _without_newline(body[line_end.end() :] if line_end else body)


def _without_newline(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")
