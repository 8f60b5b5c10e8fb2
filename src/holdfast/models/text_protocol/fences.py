"""Reads what is quoted: between runs of backticks on a line, and in fences. Nothing in there is a call."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from holdfast.models.text_protocol.grammar import ANY_FRAME, ANY_TAG, BLANKS, unfinished
from holdfast.models.text_protocol.pieces import Fault
from holdfast.models.text_protocol.tape import Mode, Tape

_RUN: Final = {"`": re.compile("`*+"), "~": re.compile("~*+")}
_QUOTED: Final = re.compile(rf"\n()|`(`*+)|{ANY_TAG}()|{ANY_FRAME}()")
_FENCED: Final = re.compile(
    rf"\n([{BLANKS}>]*+)(`{{3,}}+|~{{3,}}+)[{BLANKS}]*+(?=\n|\Z)|{ANY_TAG}()|{ANY_FRAME}()"
)
_NEWLINE, _RUNNING = 1, 2
_CLOSING = 2
_PERHAPS: Final = re.compile(rf"\n[{BLANKS}>]*+[`~]*+[{BLANKS}]*+\Z")
_NOT_CLOSING: Final = re.compile(rf"[^{BLANKS}`~>]")
_NOT_A_RUN: Final = re.compile("[^`]")
_DEEPER: Final = 3
"""A run that is indented more than this beyond the fence is a line of what is quoted."""


class Fence:
    pending = False
    rewinds = False

    def __init__(self, tape: Tape, run: str, outside: Mode) -> None:
        """`run`: what is known of the run that opens it; `tape` has counted up to there."""
        self._char = run[0]
        self._size = len(run)
        self._line = tape.line
        self._indent = tape.indent
        self._quotes = tape.quotes
        self._outside = outside
        self._step: Callable[[Tape], Mode | None] = self._opening
        self._tag: str | None = None

    def read(self, tape: Tape) -> Mode | None:
        return self._step(tape)

    def end(self, tape: Tape) -> None:
        """With calls before it, a fence that stays open leaves it in doubt which of them were quoted."""
        if self._tag is not None or tape.called:
            tape.flaw(Fault.OPEN_FENCE, self._tag or self._char * self._size, self._line)

    def _opening(self, tape: Tape) -> Mode | None:
        start = tape.at
        ended = self._run(tape)
        self._size += tape.at - start
        if not ended:
            return None
        self._step = self._quote if self._char == "`" else self._inside
        return self

    def _closing(self, tape: Tape) -> Mode | None:
        return self._outside if self._run(tape) else None

    def _run(self, tape: Tape) -> bool:
        """Go to the end of a run; whether it is known to be one."""
        run = _RUN[self._char].match(tape.text, tape.at)
        tape.at = run.end() if run else tape.at
        return tape.final or tape.at < len(tape.text)

    def _quote(self, tape: Tape) -> Mode | None:
        """On the line that opens it, where it may still be closed."""
        text, at = tape.text, tape.at
        for token in _QUOTED.finditer(text, at):
            at = token.end()
            if token.lastindex == _NEWLINE:
                tape.at, self._step = token.start(), self._inside
                return self
            if token.lastindex != _RUNNING:
                self._notice(tape, token)
            elif at - token.start() >= self._size:
                tape.at, self._step = at, self._closing
                return self
            elif at == len(text) and not tape.final:
                tape.at, tape.wait = token.start(), _NOT_A_RUN
                return None
        tape.at = len(text) if tape.final else unfinished(text, at)
        return None

    def _inside(self, tape: Tape) -> Mode | None:
        text, at = tape.text, tape.at
        for token in _FENCED.finditer(text, at):
            if token.lastindex != _CLOSING:
                self._notice(tape, token)
            elif token.end() == len(text) and not tape.final:
                break
            elif self._closes(token):
                tape.at = token.end()
                return self._outside
            at = token.end()
        tape.at = len(text) if tape.final else self._undecided(tape, at)
        return None

    def _closes(self, run: re.Match[str]) -> bool:
        before = run[1]
        indent = len(before) + 3 * before.count("\t")
        return (
            run[2][0] == self._char
            and len(run[2]) >= self._size
            and indent <= self._indent + _DEEPER
            and before.count(">") <= self._quotes
        )

    def _undecided(self, tape: Tape, at: int) -> int:
        newline = tape.text.rfind("\n", at)
        if newline >= 0 and _PERHAPS.match(tape.text, newline):
            tape.wait = _NOT_CLOSING
            return newline
        return unfinished(tape.text, at)

    def _notice(self, tape: Tape, token: re.Match[str]) -> None:
        if token[0].startswith("="):
            tape.flaw_at(Fault.FABRICATED, token[0], token.start())
        elif self._tag is None:
            self._tag = token[0]
