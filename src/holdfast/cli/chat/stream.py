"""Live terminal output of a running turn: a status line, and text that arrives in chunks."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final, TextIO
from unicodedata import category

from holdfast.cli import console
from holdfast.cli.prompt import is_prompt_open
from holdfast.text.escape import clip, escape, escape_block

_CLEAR: Final = "\r\x1b[K"
_TICK: Final = 1.0


class StatusLine:
    """The last line of the terminal while something runs: what, for how long, and its latest output.

    Other output must call `clear` first.
    """

    def __init__(self) -> None:
        self._visible = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._running: dict[str, tuple[str, float]] = {}
        self._latest = ""
        self._drawn = False
        self._ticker: asyncio.Task[None] | None = None

    def begin(self, key: str, text: str) -> None:
        self._running[key] = (text, time.monotonic())
        if self._visible and (self._ticker is None or self._ticker.done()):
            self._ticker = asyncio.create_task(self._tick())

    def update(self, text: str) -> None:
        """Show the last line of new output."""
        lines = text.rstrip("\n").rsplit("\n", 1)
        if lines[-1].strip():
            self._latest = escape(lines[-1][-console.screen_width(sys.stderr) :])

    def end(self, key: str) -> None:
        self._running.pop(key, None)
        self._latest = ""
        self.clear()
        if not self._running and self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None

    def end_all(self) -> None:
        for key in tuple(self._running):
            self.end(key)

    def clear(self) -> None:
        if self._drawn:
            console.show_prompt(_CLEAR)
            self._drawn = False

    def draw(self) -> None:
        """Draw the current state; nothing without a terminal, or if nothing runs."""
        if not self._visible or not self._running:
            return
        text, since = next(iter(self._running.values()))
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        line = f"… {text}{more}, {time.monotonic() - since:.0f} s"
        line = f"{line}: {self._latest}" if self._latest else line
        line = clip(line, console.screen_width(sys.stderr) - 1)
        console.show_prompt(f"{_CLEAR}{console.paint(line, 'dim', stream=sys.stderr)}")
        self._drawn = True

    async def _tick(self) -> None:
        while self._running:
            await asyncio.sleep(_TICK)
            if not is_prompt_open():
                self.draw()


_MAX_MARKS: Final = 200
"""Combining marks that are buffered for one letter before it is shown anyway."""


class TextStream:
    """Prints streamed text, escaped: on standard output, or dimmed on standard error.

    A terminal gets each chunk at once. A pipe gets the text only when the reply is final: the text of a reply that is
    retried must not be in it.
    """

    def __init__(self, *, dim: bool = False) -> None:
        self._dim = dim
        self._incomplete = ""
        self._buffer: list[str] = []
        """Text for a pipe, until `commit` or `discard`."""
        self.open = False
        """Whether the last line has no newline yet."""
        self._last = ""

    def write(self, chunk: str) -> None:
        text = self._incomplete + chunk
        cut = _complete_length(text)
        self._incomplete = text[cut:]
        self._put(text[:cut])

    def end(self) -> None:
        """Write the rest, and end the line."""
        self._put(self._incomplete)
        self._incomplete = ""
        if self.open:
            self._put("\n")

    def commit(self) -> None:
        """The reply is final: write the buffered text to the pipe."""
        self.end()
        if self._buffer:
            console.write_chunk(escape_block("".join(self._buffer)), self._target())
            self._buffer.clear()

    def break_line(self) -> None:
        """End the line, if one is open."""
        if self.open:
            self._put(self._incomplete + "\n")
            self._incomplete = ""

    def discard(self) -> None:
        """Drop the text that a pipe has not got yet."""
        if self._buffer:
            self._buffer.clear()
            self._incomplete, self.open = "", False

    def _put(self, text: str) -> None:
        if not text:
            return
        self.open = not text.endswith("\n")
        target = self._target()
        if not target.isatty():
            self._buffer.append(text)
            return
        # A combining mark at the start belongs to the last character that was written.
        before = escape_block(self._last)
        shown = escape_block(self._last + text)[len(before) :]
        self._last = text[-1]
        lines = shown.split("\n")
        # Style line by line: a style that spans lines would stay on if the output is cut.
        painted = [console.paint(line, "dim", stream=target) if self._dim and line else line for line in lines]
        console.write_chunk("\n".join(painted), target)

    def _target(self) -> TextIO:
        return sys.stderr if self._dim else sys.stdout


def _complete_length(text: str) -> int:
    """Return the length that can be shown now: more combining marks may still follow the last letter."""
    end = len(text)
    while end > 0 and len(text) - end < _MAX_MARKS and category(text[end - 1]) in ("Mn", "Me"):
        end -= 1
    return end if len(text) - end < _MAX_MARKS else len(text)
