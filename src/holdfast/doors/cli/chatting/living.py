"""A sign of life while something runs: one line on the person's terminal that is replaced, and gone in the end."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Final

from holdfast.doors.cli import screen
from holdfast.doors.cli.typing_in import somebody_asks
from holdfast.text.visible import visible
from holdfast.text.width import clip

_CLEAR: Final = "\r\x1b[K"
_TICK: Final = 1.0


class LiveLine:
    """What runs, for how long, and the last it said. Whoever writes anything else clears it first."""

    def __init__(self) -> None:
        self._seen = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._running: dict[str, tuple[str, float]] = {}
        self._last = ""
        self._drawn = False
        self._ticking: asyncio.Task[None] | None = None

    def begin(self, key: str, words: str) -> None:
        self._running[key] = (words, time.monotonic())
        if self._seen and (self._ticking is None or self._ticking.done()):
            self._ticking = asyncio.create_task(self._tick())

    def hear(self, text: str) -> None:
        """The end of what was said last."""
        lines = text.rstrip("\n").rsplit("\n", 1)
        if lines[-1].strip():
            self._last = visible(lines[-1][-screen.screen_width(sys.stderr) :])

    def end(self, key: str) -> None:
        self._running.pop(key, None)
        self._last = ""
        self.clear()
        if not self._running and self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    def end_all(self) -> None:
        for key in tuple(self._running):
            self.end(key)

    def clear(self) -> None:
        if self._drawn:
            screen.prompt(_CLEAR)
            self._drawn = False

    def draw(self) -> None:
        """As it is now; nothing where nobody looks or nothing runs."""
        if not self._seen or not self._running:
            return
        words, since = next(iter(self._running.values()))
        more = f" and {len(self._running) - 1} more" if len(self._running) > 1 else ""
        line = f"… {words}{more}, {time.monotonic() - since:.0f} s"
        line = f"{line}: {self._last}" if self._last else line
        line = clip(line, screen.screen_width(sys.stderr) - 1)
        screen.prompt(f"{_CLEAR}{screen.paint(line, 'dim', stream=sys.stderr)}")
        self._drawn = True

    async def _tick(self) -> None:
        while self._running:
            await asyncio.sleep(_TICK)
            if not somebody_asks():
                self.draw()
