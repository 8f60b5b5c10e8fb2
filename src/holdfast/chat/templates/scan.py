"""Finds expressions `{{ }}` and code `{% %}` in a text, with the Lua between them read well enough to find its end."""

from __future__ import annotations

import re
from typing import Final, Literal

from msgspec import Struct

_OPEN: Final = re.compile(r"\{([{%])(-?)")
_LONG: Final = re.compile(r"\[(=*)\[")
_AFTER: Final = re.compile(r"[ \t]*(?:\r?\n)?")


MAX_TEMPLATE: Final = 65_536
MAX_WASTED: Final = 2_000_000
"""Letters that may be read in vain after marks that are never closed."""


class Piece(Struct, frozen=True):
    """A part of a template, by its kind; `source` is what stands in the text for it."""

    kind: Literal["text", "expression", "code"]
    source: str
    code: str = ""
    line: int = 1


def has_templates(text: str) -> bool:
    return "{{" in text or "{%" in text


class Scan:
    """All of a text, in order, with white space taken away where a `-` asks for it. What is never closed is text."""

    def __init__(self, text: str) -> None:
        self.pieces: list[Piece] = []
        self.gave_up = False
        """Whether so much was opened and never closed that the rest was taken for text."""
        self._text = text
        self._line, self._counted = 1, 0
        self._scan()

    def _scan(self) -> None:
        text, at, start, wasted = self._text, 0, 0, 0
        while not self.gave_up and (opened := _OPEN.search(text, at)) is not None:
            limit = min(len(text), opened.end() + MAX_TEMPLATE)
            end, seen = _end(text, opened.end(), "%}" if opened[1] == "%" else "}}", limit)
            if end is None:
                at = opened.end()
                wasted += seen - at
                self.gave_up = wasted > MAX_WASTED
                continue
            self._add_text(start, opened.start(), trim=bool(opened[2]))
            inner = text[opened.end() : end]
            kind = "code" if opened[1] == "%" else "expression"
            source = text[opened.start() : end + 2]
            self.pieces.append(Piece(kind, source, inner.removesuffix("-"), self._line_at(opened.end())))
            start = at = end + 2
            if inner.endswith("-") and (blank := _AFTER.match(text, start)) is not None:
                start = at = blank.end()
        self._add_text(start, len(text))

    def _add_text(self, start: int, end: int, *, trim: bool = False) -> None:
        piece = self._text[start:end]
        if trim:
            piece = piece.rstrip(" \t").removesuffix("\n").removesuffix("\r")
        if piece:
            self.pieces.append(Piece("text", piece, line=self._line_at(start)))

    def _line_at(self, position: int) -> int:
        self._line += self._text.count("\n", self._counted, position)
        self._counted = position
        return self._line


def _end(text: str, at: int, close: str, limit: int) -> tuple[int | None, int]:
    """Where the closing mark stands (not in a string, a comment or inner brackets), and how far was read."""
    depth = 0
    while at < limit:
        letter = text[at]
        if depth == 0 and text.startswith(close, at):
            return at, at
        if letter in "\"'":
            past = _after_string(text, at)
            if past is None:
                return None, at
            at = past
        elif text.startswith("--", at) and not text.startswith(f"-{close}", at + 1):
            at = _after_comment(text, at + 2, close)
        elif (long := _LONG.match(text, at)) is not None:
            ending = text.find(f"]{long[1]}]", long.end(), limit)
            if ending < 0:
                return None, limit
            at = ending + len(long[1]) + 2
        else:
            depth += (letter == "{") - (letter == "}")
            if depth < 0:
                return None, at
            at += 1
    return None, at


def _after_string(text: str, at: int) -> int | None:
    quote = text[at]
    at += 1
    while at < len(text) and text[at] != "\n":
        if text[at] == quote:
            return at + 1
        at += 2 if text[at] == "\\" else 1
    return None


def _after_comment(text: str, at: int, close: str) -> int:
    """A comment ends with its line, its long bracket, or where the template closes."""
    long = _LONG.match(text, at)
    if long is not None and (ending := text.find(f"]{long[1]}]", long.end())) >= 0:
        return ending + len(long[1]) + 2
    newline, closing = text.find("\n", at), text.find(close, at)
    ends = [end for end in (newline, closing) if end >= 0]
    return min(ends, default=len(text))
