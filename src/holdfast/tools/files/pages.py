"""Some lines of a file, found by reading it in blocks: what is shown is bounded, and so is what it costs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final, Literal, NamedTuple

from msgspec import Struct

SNIFFED_BYTES: Final = 8192
UNKNOWN_MIME: Final = "application/octet-stream"
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"\x1f\x8b", "application/gzip"),
)
_MAGIC_IF_BINARY: Final = (
    (b"BM", "image/bmp"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"PK\x03\x04", "application/zip"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def mime_type(head: bytes, name: str) -> str | None:
    """The kind of a binary file; None for text. A NUL byte near the beginning tells them apart, as it does for git."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if b"\0" not in head:
        return None
    if head.startswith(b"RIFF") and head[8:12] in _RIFF:
        return _RIFF[head[8:12]]
    for magic, kind in _MAGIC_IF_BINARY:
        if head.startswith(magic):
            return kind
    return _by_name(name)


def attachment_kind(mime: str) -> Literal["image", "audio", "file"]:
    family = mime.partition("/")[0]
    return family if family in ("image", "audio") else "file"


def _by_name(name: str) -> str:
    import mimetypes

    guess = mimetypes.guess_type(name)[0] or UNKNOWN_MIME
    return UNKNOWN_MIME if guess.startswith("text/") else guess


COUNTED_BYTES: Final = 16 * 1024 * 1024
"""Lines of a larger file are not counted just to say how many there are."""
NOTICE_BYTES: Final = 128
NOTICE_LINES: Final = 2
_BLOCK: Final = 1024 * 1024

Limit = Literal["lines", "bytes", "limit", "line"]


class OffsetBeyondEnd(Exception):
    def __init__(self, total_lines: int) -> None:
        self.total_lines = total_lines
        super().__init__(total_lines)


class PageLimits(NamedTuple):
    """How much may be shown, the notice about the rest included."""

    lines: int
    bytes: int
    cap: int
    """Lines of the file itself."""


class Page(Struct, frozen=True, kw_only=True):
    content: str
    """Whole lines with their ends, so that pages put together are the file."""
    lines: int
    total_lines: int | None
    """None: the file is too large to count them."""
    next_offset: int | None
    limited_by: Limit | None
    line_bytes: int | None = None
    """How long the first line is, if it alone is too long to show; at least that long in a large file."""


class _FittingLines(NamedTuple):
    texts: list[str]
    used: int
    """Bytes of the file."""
    limited_by: Literal["lines", "bytes"] | None


class LineReader:
    """An open file as lines; the last one may lack its newline."""

    def __init__(self, opened: int, size: int, stop: Callable[[], bool]) -> None:
        self._opened = opened
        self._counted = size <= COUNTED_BYTES
        self._stop = stop

    def page(self, offset: int, limit: int | None, room: PageLimits) -> Page:
        """From line `offset` (1-based), at most `limit` lines and what there is room for."""
        start = self._start_of(offset)
        raw = self._read(start, room.bytes + 1)
        wanted = room.cap if limit is None else min(limit, room.cap)
        found = _fitting_lines(raw, len(raw) <= room.bytes, wanted, room.bytes)
        if found.limited_by is None:
            return _last_page(found, offset)
        noticed = min(wanted, room.lines - NOTICE_LINES)
        found = _fitting_lines(raw, len(raw) <= room.bytes, noticed, room.bytes - NOTICE_BYTES)
        shown = len(found.texts)
        if not shown:
            return self._long_line(offset, start)
        by = "limit" if shown == limit else found.limited_by
        total = offset - 1 + shown + self._count_from(start + found.used) if self._counted else None
        return Page(
            content="".join(found.texts), lines=shown, total_lines=total, next_offset=offset + shown, limited_by=by
        )

    def _start_of(self, offset: int) -> int:
        """Where line `offset` begins."""
        position, missing, last = 0, offset - 1, b"\n"
        while missing:
            block = self._read(position, _BLOCK)
            if not block:
                raise OffsetBeyondEnd(offset - 1 - missing + (last != b"\n"))
            here = block.count(b"\n")
            if here >= missing:
                position += len(block) - len(block.split(b"\n", missing)[-1])
                break
            missing, last = missing - here, block[-1:]
            position += len(block)
        if offset > 1 and not self._read(position, 1):
            raise OffsetBeyondEnd(offset - 1)
        return position

    def _long_line(self, offset: int, start: int) -> Page:
        length, ended = 0, False
        for block in self._blocks(start):
            end = block.find(b"\n")
            ended = end >= 0
            length += end if ended else len(block)
            if ended:
                break
        after = start + length + 1
        more = bool(self._read(after, 1))
        return Page(
            content="",
            lines=0,
            total_lines=offset + (self._count_from(after) if ended else 0) if self._counted else None,
            next_offset=offset + 1 if more else None,
            limited_by="line",
            line_bytes=length,
        )

    def _count_from(self, position: int) -> int:
        lines, last = 0, b"\n"
        for block in self._blocks(position):
            lines, last = lines + block.count(b"\n"), block[-1:]
        return lines + (last != b"\n")

    def _blocks(self, position: int) -> Iterator[bytes]:
        for start in range(position, position + COUNTED_BYTES, _BLOCK):
            block = self._read(start, _BLOCK)
            if not block:
                return
            yield block

    def _read(self, position: int, size: int) -> bytes:
        """Exactly `size` bytes unless the file ends there."""
        if self._stop():
            raise InterruptedError
        data = os.pread(self._opened, size, position)
        while 0 < len(data) < size and (more := os.pread(self._opened, size - len(data), position + len(data))):
            data += more
        return data


def _last_page(found: _FittingLines, offset: int) -> Page:
    lines = len(found.texts)
    return Page(
        content="".join(found.texts), lines=lines, total_lines=offset - 1 + lines, next_offset=None, limited_by=None
    )


def _fitting_lines(raw: bytes, ends_here: bool, max_lines: int, max_bytes: int) -> _FittingLines:
    """The lines of `raw` that may be shown, decoded; half a line at its end counts only if the file ends there."""
    pieces = raw.split(b"\n")
    rest = pieces.pop()
    lines = [piece + b"\n" for piece in pieces]
    if ends_here and rest:
        lines.append(rest)
    texts: list[str] = []
    shown = used = 0
    for line in lines:
        if len(texts) == max_lines:
            return _FittingLines(texts, used, "lines")
        text, size = _decode(line)
        if shown + size > max_bytes:
            return _FittingLines(texts, used, "bytes")
        texts.append(text)
        shown, used = shown + size, used + len(line)
    return _FittingLines(texts, used, None if ends_here else "bytes")


def _decode(line: bytes) -> tuple[str, int]:
    """The text of a line and its size in UTF-8. No broken character reaches across a newline."""
    try:
        return line.decode(), len(line)
    except UnicodeDecodeError:
        text = line.decode(errors="replace")
        return text, len(text.encode())
