"""`LogTail`: the last lines of a log that arrives in blocks, in constant memory whatever the log contains."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import deque
from typing import Final, Protocol

MAX_LINE: Final = 8 * 1024
"""Bytes of one line that are kept; of a longer one the beginning."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;:]*m")


class Redact(Protocol):
    def __call__(self, text: str, *, cut: bool) -> str: ...


def _unchanged(text: str, *, cut: bool) -> str:
    return text


class LogTail:
    """Keeps at most `max_lines` lines and `max_bytes` bytes of UTF-8. `feed` returns what became complete, as text.

    Each line goes through `redact`, which is told whether its end is missing.
    """

    def __init__(
        self, max_lines: int, max_bytes: int, *, max_line: int = MAX_LINE, redact: Redact = _unchanged
    ) -> None:
        self._redact = redact
        self.max_lines = max_lines
        self._max_bytes = max_bytes
        self.max_line = max_line
        self._lines: deque[str] = deque()
        self._kept = 0
        self._open = bytearray()
        """The beginning of the line that is not complete yet."""
        self._cut = 0
        """Bytes of that line that were dropped."""
        self._in_line = False
        self.bytes = 0
        self.lines = 0
        """How many lines arrived."""
        self.long_lines = 0
        """How many of them were cut."""

    def feed(self, block: bytes) -> list[str]:
        self.bytes += len(block)
        finished: list[str] = []
        start = 0
        while (end := block.find(b"\n", start)) >= 0:
            self._extend(block, start, end)
            finished.append(self._finish())
            start = end + 1
        if start < len(block):
            self._extend(block, start, len(block))
        return finished

    def end(self, *, broken: bool = False) -> list[str]:
        """Complete the last line, which has no newline. `broken`: the log breaks off there."""
        return [self._finish(broken=broken)] if self._in_line else []

    @property
    def kept(self) -> list[str]:
        return list(self._lines)

    @property
    def dropped(self) -> int:
        """How many lines at the beginning are not kept."""
        return self.lines - len(self._lines)

    def _extend(self, block: bytes, start: int, end: int) -> None:
        self._in_line = True
        room = max(0, self.max_line - len(self._open))
        self._open += block[start : min(end, start + room)]
        self._cut += max(0, end - start - room)

    def _finish(self, *, broken: bool = False) -> str:
        cut = broken or self._cut > 0
        text = getincrementaldecoder("utf-8")("replace").decode(self._open, final=not cut).removesuffix("\r")
        text = self._redact(_COLOURS.sub("", text), cut=cut)
        if self._cut:
            self.long_lines += 1
            text += f"… [{self._cut:,} more bytes]"
        self._open.clear()
        self._cut, self._in_line = 0, False
        self.lines += 1
        self._keep(text)
        return text

    def _keep(self, text: str) -> None:
        self._lines.append(text)
        self._kept += _size(text)
        while len(self._lines) > self.max_lines or (self._kept > self._max_bytes and len(self._lines) > 1):
            self._kept -= _size(self._lines.popleft())


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass")) + 1
