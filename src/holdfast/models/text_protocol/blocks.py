"""Reads blocks: from their opening tag to their own closing one, whatever lies between."""

from __future__ import annotations

import re
from typing import Final

from holdfast.models.text_protocol.behind import Closed, unreadable
from holdfast.models.text_protocol.bodies import DELIMITERS, read_edit, read_query, read_write
from holdfast.models.text_protocol.grammar import ANY_FRAME, ANY_TAG, TOOLS, unfinished
from holdfast.models.text_protocol.pieces import Fault
from holdfast.models.text_protocol.tape import LISTED, QUOTED, WHITE, Mode, Tape

_FENCE: Final = r"(?P<fence>```|~~~)"
_HEADER: Final = {
    kind: re.compile(
        rf"(?P<delimiter>{delimiter})|(?P<tag>{ANY_TAG})|{_FENCE}|(?P<frame>{ANY_FRAME})", re.MULTILINE
    )
    for kind, delimiter in DELIMITERS.items()
}
_OWN: Final = {kind: re.compile(rf"\[(/?){kind}\]") for kind in DELIMITERS}
_OPENED: Final = {kind: "[call:" if kind == "call" else f"[{kind}]" for kind in DELIMITERS}
_QUERY: Final = re.compile(rf"\n[ \t]*+\r?\n|{ANY_TAG}|```|~~~|{ANY_FRAME}")
_PERHAPS_BLANK: Final = re.compile(r"\n[ \t]*+\r?\Z")
_NOT_BLANK: Final = re.compile(r"[^ \t\r]")
_LINE_END: Final = re.compile(r"[ \t]*+(?:\r?(?=\n|\Z)|(?P<other>))")
_NEWLINE: Final = re.compile("\n")


class Query:
    """`[search_code]`: a block if nothing but its query comes before its closing tag, else only text."""

    pending = True
    rewinds = False

    def __init__(self, line: int, prose: Mode) -> None:
        self._line = line
        self._prose = prose

    def read(self, tape: Tape) -> Mode | None:
        text = tape.text
        token = _QUERY.search(text, tape.at)
        if token is None:
            tape.at = self._undecided(tape)
            return None
        if token[0] != "[/search_code]":
            tape.release(token.start())
            return self._prose
        written = tape.take(token.end())
        query = read_query(written[len("[search_code]") : -len("[/search_code]")])
        if query:
            tape.call(TOOLS["search_code"], {"query": query}, written)
        else:
            tape.flaw(Fault.UNREADABLE, "[search_code]", self._line)
            tape.say(written)
        return self._prose

    def end(self, tape: Tape) -> None:
        pass

    def _undecided(self, tape: Tape) -> int:
        newline = -1 if tape.final else tape.text.rfind("\n", tape.at)
        if newline >= 0 and _PERHAPS_BLANK.match(tape.text, newline):
            tape.wait = _NOT_BLANK
            return newline
        return len(tape.text) if tape.final else unfinished(tape.text, tape.at)


class Block:
    """`[write_file]`, `[edit_file]`, and a `[call: …]` that no object follows."""

    pending = True
    rewinds = False

    def __init__(self, kind: str, tag: str, place: int, line: int, prose: Mode) -> None:
        self._kind = kind
        self._tag = tag
        self._place = place
        self._line = line
        self._prose = prose
        self._body = False
        self._mixed = False
        """Whether another tag was seen before the body: then it is not clear what was meant."""
        self._depth = 0
        self._nested: list[tuple[int, int]] = []
        """Where in the reply blocks of the same kind lie in the body."""
        self._opened = 0

    def read(self, tape: Tape) -> Mode | None:
        return self._read_body(tape) if self._body else self._read_header(tape)

    def end(self, tape: Tape) -> None:
        tape.flaw(Fault.UNCLOSED, self._tag, self._line)

    def _read_header(self, tape: Tape) -> Mode | None:
        """Line by line: no call can end before the body has begun."""
        end = len(tape.text) if tape.final else tape.text.rfind("\n", tape.at) + 1
        for token in _HEADER[self._kind].finditer(tape.text, tape.at, max(end, tape.at)):
            start = token.start()
            what = token.lastgroup
            if what == "delimiter":
                tape.at, self._body = token.end(), True
                return self
            if what == "frame":
                tape.flaw_at(Fault.FABRICATED, token[0], start)
            elif what == "fence":
                tape.count(start)
                if token[0] == "```" or tape.lead <= LISTED:
                    return self._only_text(tape, start, flawed=True)
            elif token[0] == _OPENED[self._kind]:
                return self._only_text(tape, start, flawed=self._mixed)
            elif token[0] == f"[/{self._kind}]":
                return self._unreadable(tape, tape.take(token.end()))
            else:
                self._mixed = True
        tape.at, tape.wait = max(end, tape.at), _NEWLINE
        return None

    def _only_text(self, tape: Tape, at: int, *, flawed: bool) -> Mode:
        """The tag was a word about calls, and no call."""
        if flawed:
            tape.flaw(Fault.UNCLOSED, self._tag, self._line)
        tape.release(at)
        return self._prose

    def _unreadable(self, tape: Tape, written: str) -> Mode:
        tape.flaw(unreadable(self._kind), self._tag, self._line)
        tape.say(written)
        return self._prose

    def _read_body(self, tape: Tape) -> Mode | None:
        text, at = tape.text, tape.at
        for token in _OWN[self._kind].finditer(text, at):
            start, at = token.span()
            if token[1] and not self._depth:
                tape.count(start)
                return self._close(tape, at, alone=tape.lead == WHITE)
            line_end = _LINE_END.match(text, at)
            if line_end is None or (line_end.end() == len(text) and not tape.final):
                tape.at, tape.wait = start, _NOT_BLANK
                return None
            tape.count(start)
            if tape.lead <= QUOTED and line_end["other"] is None:
                self._nest(-1 if token[1] else 1, tape.place(start), tape.place(at))
        tape.at = len(text) if tape.final else unfinished(text, at)
        return None

    def _nest(self, deeper: int, start: int, end: int) -> None:
        if not self._depth:
            self._opened = start
        self._depth += deeper
        if not self._depth:
            self._nested.append((self._opened, end))

    def _close(self, tape: Tape, end: int, *, alone: bool) -> Mode:
        """`alone`: its line begins with the tag; else there must be nothing behind it either."""
        written = tape.take(end)
        inner = written[len(self._tag) : -len(self._tag) - 1]
        if self._kind == "write_file":
            args = read_write(inner)
        else:
            offset = self._place + len(self._tag)
            args = read_edit(inner, [(start - offset, stop - offset) for start, stop in self._nested])
        if args is None or self._mixed:
            return self._unreadable(tape, written)
        tape.call(TOOLS[self._kind], args, written)
        return self._prose if alone else Closed(self._kind, self._tag, self._line, self._prose)
