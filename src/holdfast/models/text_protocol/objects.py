"""Reads `[call: NAME]` blocks: a JSON object, and then nothing but the closing tag."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, cast

from holdfast.contract.errors import BadJson
from holdfast.contract.values import Args, parse_json
from holdfast.models.text_protocol.blocks import Block
from holdfast.models.text_protocol.grammar import CALL_END, unfinished
from holdfast.models.text_protocol.pieces import Fault
from holdfast.models.text_protocol.tape import Mode, Tape

_SPACE: Final = re.compile(r"\s*+")
_FENCE: Final = re.compile(r"(`{3,}+)[ \t]*+(?i:json)?[ \t]*+\r?\n")
_RUN: Final = re.compile("`*+")
_REST_OF_STRING: Final = r'[^"\\]*+(?:\\.[^"\\]*+)*+'
_TOKEN: Final = re.compile(rf'"{_REST_OF_STRING}"|"|\{{|\}}|\[/call\]', re.DOTALL)
_IN_STRING: Final = re.compile(rf'{_REST_OF_STRING}("?)', re.DOTALL)
_END: Final = re.compile(r"\[/call\]")
_NEWLINE: Final = re.compile("\n")
_NOT_A_RUN: Final = re.compile("[^`]")


class Object:
    pending = True
    rewinds = False

    def __init__(self, tag: str, name: str | None, place: int, line: int, prose: Mode) -> None:
        self._tag = tag
        self._name = name
        self._place = place
        self._line = line
        self._prose = prose
        self._step: Callable[[Tape], Mode | None] = self._start
        self._fence = 0
        """How long the run is that must close the fence around the object."""
        self._depth = 0
        self._from = self._to = 0

    def read(self, tape: Tape) -> Mode | None:
        return self._step(tape)

    def end(self, tape: Tape) -> None:
        tape.flaw(Fault.UNCLOSED, self._tag, self._line)

    def _start(self, tape: Tape) -> Mode | None:
        text = tape.text
        at = tape.skip(_SPACE)
        if at == len(text):
            return None
        if text[at] == "{":
            self._from, self._step = tape.place(at), self._object
            return self._object(tape)
        if text[at] == "`" and not self._fence:
            fence = _FENCE.match(text, at)
            if fence:
                self._fence, tape.at = len(fence[1]), fence.end()
                return self
            if "\n" not in text[at:] and not tape.final:
                tape.wait = _NEWLINE
                return None
        return Block("call", self._tag, self._place, self._line, self._prose)

    def _object(self, tape: Tape) -> Mode | None:
        text, at = tape.text, tape.at
        for token in _TOKEN.finditer(text, at):
            at = token.end()
            what = token[0]
            if what == "{":
                self._depth += 1
            elif what == "}":
                self._depth -= 1
                if not self._depth:
                    self._to, self._step, tape.at = tape.place(at), self._after, at
                    return self._after(tape)
            elif what == '"':
                self._step, tape.at = self._string, at
                return self
            elif what == CALL_END:
                return self._unreadable(tape, tape.take(at))
        tape.at = len(text) if tape.final else unfinished(text, at)
        return None

    def _string(self, tape: Tape) -> Mode | None:
        string = _IN_STRING.match(tape.text, tape.at)
        tape.at = string.end() if string else tape.at
        if string is None or not string[1]:
            return None
        self._step = self._object
        return self

    def _after(self, tape: Tape) -> Mode | None:
        text = tape.text
        at = tape.skip(_SPACE)
        if at == len(text):
            return None
        if self._fence and text[at] == "`":
            run = _RUN.match(text, at)
            end = run.end() if run else at
            if end == len(text) and not tape.final:
                tape.wait = _NOT_A_RUN
                return None
            if end - at >= self._fence:
                self._fence, tape.at = 0, end
                return self
        elif not self._fence:
            if text.startswith(CALL_END, at):
                return self._close(tape, at + len(CALL_END))
            if CALL_END.startswith(text[at : at + len(CALL_END)]) and not tape.final:
                return None
        self._step = self._broken
        return self

    def _broken(self, tape: Tape) -> Mode | None:
        """It cannot be read any more; only where it ends is looked for."""
        end = _END.search(tape.text, tape.at)
        if end:
            return self._unreadable(tape, tape.take(end.end()))
        tape.at = len(tape.text) if tape.final else unfinished(tape.text, tape.at)
        return None

    def _close(self, tape: Tape, end: int) -> Mode:
        written = tape.take(end)
        args = _decode(written[self._from - self._place : self._to - self._place])
        if self._name is None or args is None:
            return self._unreadable(tape, written)
        tape.call(self._name, args, written)
        return self._prose

    def _unreadable(self, tape: Tape, written: str) -> Mode:
        tape.flaw(Fault.UNREADABLE, self._tag, self._line)
        tape.say(written)
        return self._prose


def _decode(text: str) -> Args | None:
    try:
        return cast(Args, parse_json(text))
    except BadJson:
        return None
