"""Cuts a text into pieces where a `.chat` document changes its meaning; does not read what is in them.

A machine that goes from line to line and never looks ahead: what a piece is depends on the state before it and on its
own text alone. So scanning can begin at any piece, and can stop where it meets an old piece in the old state. It jumps
over plain lines by searching for the next line that could matter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from holdfast.chat import grammar

NodeKind = Literal["frontmatter", "preamble", "marker", "text", "thinking", "use", "result", "aborted"]

MAX_PIECE: Final = 8192
"""Longer plain stretches are cut, so that little is scanned again when something is added or changed."""


class Mode(IntEnum):
    START = 0
    FRONTMATTER = 1
    GAP = 2
    """After a node: blank lines belong to it."""
    TEXT = 3
    USE = 4
    RESULT = 5
    THINKING = 6


class ScanState(NamedTuple):
    role: int
    mode: Mode
    fence: int = 0
    """The length of the open fence. A tool block with none still waits for it."""
    inline: bool = False
    """In a line that is plain whatever follows."""


class Piece(Struct, frozen=True, gc=False):
    source: str
    before: ScanState
    opens: NodeKind | None
    """The node that begins here; None goes on with the one before."""


@lru_cache(maxsize=256)
def _state(reader: int, mode: Mode, fence: int = 0) -> ScanState:
    """Every fence needs one, and nearly all fences have the same few lengths."""
    return ScanState(reader, mode, fence)


START: Final = ScanState(grammar.NO_ROLE, Mode.START)
_READERS: Final = (grammar.NO_ROLE, grammar.OTHER, grammar.YOU, grammar.ASSISTANT)
_GAP: Final = tuple(ScanState(reader, Mode.GAP) for reader in _READERS)
_TEXT: Final = tuple(ScanState(reader, Mode.TEXT) for reader in _READERS)
_TOOLS: Final[tuple[NodeKind, ...]] = ("text", "text", "result", "use")
_MODES: Final = (Mode.TEXT, Mode.TEXT, Mode.RESULT, Mode.USE)
_THINKING: Final = ScanState(grammar.ASSISTANT, Mode.THINKING)


def _lines_of(markup: str) -> re.Pattern[str]:
    """Lines with markup, and what belongs to them: blank lines to a marker, the first line of its fence to a header."""
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
_UNSETTLED: Final = frozenset("@`*< \t\r\v\f")
"""How a line can begin of which only its end says whether it is plain."""


def scan(texts: Sequence[str], state: ScanState = START) -> tuple[list[Piece], ScanState]:
    """The pieces of texts that follow each other and begin in this state, and the state after them.

    They begin with a line, or in the middle of one when the state says so; they end with a line or with the document.
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
    """The text has one character more in front, so that a line feed stands before every line."""

    def __init__(self, text: str, state: ScanState) -> None:
        self.text = text
        self.end = len(text)
        self.state: ScanState = ScanState(state.role, state.mode, state.fence)
        self.at: int = 0
        """The line feed before the next line; the end of the text when there is none."""
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
                self._waiting()
        if self.begun < self.end:
            self._cut(self.end, self.state)
        return self.state

    def _cut(self, end: int, after: ScanState) -> None:
        self.pieces.append(Piece(self.text[self.begun : end], self.before, self.opens))
        self.begun = end
        self.before = after
        self.opens = None

    def _finish(self, end: int, after: ScanState) -> None:
        """Cut here, where a node ends with the blank lines after it."""
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
        self._pass(found.start() + 1 if found else self.end)
        if found:
            self._finish(self._after_blanks(found.end()), _GAP[grammar.NO_ROLE])

    def _lines(self) -> None:
        """Up to the next line with markup, and into what begins there."""
        text, reader = self.text, self.state.role
        found = _LINES[reader].search(text, self.at)
        stop = found.start() + 1 if found else self.end
        first = text[stop] if found else ""
        if self.state.mode is Mode.GAP and (stop > self.begun or first == "`"):
            if text[self.begun] in _BLANK and (blanks := self._after_blanks(self.begun)) > self.begun:
                self._finish(blanks, self.state)
            if self.begun < stop or first == "`":
                self.opens, self.state = "text" if reader else "preamble", _TEXT[reader]
        self._pass(stop)
        if found is None:
            return
        if first == "`":
            self.at, self.state = found.end(), _state(reader, Mode.TEXT, len(found["fence"]))
            return
        if self.begun < stop:
            self._cut(stop, self.state)
        if first == "@":
            self.opens = "marker"
            self._finish(found.end(), _GAP[grammar.markup_role(found["role"])])
        elif first == "*":
            self.opens = _TOOLS[reader]
            if found["ticks"]:
                self.at, self.state = found.end(), _state(reader, _MODES[reader], len(found["ticks"]))
            else:
                self._finish(self._after_blanks(found.end()), _state(reader, _MODES[reader]))
        elif text[stop + 1] == "!" or found["closed"]:
            self.opens = "aborted" if text[stop + 1] == "!" else "thinking"
            self._finish(self._after_blanks(found.end()), _GAP[reader])
        else:
            self.opens = "thinking"
            self.at, self.state = found.end(), _THINKING

    def _waiting(self) -> None:
        """After the header of a tool block, whose fence may come after blank lines."""
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
        self._pass(stop)
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
        reader, mode, fence, _ = self.state
        found = grammar.closing_fence(self.text, self.at, fence)
        self._pass(found.start() if found else self.end)
        if not found:
            return
        if mode is Mode.USE or mode is Mode.RESULT:
            self._finish(found.end(), _GAP[reader])
        else:
            self.at = found.start(1)
            self.state = _state(reader, mode)

    def _pass(self, stop: int) -> None:
        """Go over plain lines, up to the line that begins here."""
        if stop - self.begun > MAX_PIECE:
            self._cut_up(stop)
        self.at = stop - 1

    def _cut_up(self, stop: int) -> None:
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
