"""Pages of a text file, read in blocks so that output and cost are bounded; and MIME types from file signatures."""

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
    """Return the MIME type of a binary file, or None for text. Like git, a NUL byte near the start means binary."""
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
    import mimetypes  # only unknown binary files need it

    guess = mimetypes.guess_type(name)[0] or UNKNOWN_MIME
    return UNKNOWN_MIME if guess.startswith("text/") else guess


COUNTED_BYTES: Final = 16 * 1024 * 1024
"""Larger files are not read to the end just to count their lines."""
NOTICE_BYTES: Final = 128
NOTICE_LINES: Final = 2
_BLOCK: Final = 1024 * 1024

Limit = Literal["lines", "bytes", "limit", "line"]


class OffsetBeyondEnd(Exception):
    """The requested offset is past the last line."""

    def __init__(self, total_lines: int) -> None:
        self.total_lines = total_lines
        super().__init__(total_lines)


class PageLimits(NamedTuple):
    """Limits of a page, including the notice about the rest."""

    lines: int
    bytes: int
    cap: int
    """Maximum number of lines of the file itself."""


class Page(Struct, frozen=True, kw_only=True):
    content: str
    """Whole lines including their newlines: concatenated pages are the file."""
    lines: int
    total_lines: int | None
    """None: the file is too large to count."""
    next_offset: int | None
    limited_by: Limit | None
    line_bytes: int | None = None
    """The length of the first line if it is too long to show; a lower bound in a large file."""


class _FittingLines(NamedTuple):
    texts: list[str]
    used: int
    """Bytes of the file that the texts cover."""
    limited_by: Literal["lines", "bytes"] | None


class LineReader:
    """Reads pages of lines from an open file; the last line may lack a newline."""

    def __init__(self, opened: int, size: int, stop: Callable[[], bool]) -> None:
        self._opened = opened
        self._counted = size <= COUNTED_BYTES
        self._stop = stop

    def page(self, offset: int, limit: int | None, limits: PageLimits) -> Page:
        """Return the page from line `offset` (1-based): at most `limit` lines, within the limits."""
        start = self._start_of(offset)
        raw = self._read(start, limits.bytes + 1)
        wanted = limits.cap if limit is None else min(limit, limits.cap)
        found = _fitting_lines(raw, len(raw) <= limits.bytes, wanted, limits.bytes)
        if found.limited_by is None:
            return _last_page(found, offset)
        noticed = min(wanted, limits.lines - NOTICE_LINES)
        found = _fitting_lines(raw, len(raw) <= limits.bytes, noticed, limits.bytes - NOTICE_BYTES)
        shown = len(found.texts)
        if not shown:
            return self._long_line(offset, start)
        by = "limit" if shown == limit else found.limited_by
        total = offset - 1 + shown + self._count_from(start + found.used) if self._counted else None
        return Page(
            content="".join(found.texts), lines=shown, total_lines=total, next_offset=offset + shown, limited_by=by
        )

    def _start_of(self, offset: int) -> int:
        """Return the byte position of line `offset`. Raises `OffsetBeyondEnd`."""
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
        """Read exactly `size` bytes, or fewer at the end of the file. Raises `InterruptedError` if the call was
        cancelled."""
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
    """Decode the lines of `raw` that fit. A partial last line counts only if the file ends there."""
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
    """Decode one line; return its text and size in UTF-8. Invalid bytes cannot affect the next line."""
    try:
        return line.decode(), len(line)
    except UnicodeDecodeError:
        text = line.decode(errors="replace")
        return text, len(text.encode())
