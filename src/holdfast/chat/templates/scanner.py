"""The template scanner: finds expressions `{{ }}`, code `{% %}` and file references in a text.

It reads just enough Lua to find the end of a template.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import unquote_to_bytes

from msgspec import Struct

_OPEN: Final = re.compile(r"\{([{%])(-?)")
_LONG: Final = re.compile(r"\[(=*)\[")
_AFTER: Final = re.compile(r"[ \t]*(?:\r?\n)?")
_CLOSERS: Final = {"{": "}}", "%": "%}"}
_COMMENT_ENDS: Final = {close: re.compile(rf"\n|{re.escape(close)}") for close in _CLOSERS.values()}

MAX_TEMPLATE: Final = 65_536
MAX_WASTED_CHARS: Final = 2_000_000
"""Characters that may be read in vain after unclosed marks."""


class TemplatePiece(Struct, frozen=True):
    """A part of a template; `source` is its text."""

    kind: Literal["text", "expression", "code"]
    source: str
    code: str = ""
    line: int = 1


def has_templates(text: str) -> bool:
    return "{{" in text or "{%" in text


class TemplateScan:
    """The pieces of a text in order, with white space trimmed at `-`. Unclosed templates are text."""

    def __init__(self, text: str) -> None:
        self.pieces: list[TemplatePiece] = []
        self.gave_up = False
        """Whether the rest was read as text, because too many templates were never closed."""
        self._text = text
        self._line, self._counted = 1, 0
        self._scan()

    def _scan(self) -> None:
        text, at, start, wasted = self._text, 0, 0, 0
        last = {mark: text.rfind(close) for mark, close in _CLOSERS.items()}
        while not self.gave_up and (opened := _OPEN.search(text, at)) is not None:
            at = opened.end()
            if last[opened[1]] < at:
                continue  # nothing after it can close it
            inside = _TemplateBody(text, at, _CLOSERS[opened[1]])
            wasted += inside.wasted
            self.gave_up = wasted > MAX_WASTED_CHARS
            end = inside.end
            if end is None:
                continue
            self._add_text(start, opened.start(), trim=bool(opened[2]))
            inner = text[opened.end() : end]
            kind = "code" if opened[1] == "%" else "expression"
            source = text[opened.start() : end + 2]
            self.pieces.append(TemplatePiece(kind, source, inner.removesuffix("-"), self._line_at(opened.end())))
            start = at = end + 2
            if inner.endswith("-") and (blank := _AFTER.match(text, start)) is not None:
                start = at = blank.end()
        self._add_text(start, len(text))

    def _add_text(self, start: int, end: int, *, trim: bool = False) -> None:
        piece = self._text[start:end]
        if trim:
            piece = piece.rstrip(" \t").removesuffix("\n").removesuffix("\r")
        if piece:
            self.pieces.append(TemplatePiece("text", piece, line=self._line_at(start)))

    def _line_at(self, position: int) -> int:
        self._line += self._text.count("\n", self._counted, position)
        self._counted = position
        return self._line


class _TemplateBody:
    """The text after an opening mark, read up to a limit. Every character that is read is counted."""

    def __init__(self, text: str, start: int, close: str) -> None:
        self._text = text
        self._start = start
        self._close = close
        self._limit = min(len(text), start + MAX_TEMPLATE)
        self._absent: set[str] = set()
        """Long brackets that do not close before the limit."""
        self._searched = 0
        self.end, past = self._find_end()
        """The offset of the closing mark outside strings, comments and inner brackets; None without one."""
        self.wasted = self._searched + (0 if self.end is not None else past - start)
        """Characters that were read in vain."""

    def _find_end(self) -> tuple[int | None, int]:
        """The end, and the offset up to which it was read."""
        text, at, limit, close, depth = self._text, self._start, self._limit, self._close, 0
        while at < limit:
            letter = text[at]
            if depth == 0 and text.startswith(close, at):
                return at, at
            if letter in "\"'":
                at, closed = self._after_string(at)
                if not closed:
                    return None, at
            elif text.startswith("--", at) and not text.startswith(f"-{close}", at + 1):
                at = self._after_comment(at + 2)
            elif (long := _LONG.match(text, at, limit)) is not None:
                past = self._after_long(long)
                if past is None:
                    return None, at
                at = past
            else:
                depth += (letter == "{") - (letter == "}")
                if depth < 0:
                    return None, at
                at += 1
        return None, at

    def _after_string(self, at: int) -> tuple[int, bool]:
        """The offset after a string, or where it breaks off; and whether it is closed."""
        text, quote = self._text, self._text[at]
        at += 1
        while at < self._limit and text[at] != "\n":
            if text[at] == quote:
                return at + 1, True
            at += 2 if text[at] == "\\" else 1
        return at, False

    def _after_comment(self, at: int) -> int:
        """The offset after a comment, which ends with its line, its long bracket, or the template."""
        long = _LONG.match(self._text, at, self._limit)
        past = None if long is None else self._after_long(long)
        if past is not None:
            return past
        ends = _COMMENT_ENDS[self._close].search(self._text, at, self._limit)
        return self._limit if ends is None else ends.start()

    def _after_long(self, long: re.Match[str]) -> int | None:
        closing = f"]{long[1]}]"
        if closing in self._absent:
            return None
        ending = self._text.find(closing, long.end(), self._limit)
        if ending < 0:
            self._absent.add(closing)
            self._searched += self._limit - long.end()
            return None
        return ending + len(closing)


_REFERENCE: Final = re.compile(r"(?<![\w@])@((?:\.\.?/|~/|//)\S+)")
_TYPE: Final = re.compile(r";type=([A-Za-z0-9.+-]+/[A-Za-z0-9.+*-]+)")
_PUNCTUATION: Final = ".,;:!?'\"`()[]{}<>*|"


class Reference(Struct, frozen=True):
    source: str
    """As written in the text."""
    path: str
    mime: str | None = None


def references_in(text: str) -> list[str | Reference]:
    """Split a text into plain text and references. Trailing punctuation is not part of a reference."""
    found: list[str | Reference] = []
    start = 0
    for match in _REFERENCE.finditer(text):
        reference = _reference(match[1])
        if reference is None:
            continue
        if match.start() > start:
            found.append(text[start : match.start()])
        found.append(reference)
        start = match.start() + len(reference.source)
    if start < len(text):
        found.append(text[start:])
    return found


def _reference(word: str) -> Reference | None:
    typed = _TYPE.search(word)
    if typed is not None:
        mime = typed[1].rstrip(_PUNCTUATION)
        path, length = word[: typed.start()], typed.start(1) + len(mime)
    else:
        mime, path = None, word.rstrip(_PUNCTUATION)
        length = len(path)
    if not path.strip("./~"):
        return None
    return Reference("@" + word[:length], decode_path(path), mime)


def decode_path(path: str) -> str:
    """Decode `+` and `%xx` as in URLs. A leading `//` is the root of the file system."""
    given = path.replace("+", " ").encode("utf-8", "surrogateescape")
    plain = unquote_to_bytes(given).decode("utf-8", "surrogateescape")
    return "/" + plain.lstrip("/") if plain.startswith("//") else plain
