"""Reads what comes right behind a call: it may show that the call was not all that was meant."""

from __future__ import annotations

import re
from typing import Final

from holdfast.models.text_protocol.bodies import CONTENT
from holdfast.models.text_protocol.grammar import BLANKS, unfinished
from holdfast.models.text_protocol.pieces import Fault
from holdfast.models.text_protocol.tape import Mode, Tape

_BLANKS: Final = re.compile(rf"[{BLANKS}]*+")
_SPACE: Final = re.compile(r"\s*+")
_CONTENTS: Final = ("```", "~~~", CONTENT)
_CLOSING: Final = {kind: re.compile(rf"\[/{kind}\]") for kind in ("write_file", "edit_file")}


def unreadable(kind: str) -> Fault:
    return Fault.UNREADABLE_EDIT if kind == "edit_file" else Fault.UNREADABLE


class Closed:
    """Behind a closing tag in the middle of a line: if the line goes on, the tag may have been a word of the body.

    Nobody knows then where the body ends: all up to the next closing tag is not read.
    """

    pending = False
    rewinds = False

    def __init__(self, kind: str, tag: str, line: int, prose: Mode) -> None:
        self._kind = kind
        self._tag = tag
        self._line = line
        self._prose = prose
        self._unclear = False

    def read(self, tape: Tape) -> Mode | None:
        return self._look_for_end(tape) if self._unclear else self._look_behind(tape)

    def end(self, tape: Tape) -> None:
        if self._unclear:
            tape.flaw(Fault.UNCLOSED, self._tag, self._line)

    def _look_behind(self, tape: Tape) -> Mode | None:
        at = tape.skip(_BLANKS)
        if at == len(tape.text):
            return None
        if tape.text[at] == "\n":
            return self._prose
        self._unclear = True
        return self

    def _look_for_end(self, tape: Tape) -> Mode | None:
        closing = _CLOSING[self._kind].search(tape.text, tape.at)
        if closing is None:
            tape.at = len(tape.text) if tape.final else unfinished(tape.text, tape.at)
            return None
        tape.flaw(unreadable(self._kind), self._tag, self._line)
        tape.at = closing.end()
        return self._prose


class Written:
    """Behind `[write_file: PATH]`, which writes an empty file: content that follows it would be lost."""

    pending = False
    rewinds = False

    def __init__(self, tag: str, line: int, prose: Mode) -> None:
        self._tag = tag
        self._line = line
        self._prose = prose

    def read(self, tape: Tape) -> Mode | None:
        at = tape.skip(_SPACE)
        begun = tape.text[at : at + len(CONTENT)]
        if not tape.final and any(mark != begun and mark.startswith(begun) for mark in _CONTENTS):
            return None
        if begun.startswith(_CONTENTS):
            tape.flaw(Fault.UNREADABLE, self._tag, self._line)
        return self._prose

    def end(self, tape: Tape) -> None:
        pass
