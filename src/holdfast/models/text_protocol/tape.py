"""The reply as it runs through the reader: what is undecided, what is held, what has gone out."""

from __future__ import annotations

import re
from typing import Protocol

from holdfast.contract.values import Args
from holdfast.models.text_protocol.pieces import Asked, Fault, Flaw, Said


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
        """How far the line is indented; a tab counts as four."""
        self.blank = True
        """Whether the line has only been indented so far. These three are as of `count`."""
        self._base = -1
        self._counted = 1
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
            self.indent, self.blank = 0, True
            start = newline + 1
        if self.blank and start < end:
            segment = text[start:end]
            rest = segment.lstrip(" \t>")
            blanks = len(segment) - len(rest)
            self.indent += blanks + 3 * segment.count("\t", 0, blanks)
            self.blank = not rest
