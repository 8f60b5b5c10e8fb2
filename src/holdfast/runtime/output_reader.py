"""The output of a command: read from its pipe without back-pressure, counted, truncated, and spilled to disk."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import threading
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.context import TruncatedText
from holdfast.contract.errors import LedgerError
from holdfast.store.blobs import Blobs, RawSpillWriter, Spill, SpillWriter
from holdfast.text.truncate import format_size, head, tail, truncate_by_bytes, with_notice

_MEMORY_LIMIT: Final = 256 * 1024
"""Output up to this size stays in memory. More goes to disk, and is read in a thread unless it is streamed."""
_MARGIN: Final = 64 * 1024
"""Bytes kept beyond the limit: trailing whitespace is not counted, and the cut must find a line end."""
_READ: Final = 64 * 1024
_BLOCK: Final = 256 * 1024
_PIPE: Final = 1024 * 1024
_POLL_MS: Final = 100
_F_SETPIPE_SZ: Final = 1031


class OutputLimits(Struct, frozen=True, kw_only=True):
    """How much of an output is shown, and how much is spilled to disk."""

    keeps: Literal["head", "tail"]
    max_bytes: int
    max_lines: int | None
    """None: limited by bytes only."""
    max_spill: int = 0


class CapturedOutput(Struct, frozen=True, kw_only=True):
    """The truncated output, and the size of the whole."""

    text: str
    total_bytes: int
    total_lines: int
    output_lines: int
    truncated: bool = False
    notice: str = ""
    spill: Spill | None = None


class OutputBuffer:
    """Collects an output in bounded memory."""

    def __init__(self, limits: OutputLimits, blobs: Blobs | None, redact: Callable[[], bool]) -> None:
        self.total = 0
        self._limits = limits
        self._window = limits.max_bytes + _MARGIN
        self._blobs = blobs
        self._redact = redact
        self._newlines = 0
        self._bytes = bytearray()
        """The whole output until it is too large; then the window at the start or at the end that is shown."""
        self._spill: SpillWriter | RawSpillWriter | None = None
        self._spilling = False
        self._failed = False

    def feed(self, block: bytes | bytearray | memoryview) -> None:
        size = len(block)
        self.total += size
        self._newlines += bytes(block).count(b"\n") if isinstance(block, memoryview) else block.count(b"\n")
        if not self._spilling and self.total > max(_MEMORY_LIMIT, self._window):
            self._begin_spilling()
        if self._spilling:
            self._write(block)
        self._append(block, size)

    def feed_from(self, buffer: bytearray, size: int) -> None:
        """Like `feed`, for the first `size` bytes of a reused buffer, without copying them where possible."""
        if self._spilling and size > self._window:
            self.total += size
            self._newlines += buffer.count(b"\n", 0, size)
            with memoryview(buffer) as view:
                self._write(view[:size])
                if self._limits.keeps == "tail":
                    self._bytes[:] = view[size - self._window : size]
        else:
            self.feed(bytes(memoryview(buffer)[:size]))

    def _append(self, block: bytes | bytearray | memoryview, size: int) -> None:
        if not self._spilling:
            self._bytes += block
        elif self._limits.keeps == "tail":
            self._bytes += block[-self._window :]
            if len(self._bytes) > 2 * self._window:
                del self._bytes[: -self._window]

    def _begin_spilling(self) -> None:
        self._spilling = True
        self._open()
        self._write(self._bytes)
        if self._limits.keeps == "head":
            del self._bytes[self._window :]

    def _open(self) -> None:
        if self._blobs is not None and self._limits.max_spill:
            try:
                self._spill = self._blobs.open_spill(self._limits.max_spill, redacted=self._redact())
            except LedgerError:
                self._failed = True

    def _write(self, block: bytes | bytearray | memoryview) -> None:
        if self._spill is None:
            return
        try:
            if isinstance(self._spill, RawSpillWriter):
                self._spill.write(block)
            else:
                self._spill.write(bytes(block))
        except LedgerError:
            self._failed = True
            self.discard()

    def discard(self) -> None:
        if self._spill is not None:
            self._spill.discard()
            self._spill = None

    def finish(self, redacted: Callable[[str], str], where: str, margin: int = 0) -> CapturedOutput:
        """Redact and truncate the output. `where` says how to read the rest.

        `margin`: the length of the longest secret. A tail may start inside a secret, which redaction would not
        recognise, so that many characters are dropped from its start.
        """
        window = bytes(
            self._bytes if self._limits.keeps == "head" else self._bytes[-max(self._window, _MEMORY_LIMIT) :]
        )
        whole = len(window) == self.total
        text = redacted(_decode(window, from_start=whole or self._limits.keeps == "head"))
        if margin and not whole and self._limits.keeps == "tail":
            text = text[margin:]
        lines = self._newlines + 1
        if self._limits.keeps == "tail":
            bare = text.rstrip()
            lines -= text.count("\n", len(bare))
            text = bare
        cut = self._cut(text)
        if whole and not cut.truncated:
            return CapturedOutput(text=text, total_bytes=self.total, total_lines=lines, output_lines=cut.output_lines)
        spill = self._keep(window if whole else b"")
        return CapturedOutput(
            text=cut.content,
            total_bytes=self.total,
            total_lines=lines,
            output_lines=cut.output_lines,
            truncated=True,
            notice=self._notice(cut, lines, spill, where),
            spill=spill,
        )

    def _cut(self, text: str) -> TruncatedText:
        limits = self._limits
        if limits.max_lines is None:
            return truncate_by_bytes(text, limits.max_bytes, limits.keeps)
        return (head if limits.keeps == "head" else tail)(text, limits.max_lines, limits.max_bytes)

    def _keep(self, whole: bytes) -> Spill | None:
        if not self._spilling:
            self._open()
            self._write(whole)
        if self._spill is None:
            return None
        try:
            if isinstance(self._spill, RawSpillWriter):
                return self._spill.close(self._newlines + 1)
            return self._spill.close()
        except LedgerError:
            self._failed = True
            self.discard()
            return None

    def _notice(self, cut: TruncatedText, lines: int, spill: Spill | None, where: str) -> str:
        place = "could not be kept" if self._failed else None
        if spill is not None:
            place = where + (f", first {format_size(spill.size)}" if spill.dropped else "")
        counted = replace(cut, content="", truncated=True, total_lines=lines, total_bytes=self.total)
        return with_notice(counted, self._limits.keeps, place, self._limits.max_bytes).strip("\n")


class PipeReader:
    """Reads a pipe into an output buffer: in the event loop while the output is small or streamed, else in a thread."""

    def __init__(
        self, fd: int, sink: OutputBuffer, watch: Callable[[bytes], None] | None, watched: Callable[[], bool]
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._sink = sink
        self._on_block = watch
        self._is_watched = watched
        self._loop = asyncio.get_running_loop()
        self._reading = True
        self._thread: asyncio.Future[None] | None = None
        self._ending = self._abandoned = False
        self._loop.add_reader(fd, self._ready)

    def end(self) -> asyncio.Future[None] | None:
        """Read what is left in the pipe, after every process has ended. The returned future must be awaited.

        The end of file may never come, because a process outside the sandbox may hold the pipe open. So at most a
        pipe's capacity is read.
        """
        self._ending = True
        if self._reading:
            left = _PIPE
            while left > 0 and (size := self._take()):
                left -= size
        self._close()
        return self._thread

    def abandon(self) -> None:
        """Stop reading and discard the output."""
        self._ending = self._abandoned = True
        self._close()
        if self._thread is None:
            self._sink.discard()

    def _close(self) -> None:
        self._stop_reading()
        if self._thread is None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _ready(self) -> None:
        if self._take() == 0:
            self._stop_reading()
        elif self._sink.total > _MEMORY_LIMIT and not self._is_watched():
            self._stop_reading()
            self._thread = self._loop.create_future()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._fd, _F_SETPIPE_SZ, _PIPE)
            threading.Thread(target=self._drain, name="holdfast-output", daemon=True).start()

    def _take(self) -> int | None:
        """Read once and return the number of bytes; 0 at the end of file, None if the pipe is empty."""
        try:
            block = os.read(self._fd, _READ)
        except BlockingIOError:
            return None
        if block:
            self._sink.feed(block)
            if self._on_block is not None:
                self._on_block(block)
        return len(block)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _drain(self) -> None:
        thread = self._thread
        assert thread is not None
        try:
            self._drain_all()
        finally:
            os.close(self._fd)
            self._fd = -1
            if self._abandoned:
                self._sink.discard()
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                self._loop.call_soon_threadsafe(_resolve, thread)

    def _drain_all(self) -> None:
        buffer = bytearray(_BLOCK)
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        after_the_end = _PIPE
        while after_the_end > 0:
            ending = self._ending
            try:
                size = os.readv(self._fd, [buffer])
            except BlockingIOError:
                if ending:
                    return
                poll.poll(_POLL_MS)
                continue
            if not size:
                return
            self._sink.feed_from(buffer, size)
            if ending:
                after_the_end -= size


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _decode(data: bytes, *, from_start: bool) -> str:
    """Decode UTF-8 with replacement characters. Continuation bytes at a cut start are dropped."""
    start = 0
    while not from_start and start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode("utf-8", "replace")
