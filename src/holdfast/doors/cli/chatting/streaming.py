"""A model's words while they come: shown at once, and never more dangerous in pieces than as a whole."""

from __future__ import annotations

import sys
from typing import Final, TextIO
from unicodedata import category

from holdfast.doors.cli import screen
from holdfast.text.visible import visible_block

_MAX_HELD: Final = 200
"""A letter with more marks than this is shown as it is so far."""


class Stream:
    """Text in pieces on standard output, or dimmed on standard error.

    On a terminal it is shown at once and made visible. In a pipe it is raw, and comes when it is certain to stay: what
    was said in a reply that is asked for again must not be there.
    """

    def __init__(self, *, dim: bool = False) -> None:
        self._dim = dim
        self._held = ""
        self._kept: list[str] = []
        """For a pipe, until it is known that it stays."""
        self.open = False
        """Whether something was written that no newline ended."""
        self._last = ""

    def write(self, piece: str) -> None:
        text = self._held + piece
        cut = _complete(text)
        self._held = text[cut:]
        self._put(text[:cut])

    def end(self) -> None:
        """All that is left, and the end of the line."""
        self._put(self._held)
        self._held = ""
        if self.open:
            self._put("\n")

    def keep(self) -> None:
        """What was said stays: a pipe gets it now."""
        self.end()
        if self._kept:
            screen.put_piece("".join(self._kept), self._target())
            self._kept.clear()

    def break_line(self) -> None:
        """What comes next is not the same sentence."""
        if self.open:
            self._put(self._held + "\n")
            self._held = ""

    def drop(self) -> None:
        """What a pipe has not got yet, it never gets."""
        if self._kept:
            self._kept.clear()
            self._held, self.open = "", False

    def _put(self, text: str) -> None:
        if not text:
            return
        self.open = not text.endswith("\n")
        target = self._target()
        if not target.isatty():
            self._kept.append(text)
            return
        # A mark at the beginning is drawn on what was shown last.
        before = visible_block(self._last)
        shown = visible_block(self._last + text)[len(before) :]
        self._last = text[-1]
        lines = shown.split("\n")
        # Line by line: a colour that spans lines would stay on when the output is cut.
        painted = [screen.paint(line, "dim", stream=target) if self._dim and line else line for line in lines]
        screen.put_piece("\n".join(painted), target)

    def _target(self) -> TextIO:
        return sys.stderr if self._dim else sys.stdout


def _complete(text: str) -> int:
    """Up to where it can be shown: how many marks pile up on a letter is known when the next letter comes."""
    place = len(text)
    while place > 0 and len(text) - place < _MAX_HELD and category(text[place - 1]) in ("Mn", "Me"):
        place -= 1
    return place if len(text) - place < _MAX_HELD else len(text)
