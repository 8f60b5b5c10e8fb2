"""Truncates output by whole lines and by bytes. Tools get a `Truncator` as `ctx.truncate`.

Lines are separated by newlines, so a trailing newline starts one more (empty) line. Bytes are UTF-8; a lone surrogate
counts as three bytes.
"""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from holdfast.contract.context import TruncatedText

MAX_LINES: int = 2000
MAX_BYTES: int = 51200
MAX_LINE_CHARS: int = 500
_LINE_SUFFIX = "... [truncated]"
_CHUNK = 1 << 20

End = Literal["head", "tail"]


def head(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> TruncatedText:
    """Keep whole lines from the start."""
    return _truncate(text, max(0, max_lines), max(0, max_bytes), "head")


def tail(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> TruncatedText:
    """Keep whole lines from the end; only the end of the last line if it exceeds the limit."""
    return _truncate(text, max(0, max_lines), max(0, max_bytes), "tail")


def _truncate(text: str, max_lines: int, max_bytes: int, kept: End) -> TruncatedText:
    whole = _untruncated(text)
    if whole.total_lines <= max_lines and whole.total_bytes <= max_bytes:
        return whole
    # A character has at least one byte, so nothing outside this window can fit.
    if kept == "head":
        window = text[: max_bytes + 1].split("\n", max_lines)[:max_lines]
    else:
        window = text[-(max_bytes + 1) :].rsplit("\n", max_lines)[::-1][:max_lines]
    fitting, used = _fitting(window, max_bytes)
    cut = replace(whole, truncated=True, truncated_by="bytes" if fitting < len(window) else "lines")
    too_long = fitting == 0 and bool(window)
    if too_long and kept == "tail":
        end = _last_bytes(window[0], max_bytes)
        return replace(cut, content=end, output_lines=1, output_bytes=byte_size(end), last_line_partial=True)
    content = "\n".join(window[:fitting] if kept == "head" else window[:fitting][::-1])
    return replace(cut, content=content, output_lines=fitting, output_bytes=used, first_line_exceeds_limit=too_long)


def _untruncated(text: str) -> TruncatedText:
    lines, size = text.count("\n") + 1, byte_size(text)
    return TruncatedText(content=text, total_lines=lines, total_bytes=size, output_lines=lines, output_bytes=size)


class Truncator:
    """Truncates to the configured limits unless others are given."""

    def __init__(self, max_lines: int, max_bytes: int) -> None:
        self._limits = (max_lines, max_bytes)

    @property
    def MAX_LINES(self) -> int:  # noqa: N802 - the name tools know it by
        return self._limits[0]

    @property
    def MAX_BYTES(self) -> int:  # noqa: N802
        return self._limits[1]

    def head(self, text: str, max_lines: int | None = None, max_bytes: int | None = None) -> TruncatedText:
        return head(text, *self._or(max_lines, max_bytes))

    def tail(self, text: str, max_lines: int | None = None, max_bytes: int | None = None) -> TruncatedText:
        return tail(text, *self._or(max_lines, max_bytes))

    def format_size(self, size: int) -> str:
        return format_size(size)

    def _or(self, lines: int | None, size: int | None) -> tuple[int, int]:
        return self.MAX_LINES if lines is None else lines, self.MAX_BYTES if size is None else size


def truncate_by_bytes(text: str, max_bytes: int, kept: End) -> TruncatedText:
    """Keep the first or last bytes, split between characters; lines do not matter."""
    whole = _untruncated(text)
    if whole.total_bytes <= max_bytes:
        return whole
    part = _untruncated((_first_bytes if kept == "head" else _last_bytes)(text, max_bytes))
    return replace(
        part, truncated=True, truncated_by="bytes", total_lines=whole.total_lines, total_bytes=whole.total_bytes
    )


def with_notice(cut: TruncatedText, kept: End, full_output: str | None = None, max_bytes: int = MAX_BYTES) -> str:
    """Return the content, followed by a note about which part it is and where the full output is."""
    if not cut.truncated:
        return cut.content
    where = f". Full output: {full_output}" if full_output else ""
    limit = format_size(max_bytes)
    if cut.first_line_exceeds_limit:
        return f"[Output too large: {format_size(cut.total_bytes)} in a single line, exceeds {limit} limit{where}]"
    if cut.last_line_partial:
        return f"{cut.content}\n\n[Showing last {format_size(cut.output_bytes)} of line {cut.total_lines}{where}]"
    first = 1 if kept == "head" else cut.total_lines - cut.output_lines + 1
    last = first + cut.output_lines - 1
    by_bytes = f" ({limit} limit)" if cut.truncated_by == "bytes" else ""
    return f"{cut.content}\n\n[Showing lines {first}-{last} of {cut.total_lines}{by_bytes}{where}]"


def truncate_bytes(text: str, limit: int) -> str:
    """Return the text, or its first `limit` bytes and a line with the number of hidden bytes."""
    size = byte_size(text)
    limit = max(0, limit)
    if size <= limit:
        return text
    kept = _first_bytes(text, limit)
    return f"{kept}\n[Output truncated - {size - byte_size(kept)} bytes hidden]"


def truncate_line(line: str, limit: int = MAX_LINE_CHARS) -> str:
    """Return a line of at most `limit` bytes, including the suffix that marks a truncated line."""
    if byte_size(line) <= limit:
        return line
    return _first_bytes(line, max(0, limit - len(_LINE_SUFFIX))) + _LINE_SUFFIX


def format_size(size: int) -> str:
    """Format a byte count: 12345 becomes 12.1KB."""
    if size < 1024:
        return f"{size}B"
    amount = size / 1024
    for unit in ("KB", "MB"):
        if amount < 1024:
            return f"{amount:.1f}{unit}"
        amount /= 1024
    return f"{amount:.1f}GB"


def byte_size(text: str) -> int:
    """Return the size in UTF-8. Encodes in chunks to avoid a second copy of a large text."""
    if text.isascii():
        return len(text)
    return sum(len(_encode(text[start : start + _CHUNK])) for start in range(0, len(text), _CHUNK))


def _fitting(lines: list[str], max_bytes: int) -> tuple[int, int]:
    """Return how many lines fit, joined by newlines, and their size."""
    used = 0
    for index, line in enumerate(lines):
        more = byte_size(line) + (1 if index else 0)
        if used + more > max_bytes:
            return index, used
        used += more
    return len(lines), used


def _first_bytes(text: str, limit: int) -> str:
    data = _encode(text[: limit + 1])
    end = min(limit, len(data))
    while end and end < len(data) and data[end] & 0xC0 == 0x80:  # in the middle of a character
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


def _last_bytes(text: str, limit: int) -> str:
    data = _encode(text[-(limit + 1) :])
    start = max(0, len(data) - limit)
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode("utf-8", "surrogatepass")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
