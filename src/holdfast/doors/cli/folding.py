"""Sentences folded at spaces for the person at the terminal; in a pipe they stay whole, and so do commands."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Final, TextIO

from holdfast.doors.cli import screen
from holdfast.text.width import text_width

_WORDS: Final = re.compile(r"(?:`[^`]*`|[^\s`]|`)+")
"""What is between backticks is to be copied, so it counts as one word."""


def folded(text: str, stream: TextIO, *, first: int = 0, hang: int = 2) -> Iterator[str]:
    """The lines of a sentence, without an indent: `first` columns are left for the first, `hang` for the others."""
    if not stream.isatty():
        yield text
        return
    room = screen.screen_width() - 1
    line, left = "", room - first
    for word in _WORDS.findall(text):
        if line and text_width(line) + 1 + text_width(word) > left:
            yield line
            line, left = word, room - hang
        else:
            line = f"{line} {word}" if line else word
    yield line


def note_folded(text: str, label: str = "", *styles: str) -> None:
    """A sentence on standard error behind a label, its further lines indented; each line of a text for itself."""
    head = f"{screen.paint(label, *styles, stream=sys.stderr)} " if label else ""
    for number, paragraph in enumerate(text.split("\n")):
        first = len(label) + 1 if head and not number else 0
        lines = folded(paragraph, sys.stderr, first=first)
        screen.note((head if not number else "") + "\n  ".join(lines))
