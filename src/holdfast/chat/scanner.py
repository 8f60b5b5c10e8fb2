"""The scanner of `.chat` documents: cuts a text into pieces at the lines with markup, without parsing them.

A line-based state machine without lookahead: a piece depends only on the state before it and on its own text. So
scanning can start at any piece, and can stop at an old piece reached in its old state. Plain lines are skipped by
searching for the next line that could be markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from holdfast.chat import grammar

NodeKind = Literal["frontmatter", "preamble", "marker", "text", "thinking", "use", "result", "aborted", "attachment"]

MAX_PIECE: Final = 8192
"""Longer plain stretches are cut, so that an edit rescans little."""


class Mode(IntEnum):
    START = 0
    FRONTMATTER = 1
    GAP = 2
    """After a node, to which following blank lines belong."""
    TEXT = 3
    USE = 4
    RESULT = 5
    THINKING = 6


class ScanState(NamedTuple):
    role: int
    mode: Mode
    fence: int = 0
    """The length of the open fence; 0 in a tool block before its fence."""
    inline: bool = False
    """In the middle of a line that is plain whatever follows."""


class Piece(Struct, frozen=True, gc=False):
    source: str
    before: ScanState
    opens: NodeKind | None
    """The kind of node that starts here; None continues the one before."""


@lru_cache(maxsize=256)
def _state(role: int, mode: Mode, fence: int = 0) -> ScanState:
    """Cached: every fence needs a state, and most fences have the same few lengths."""
    return ScanState(role, mode, fence)


START: Final = ScanState(grammar.NO_ROLE, Mode.START)
_ROLES: Final = (grammar.NO_ROLE, grammar.OTHER, grammar.YOU, grammar.ASSISTANT)
_GAP: Final = tuple(ScanState(role, Mode.GAP) for role in _ROLES)
_TEXT: Final = tuple(ScanState(role, Mode.TEXT) for role in _ROLES)
_TOOLS: Final[tuple[NodeKind, ...]] = ("text", "text", "result", "use")
_MODES: Final = (Mode.TEXT, Mode.TEXT, Mode.RESULT, Mode.USE)
_THINKING: Final = ScanState(grammar.ASSISTANT, Mode.THINKING)


def _lines_of(markup: str) -> re.Pattern[str]:
    """A pattern for markup lines, including the blank lines after a marker and the opening fence after a header."""
    markup = markup.replace(grammar.MARKER, grammar.MARKER + grammar.BLANK_LINES)
    for header in (grammar.TOOL_USE, grammar.TOOL_RESULT):
        markup = markup.replace(header, header + grammar.BODY)
    return re.compile(f"\n(?:{markup})", re.MULTILINE)


_LINES: Final = tuple(map(_lines_of, grammar.MARKUP))
_BLANKS: Final = re.compile(grammar.BLANK_LINES)
_OPENER: Final = re.compile(grammar.FENCE, re.MULTILINE)
_FRONTMATTER: Final = re.compile(grammar.FRONTMATTER, re.MULTILINE)
_FRONTMATTER_END: Final = re.compile(rf"\n```{grammar.WS}$", re.MULTILINE)
_BLANK: Final = frozenset(grammar.BLANK_CHARS + "\n")
_UNSETTLED: Final = frozenset("@`*<![ \t\r\v\f")
"""First characters of lines that may be markup, which only the rest of the line decides."""


def scan(texts: Sequence[str], state: ScanState = START) -> tuple[list[Piece], ScanState]:
    """The pieces of consecutive texts, starting in `state`, and the state after them.

    The texts start at a line, or inside one if the state is `inline`, and end with a line or the document.
    """
    bom = grammar.BOM if state == START and texts[0].startswith(grammar.BOM) else ""
    if bom:
        texts = [texts[0][1:], *texts[1:]]
    scanner = _Scanner("".join((" " if state.inline else "\n", *texts)), state)
    after = scanner.run()
    pieces = scanner.pieces
    if bom and pieces:
        pieces[0] = Piece(bom + pieces[0].source, START, pieces[0].opens)
    elif bom:
        pieces, after = [Piece(bom, START, "preamble")], _TEXT[grammar.NO_ROLE]
    return pieces, after


class _Scanner:
    """The text has an extra first character, so that every line follows a line feed."""

    def __init__(self, text: str, state: ScanState) -> None:
        self.text = text
        self.end = len(text)
        self.state: ScanState = ScanState(state.role, state.mode, state.fence)
        self.at: int = 0
        """The line feed before the next line, or the end of the text."""
        self.pieces: list[Piece] = []
        self.begun: int = 1
        self.before: ScanState = state
        self.opens: NodeKind | None = None

    def run(self) -> ScanState:
        if self.state.mode is Mode.START and self.end > 1:
            self._start()
        while self.at + 1 < self.end:
            _, mode, fence, _ = self.state
            if fence:
                self._fenced()
            elif mode is Mode.TEXT or mode is Mode.GAP:
                self._lines()
            elif mode is Mode.THINKING:
                self._thinking()
            elif mode is Mode.FRONTMATTER:
                self._frontmatter()
            else:
                self._before_fence()
        if self.begun < self.end:
            self._cut(self.end, self.state)
        return self.state

    def _cut(self, end: int, after: ScanState) -> None:
        self.pieces.append(Piece(self.text[self.begun : end], self.before, self.opens))
        self.begun = end
        self.before = after
        self.opens = None

    def _finish(self, end: int, after: ScanState) -> None:
        """Cut after a node and the blank lines that follow it."""
        self._cut(end, after)
        self.at = end - 1
        self.state = after

    def _after_blanks(self, at: int) -> int:
        found = _BLANKS.match(self.text, at)
        return found.end() if found else at

    def _start(self) -> None:
        if found := _FRONTMATTER.match(self.text, 1):
            self.opens = "frontmatter"
            self.state = ScanState(grammar.NO_ROLE, Mode.FRONTMATTER)
            self.at = found.end()
        else:
            self.opens = "preamble"
            self.state = _TEXT[grammar.NO_ROLE]

    def _frontmatter(self) -> None:
        found = _FRONTMATTER_END.search(self.text, self.at)
        self._skip(found.start() + 1 if found else self.end)
        if found:
            self._finish(self._after_blanks(found.end()), _GAP[grammar.NO_ROLE])

    def _lines(self) -> None:
        """Scan to the next markup line, and enter the node that starts there."""
        text, role = self.text, self.state.role
        found = _LINES[role].search(text, self.at)
        stop = found.start() + 1 if found else self.end
        first = text[stop] if found else ""
        if self.state.mode is Mode.GAP and (stop > self.begun or first == "`"):
            if text[self.begun] in _BLANK and (blanks := self._after_blanks(self.begun)) > self.begun:
                self._finish(blanks, self.state)
            if self.begun < stop or first == "`":
                self.opens, self.state = "text" if role else "preamble", _TEXT[role]
        self._skip(stop)
        if found is None:
            return
        if first == "`":
            self.at, self.state = found.end(), _state(role, Mode.TEXT, len(found["fence"]))
            return
        if self.begun < stop:
            self._cut(stop, self.state)
        if first == "@":
            self.opens = "marker"
            self._finish(found.end(), _GAP[grammar.markup_role(found["role"])])
        elif first == "*":
            self.opens = _TOOLS[role]
            if found["ticks"]:
                self.at, self.state = found.end(), _state(role, _MODES[role], len(found["ticks"]))
            else:
                self._finish(self._after_blanks(found.end()), _state(role, _MODES[role]))
        elif first != "<":
            self.opens = "attachment"
            self._finish(self._after_blanks(found.end()), _GAP[role])
        elif text[stop + 1] == "!" or found["closed"]:
            self.opens = "aborted" if text[stop + 1] == "!" else "thinking"
            self._finish(self._after_blanks(found.end()), _GAP[role])
        else:
            self.opens = "thinking"
            self.at, self.state = found.end(), _THINKING

    def _before_fence(self) -> None:
        """After the header of a tool block, before its fence."""
        line = self._after_blanks(self.at + 1)
        if found := _OPENER.match(self.text, line):
            self.at = found.end()
            self.state = _state(self.state.role, self.state.mode, len(found["fence"]))
            return
        if line > self.begun:
            self._cut(line, self.state)
        self.at = line - 1
        if line < self.end:
            self.state = _GAP[self.state.role]

    def _thinking(self) -> None:
        found = grammar.IN_THINKING.search(self.text, self.at)
        stop = found.start() + 1 if found else self.end
        self._skip(stop)
        if not found:
            return
        if found["fence"]:
            self.at = found.end()
            self.state = _state(grammar.ASSISTANT, Mode.THINKING, len(found["fence"]))
        elif found["role"]:
            if self.begun < stop:
                self._cut(stop, self.state)
            self.state = _GAP[grammar.ASSISTANT]
        else:
            self._finish(self._after_blanks(found.end()), _GAP[grammar.ASSISTANT])

    def _fenced(self) -> None:
        role, mode, fence, _ = self.state
        found = grammar.closing_fence(self.text, self.at, fence)
        self._skip(found.start() if found else self.end)
        if not found:
            return
        if mode is Mode.USE or mode is Mode.RESULT:
            self._finish(found.end(), _GAP[role])
        else:
            self.at = found.start(1)
            self.state = _state(role, mode)

    def _skip(self, stop: int) -> None:
        """Skip plain lines up to `stop`."""
        if stop - self.begun > MAX_PIECE:
            self._split_long(stop)
        self.at = stop - 1

    def _split_long(self, stop: int) -> None:
        text, state = self.text, self.state
        doubtful = "`" if state.fence else _UNSETTLED
        start = min(self.at + 1, stop)
        while stop - self.begun > MAX_PIECE:
            limit = self.begun + MAX_PIECE
            if limit <= start:
                end, inline = start, False
            elif (feed := text.rfind("\n", start, limit)) >= 0:
                end, inline = feed + 1, False
            elif text[start - 1] != "\n" or text[start] not in doubtful:
                end, inline = limit, True
            elif (feed := text.find("\n", limit, stop)) >= 0:
                end, inline = feed + 1, False
            else:
                return
            self._cut(end, ScanState(state.role, state.mode, state.fence, inline))
            start = end
