"""An output that is kept while it arrives: redacted, counted, and bounded."""

from __future__ import annotations

import os
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from holdfast.contract.errors import LedgerUnavailable
from holdfast.fs.private import PrivateFile
from holdfast.store.redact import RedactedStream


class Spill(Struct, frozen=True, kw_only=True):
    """An output that was kept."""

    reference: str
    size: int
    """Bytes kept."""
    dropped: int
    """Bytes after those, which were more than allowed and are gone."""
    lines: int


class SpillWriter:
    """Takes text or bytes in any pieces; bytes that are not UTF-8 are kept as they are."""

    def __init__(
        self, new: PrivateFile, path: Callable[[str], Path], redacted: RedactedStream, max_bytes: int, *, sync: bool
    ) -> None:
        self._new = new
        self._path = path
        self._redacted = redacted
        self._room = max(0, max_bytes)
        self._sync = sync
        self._hash = sha256()
        self._decoder = getincrementaldecoder("utf-8")("surrogateescape")
        self._size = self._dropped = 0
        self._lines = 1

    def write(self, piece: str | bytes) -> None:
        text = piece if isinstance(piece, str) else self._decoder.decode(piece)
        self._keep(self._redacted.feed(text))

    def close(self) -> Spill:
        self._keep(self._redacted.feed(self._decoder.decode(b"", True)) + self._redacted.flush())
        reference = self._hash.hexdigest()
        with translated("kept"):
            self._new.publish(self._path(reference), sync=self._sync)
        return Spill(reference=reference, size=self._size, dropped=self._dropped, lines=self._lines)

    def discard(self) -> None:
        """Harmless after `close`."""
        self._new.close()

    def _keep(self, text: str) -> None:
        data = _encode(text)
        kept = data if len(data) <= self._room else _cut(data, self._room)
        if len(kept) < len(data):
            self._room = 0
            self._dropped += len(data) - len(kept)
        else:
            self._room -= len(kept)
        with translated("kept"):
            self._new.write(kept)
        self._hash.update(kept)
        self._size += len(kept)
        self._lines += kept.count(b"\n")


class RawSpill:
    """Takes bytes as they are, as fast as they come: nothing is redacted, and the name is no digest."""

    def __init__(self, new: PrivateFile, path: Callable[[str], Path], max_bytes: int, *, sync: bool) -> None:
        self._new = new
        self._path = path
        self._room = max(0, max_bytes)
        self._sync = sync
        self._size = self._dropped = 0

    def write(self, piece: bytes | bytearray | memoryview) -> None:
        kept = piece if len(piece) <= self._room else _cut(bytes(piece[: self._room + 1]), self._room)
        if len(kept) < len(piece):
            self._room = 0
            self._dropped += len(piece) - len(kept)
        else:
            self._room -= len(kept)
        self._size += len(kept)
        with translated("kept"):
            self._new.write(kept)

    def close(self, lines: int) -> Spill:
        reference = os.urandom(32).hex()
        with translated("kept"):
            self._new.publish(self._path(reference), sync=self._sync)
        return Spill(reference=reference, size=self._size, dropped=self._dropped, lines=lines)

    def discard(self) -> None:
        self._new.close()


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _cut(data: bytes, length: int) -> bytes:
    """At most `length` bytes, not ending inside a character."""
    while length and data[length] & 0xC0 == 0x80:
        length -= 1
    return data[:length]


@contextmanager
def translated(what: str) -> Generator[None]:
    """Errors of the disk as errors of the ledger."""
    try:
        yield
    except FileNotFoundError as error:
        raise LedgerUnavailable("That content is not kept any more; run the call again to get it.") from error
    except OSError as error:
        raise LedgerUnavailable(
            f"The content could not be {what} ({error.strerror}); check the disk and permissions of the state folder."
        ) from error
