"""Content-addressed blobs beside the ledger, in files named by SHA-256: before-images, long outputs, large bodies."""

from __future__ import annotations

import os
import re
import time
import weakref
from codecs import getincrementaldecoder
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.contract.errors import LedgerCorrupt, LedgerUnavailable
from holdfast.fs.replace import PrivateFile
from holdfast.fs.temporary import make_temporary_folder, remove_temporary_folder
from holdfast.store.redact import RedactedStream, Redactor


class Spill(Struct, frozen=True, kw_only=True):
    """A long output that was stored, so that it can be read back in parts."""

    reference: str
    size: int
    """Bytes stored."""
    dropped: int
    """Bytes beyond the limit, which were not stored."""
    lines: int


class SpillWriter:
    """Stores an output that arrives in chunks of text or bytes, redacted. Bytes that are not UTF-8 are preserved."""

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
        with disk_errors("stored"):
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
        with disk_errors("stored"):
            self._new.write(kept)
        self._hash.update(kept)
        self._size += len(kept)
        self._lines += kept.count(b"\n")


class RawSpillWriter:
    """Stores bytes without redaction and hashing, for speed. The reference is random, not a digest."""

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
        with disk_errors("stored"):
            self._new.write(kept)

    def close(self, lines: int) -> Spill:
        reference = os.urandom(32).hex()
        with disk_errors("stored"):
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
    """Return at most `length` bytes, without splitting a UTF-8 character."""
    while length and data[length] & 0xC0 == 0x80:
        length -= 1
    return data[:length]


@contextmanager
def disk_errors(what: str) -> Generator[None]:
    """Translate `OSError` into `LedgerUnavailable`; `what` is the verb of the message."""
    try:
        yield
    except FileNotFoundError as error:
        raise LedgerUnavailable("This content is no longer stored. Run the call again to get it.") from error
    except OSError as error:
        raise LedgerUnavailable(
            f"The content could not be {what} ({error.strerror}). Check the disk and permissions of the state folder."
        ) from error


MAX_READ: Final = 1024 * 1024
"""The most bytes `read_lines` returns at once, however long the lines are."""
_REFERENCE: Final = re.compile(r"[0-9a-f]{64}")
_BLOCK: Final = 65_536
_SMALL: Final = 1024 * 1024
_CLAIM_SECONDS: Final = 6.0
"""Longer than a process waits for the lock of the database, to write the entry that uses a blob."""


class Blobs:
    """The blobs in a folder. Without one they are stored in a temporary folder that is removed with the object."""

    def __init__(self, folder: Path | None, redactor: Redactor, *, sync: bool = False) -> None:
        self._folder = folder
        self._redactor = redactor
        self._sync = sync

    @property
    def folder(self) -> Path:
        if self._folder is None:
            self._folder = make_temporary_folder("blobs")
            weakref.finalize(self, remove_temporary_folder, self._folder)
        return self._folder

    def put(self, content: bytes) -> str:
        """Store the content byte for byte and return its reference."""
        reference = sha256(content).hexdigest()
        path = self.path(reference)
        with disk_errors("stored"):
            if not _touch(path):
                with PrivateFile(self.folder) as new:
                    new.write(content)
                    new.publish(path, sync=self._sync)
        return reference

    def put_open(self, descriptor: int, size: int | None = None) -> str:
        """Store the rest of an open file, or `size` bytes of it, block by block; return its reference."""
        with disk_errors("stored"):
            blocks = _blocks(descriptor, size)
            first = next(blocks, b"")
            if len(first) < _SMALL:
                return self.put(first)
            with PrivateFile(self.folder) as new:
                digest = sha256()
                for block in chain((first,), blocks):
                    digest.update(block)
                    new.write(block)
                path = self.path(digest.hexdigest())
                if not _touch(path):
                    new.publish(path, sync=self._sync)
        return path.name

    def touch(self, reference: str) -> bool:
        """Whether the blob exists. Updates its modification time, so that a concurrent prune does not remove it."""
        return _touch(self.path(reference))

    def discard(self, references: Collection[str], used: Callable[[], Collection[str]]) -> tuple[int, int]:
        """Remove those blobs that are not in `used()`; return their number and total size.

        A blob that was just stored gets time first: another process may have stored the same content for an entry that
        it is about to write.
        """
        stored = {reference: at for reference in references if (at := self._stored_at(reference)) is not None}
        young = max(stored.values(), default=0.0) + _CLAIM_SECONDS - time.time()
        if young > 0:
            time.sleep(min(young, _CLAIM_SECONDS))
        count = size = 0
        for reference in stored.keys() - set(used()):
            with disk_errors("removed"), suppress(FileNotFoundError):
                path = self.path(reference)
                found = path.stat()
                if found.st_mtime != stored[reference]:
                    continue  # touched meanwhile: another call has claimed it
                path.unlink()
                count, size = count + 1, size + found.st_size
        return count, size

    def _stored_at(self, reference: str) -> float | None:
        try:
            return self.path(reference).stat().st_mtime
        except OSError:
            return None

    def has(self, reference: str) -> bool:
        return self.path(reference).exists()

    def read(self, reference: str) -> bytes:
        with disk_errors("read"):
            content = self.path(reference).read_bytes()
        if sha256(content).hexdigest() != reference:
            raise LedgerCorrupt(f"The stored content {reference[:12]} has been changed on disk. Do not use it.")
        return content

    def spill(self, output: str | bytes, max_bytes: int) -> Spill:
        """Store the first `max_bytes` of an output, redacted."""
        with self.spill_writer(max_bytes) as writer:
            writer.write(output)
            return writer.close()

    @contextmanager
    def spill_writer(self, max_bytes: int) -> Generator[SpillWriter]:
        """A writer for output that arrives in chunks. Without `close` the output is discarded."""
        with disk_errors("stored"):
            new = PrivateFile(self.folder)
        try:
            yield SpillWriter(new, self.path, self._redactor.stream(), max_bytes, sync=self._sync)
        finally:
            new.close()

    def open_spill(self, max_bytes: int, *, redacted: bool) -> SpillWriter | RawSpillWriter:
        """Return a writer for output that arrives in chunks; the caller closes or discards it."""
        with disk_errors("stored"):
            new = PrivateFile(self.folder)
        if redacted:
            return SpillWriter(new, self.path, self._redactor.stream(), max_bytes, sync=self._sync)
        return RawSpillWriter(new, self.path, max_bytes, sync=self._sync)

    def read_lines(self, reference: str, offset: int, limit: int, max_bytes: int = MAX_READ) -> tuple[str, int]:
        """Return `limit` lines from line `offset` (1-based), and the total number of lines. Reads block by block."""
        first = max(1, offset)
        kept = bytearray()
        line = 1
        with disk_errors("read"), self.path(reference).open("rb") as file:
            while block := file.read(_BLOCK):
                newlines = block.count(b"\n")
                if line + newlines >= first and line < first + limit and len(kept) < max_bytes:
                    kept += _slice(block, first - line, first + limit - line)
                line += newlines
        text = bytes(kept[:max_bytes]).decode("utf-8", "replace" if len(kept) <= max_bytes else "ignore")
        return text.removesuffix("\n") if text.count("\n") == limit else text, line

    def path(self, reference: str) -> Path:
        if not _REFERENCE.fullmatch(reference):
            raise LedgerUnavailable(f"{reference[:80]!r} is not a content reference, which has 64 hexadecimal digits.")
        return self.folder / reference[:2] / reference


def _blocks(descriptor: int, size: int | None) -> Iterator[bytes]:
    """Yield blocks of `_SMALL` bytes; only the last is shorter."""
    left = size
    while left is None or left > 0:
        block = bytearray()
        while len(block) < _SMALL and (piece := os.read(descriptor, min(_SMALL - len(block), left or _SMALL))):
            block += piece
            left = None if left is None else left - len(piece)
            if left == 0:
                break
        if block:
            yield bytes(block)
        if len(block) < _SMALL:
            return


def _touch(path: Path) -> bool:
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _slice(block: bytes, skip: int, end: int) -> bytes:
    """Return the part after the `skip`-th newline up to and including the `end`-th one, or to the end of the block."""
    start = 0
    for _ in range(skip):
        start = block.find(b"\n", start) + 1
    stop = start
    for _ in range(end - max(skip, 0)):
        found = block.find(b"\n", stop)
        if found < 0:
            return block[start:]
        stop = found + 1
    return block[start:stop]
