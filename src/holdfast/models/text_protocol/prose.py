"""Reads what is in no fence and no block: there a tag is a call, or opens one."""

from __future__ import annotations

import json
import re
from typing import Final

from holdfast.contract.values import Args
from holdfast.models.text_protocol.behind import Written
from holdfast.models.text_protocol.blocks import Block, Query
from holdfast.models.text_protocol.fences import Fence
from holdfast.models.text_protocol.grammar import ANY_FRAME, BLOCKS, INLINE, STATIC, TOOLS, WRITE_EMPTY, unfinished
from holdfast.models.text_protocol.objects import Object
from holdfast.models.text_protocol.pieces import Asked, Fault, Said
from holdfast.models.text_protocol.tape import LISTED, Mode, Tape

# Every alternative begins with a plain character: so `re` skips what cannot begin one.
_TOKEN: Final = re.compile(
    rf"""\[(?:({"|".join(INLINE)}):(?:([^\[\]\n]*+(?:\[[^\[\]\n]*+\][^\[\]\n]*+)*+)\])?"""
    rf"""|({"|".join(STATIC)})\]"""
    rf"""|({"|".join(BLOCKS)})\]"""
    rf"""|/({"|".join((*BLOCKS, "call"))})\]"""
    r"""|call:([^\[\]\n]*+)(\])?)"""
    r"""|```(`*+)|~~~(~*+)"""
    rf"""|{ANY_FRAME}()"""
)
_INLINE, _WHOLE, _STATIC, _BLOCK, _CLOSING, _NAMELESS, _NAMED, _BACKTICKS, _TILDES, _FRAME = range(1, 11)
_BRACKET: Final = re.compile(r"[\[\]\n]")
_NAME_END: Final = re.compile(r"[\[\]\n]")
_ARGUMENT: Final = {"read_file": "path", "list_dir": "path", "search_code": "query"}


class Line:
    """The brackets of a line on which one was left open, once the line has ended."""

    def __init__(self, end: int = -1, pairs: dict[int, int] | None = None, last: int = -1) -> None:
        self.end = end
        self.pairs = pairs or {}
        self.last = last
        """The last closing bracket."""


class Prose:
    pending = False
    rewinds = False

    def __init__(self) -> None:
        self.line = Line()
        self._wrote: int | None = None
        """The line of the last `[write_file: PATH]`."""

    def read(self, tape: Tape) -> Mode | None:
        text, at, mark = tape.text, tape.at, tape.mark
        pieces = tape.pieces
        for token in _TOKEN.finditer(text, at):
            kind = token.lastindex or 0
            start, at = token.span()
            if kind <= _STATIC and kind != _INLINE:
                name = token[_INLINE if kind == _WHOLE else _STATIC]
                args = _arguments(name, token[_WHOLE]) if kind == _WHOLE else {}
                if args is not None:
                    if mark < start:
                        pieces.append(Said(text[mark:start]))
                    pieces.append(Asked(TOOLS[name], args, token[0]))
                    mark = at
                    tape.called = True
                    if name == "write_file":
                        tape.count(start)
                        tape.mark = tape.at = at
                        return self.wrote(tape.line)
                continue
            tape.mark, tape.at = mark, at
            following = self._other(tape, token, kind)
            if following is not self or tape.at != at:
                return following
            mark = tape.mark
        tape.mark, tape.at = mark, len(text) if tape.final else unfinished(text, at)
        return None

    def end(self, tape: Tape) -> None:
        pass

    def _other(self, tape: Tape, token: re.Match[str], kind: int) -> Mode | None:
        """What comes after a token that is not a whole call; `self`, with `tape.at` behind it, if it is only text."""
        start = token.start()
        if kind == _INLINE:
            return self._unbalanced(tape, token)
        if kind == _BLOCK:
            line = tape.begin(start)
            if token[kind] == "search_code":
                return Query(line, self)
            return Block(token[kind], token[0], tape.place(start), line, self)
        if kind == _NAMED:
            return Object(token[0], _name(token[_NAMELESS]), tape.place(start), tape.begin(start), self)
        if kind == _NAMELESS:
            if token.end() == len(tape.text) and not tape.final:
                tape.at, tape.wait = start, _NAME_END
                return None
            tape.flaw_at(Fault.UNCLOSED, token[0], start)
        elif kind == _CLOSING:
            self._unopened(tape, token)
        elif kind == _FRAME:
            tape.flaw_at(Fault.FABRICATED, token[0], start)
        else:
            tape.count(start)
            if kind == _BACKTICKS or tape.lead <= LISTED:
                return Fence(tape, token[0], self)
        return self

    def wrote(self, line: int) -> Mode:
        """A file was written without content."""
        self._wrote = line
        return Written(WRITE_EMPTY, line, self)

    def _unopened(self, tape: Tape, token: re.Match[str]) -> None:
        if token[_CLOSING] == "write_file" and self._wrote is not None:
            tape.flaw(Fault.UNREADABLE, WRITE_EMPTY, self._wrote)
            self._wrote = None
        else:
            tape.flaw_at(Fault.UNOPENED, token[0], token.start())

    def _unbalanced(self, tape: Tape, token: re.Match[str]) -> Mode:
        """A bracket with others in its argument, or one that is not closed in the text so far."""
        start, after = token.start(), token.end()
        place, line = tape.place(start), self.line
        if place >= line.end:
            return Inline(token[1], token[0], place, tape.begin(start), self)
        if place not in line.pairs and tape.place(after) > line.last:
            tape.flaw_at(Fault.UNCLOSED, token[0], start)
            return self
        paired = line.pairs.get(place)
        close = tape.text.index("]", after) if paired is None else paired - tape.place(0)
        args = _arguments(token[1], tape.text[after:close])
        if args is None:
            tape.at = close + 1
            return self
        on = tape.begin(start)
        tape.call(TOOLS[token[1]], args, tape.take(close + 1))
        return self.wrote(on) if token[1] == "write_file" else self


class Inline:
    """A bracket that is not closed yet. Where it ends is known when its brackets are in pairs, or its line ends."""

    pending = True
    rewinds = True

    def __init__(self, name: str, tag: str, place: int, line: int, prose: Prose) -> None:
        self._name = name
        self._tag = tag
        self._line = line
        self._prose = prose
        self._open = [place]
        self._pairs: dict[int, int] = {}
        self._last = -1

    def read(self, tape: Tape) -> Mode | None:
        text, base = tape.text, tape.place(0)
        for bracket in _BRACKET.finditer(text, tape.at):
            at = bracket.start()
            if text[at] == "[":
                self._open.append(base + at)
            elif text[at] == "]":
                self._last = base + at
                self._pairs[self._open.pop()] = self._last
                if not self._open:
                    return self._whole(tape, at + 1)
            else:
                self._prose.line = Line(base + at, self._pairs, self._last)
                tape.rewind()
                return self._prose
        tape.at = len(text)
        return None

    def end(self, tape: Tape) -> None:
        tape.flaw(Fault.UNCLOSED, self._tag, self._line)

    def _whole(self, tape: Tape, end: int) -> Mode:
        text = tape.take(end)
        args = _arguments(self._name, text[len(self._tag) : -1])
        if args is None:
            tape.say(text)
            return self._prose
        tape.call(TOOLS[self._name], args, text)
        return self._prose.wrote(self._line) if self._name == "write_file" else self._prose


def _arguments(name: str, written: str) -> Args | None:
    """None if nothing is asked for."""
    value = written.strip()
    if name == "write_file":
        value = value.removeprefix("path=").strip()
        return {"path": value, "content": ""} if value else None
    if not value:
        return {"path": "."} if name == "list_dir" else None
    return {_ARGUMENT[name]: value}


def _name(written: str) -> str | None:
    """Between quotes a name may hold anything."""
    name = written.strip()
    if not name.startswith('"'):
        return name or None
    try:
        value: object = json.loads(name)
    except ValueError:
        return name
    return value if isinstance(value, str) else name
