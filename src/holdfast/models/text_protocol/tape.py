"""The reply as it runs through the reader: what is undecided, what is held, what has gone out."""

from __future__ import annotations

import re
from typing import Final, Protocol

from holdfast.contract.values import Args
from holdfast.models.text_protocol.grammar import BLANKS
from holdfast.models.text_protocol.pieces import Asked, Fault, Flaw, Said

_HEAD: Final = re.compile(
    rf"[{BLANKS}]*+(?P<quoted>[{BLANKS}>]*+)(?:(?:[-*+]|[0-9]{{1,9}}[.)])(?=[{BLANKS}])[{BLANKS}>]*+)*+"
)
"""How a line begins that stands in quotations and lists."""
_BEGINNING: Final = frozenset(f"{BLANKS}>-*+0123456789")
_MARKER: Final = re.compile(r"[-*+]|[0-9]{1,9}[.)]?")
"""What may become the marker of a list with the blank behind it."""
WHITE, QUOTED, LISTED, WORDS = range(4)
"""What has come on a line so far, at most: white space, marks of quotations, markers of lists, anything."""


class Mode(Protocol):
    """What the reader is in, which decides what a tag means."""

    @property
    def pending(self) -> bool:
        """Whether what is read may still become a call, and is held until then."""
        ...

    @property
    def rewinds(self) -> bool:
        """Whether what is held may have to be read again as prose."""
        ...

    def read(self, tape: Tape) -> Mode | None:
        """Go on from `tape.at` as far as the text decides. None: more is needed, from `tape.at` on."""
        ...

    def end(self, tape: Tape) -> None:
        """The reply ended in here."""
        ...


class Tape:
    """A window on the reply. Its first character is known already: it tells whether a line begins after it."""

    def __init__(self) -> None:
        self.text = "\n"
        self.at = 1
        self.mark = 1
        """Where what is neither out nor held begins."""
        self.final = False
        self.wait: re.Pattern[str] | None = None
        """What more text must hold before it can decide anything."""
        self.pieces: list[Said | Asked] = []
        self.flaws: list[Flaw] = []
        self.line = 1
        self.indent = 0
        """How far the line is indented, markers included; a tab counts as four."""
        self.quotes = 0
        """How many marks of quotations it begins with."""
        self.called = False
        """Whether there was a call."""
        self._base = -1
        self._counted = 1
        self._lead = WHITE
        self._marker = ""
        """What may be a marker at the end of what is counted."""
        self._held: list[str] = []
        self._waiting: list[str] = []

    def add(self, text: str) -> bool:
        """Whether there is anything to do now."""
        if self.wait is not None and self.wait.search(text) is None:
            self._waiting.append(text)
            return False
        self.text = "".join((self.text, *self._waiting, text))
        self._waiting.clear()
        self.wait = None
        return True

    def finish(self) -> None:
        self.wait = None
        self.final = True
        self.add("")

    def place(self, at: int) -> int:
        """Where an index of the window is in the reply."""
        return self._base + at

    def count(self, to: int) -> None:
        """Know the line that `to` is in; never goes back."""
        if to > self._counted:
            self._count(self.text, self._counted, to)
            self._counted = to

    @property
    def lead(self) -> int:
        """As of `count`, like the line and what it begins with."""
        return WORDS if self._marker else self._lead

    def skip(self, pattern: re.Pattern[str]) -> int:
        """Go past what matches here, if anything does; gives where that is."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return self.at

    def begin(self, at: int) -> int:
        """What may be a call begins here; gives its line."""
        self._say(at)
        self.count(at)
        return self.line

    def take(self, end: int) -> str:
        """All that is held, up to here; it is out of the window then."""
        text = self.text[self.mark : end]
        if self._held:
            text = "".join((*self._held, text))
            self._held.clear()
            if self._counted < self.mark:
                self._count(text, 0, len(text))
                self._counted = end
        self.mark = self.at = end
        return text

    def call(self, name: str, args: Args, text: str) -> None:
        self.pieces.append(Asked(name, args, text))
        self.called = True

    def say(self, text: str) -> None:
        if text:
            self.pieces.append(Said(text))

    def release(self, at: int) -> None:
        """What was held is only text, up to here."""
        self.say(self.take(at))

    def rewind(self) -> None:
        """Read again, from where it begins, what was held."""
        if self._held:
            held = "".join(self._held)
            self._held.clear()
            self.text = f"[{held}{self.text[1:]}"
            self._base -= len(held)
            self._counted = 1
            self.mark = 1
        self.at = self.mark

    def flaw(self, fault: Fault, tag: str, line: int) -> None:
        self.flaws.append(Flaw(fault, tag, line))

    def flaw_at(self, fault: Fault, tag: str, at: int) -> None:
        self.count(at)
        self.flaw(fault, tag, self.line)

    def settle(self, mode: Mode) -> None:
        """Let go of everything that is decided."""
        at = self.at
        if mode.pending:
            self._held.append(self.text[self.mark : at])
        else:
            self._say(at)
        if not mode.rewinds:
            self.count(at)
        self._base += at - 1
        self._counted = 1 if not mode.rewinds else 0
        self.text = self.text[at - 1 :]
        self.mark = self.at = 1

    def _say(self, end: int) -> None:
        if self.mark < end:
            self.pieces.append(Said(self.text[self.mark : end]))
            self.mark = end

    def _count(self, text: str, start: int, end: int) -> None:
        newline = text.rfind("\n", start, end)
        if newline >= 0:
            self.line += text.count("\n", start, newline + 1)
            self.indent, self.quotes, self._lead, self._marker = 0, 0, WHITE, ""
            start = newline + 1
        if self._lead != WORDS and start < end:
            if text[start] not in _BEGINNING and not self._marker:
                self._lead = WORDS
                return
            if self._marker:
                text = self._marker + text[start:end]
                start, end = 0, len(text)
            self._head(text, start, end)

    def _head(self, text: str, start: int, end: int) -> None:
        """The line goes on with this, and has only begun so far."""
        head = _HEAD.match(text, start, end)
        after = head.end() if head else start
        self.indent += after - start + 3 * text.count("\t", start, after)
        self.quotes += text.count(">", start, after)
        if head and after > head.end("quoted"):
            self._lead = LISTED
        elif head and head["quoted"]:
            self._lead = max(self._lead, QUOTED)
        marker = _MARKER.match(text, after, end)
        self._marker = marker[0] if marker and marker.end() == end else ""
        if after < end and not self._marker:
            self._lead = WORDS
