"""Content kept beside the ledger, in files named by their SHA-256: before-images, long outputs, large bodies."""

from __future__ import annotations

import re
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

from holdfast.contract.errors import LedgerCorrupt, LedgerUnavailable
from holdfast.store.files import NewFile, translated
from holdfast.store.redact import Redactor
from holdfast.store.spill import Spill, SpillWriter

MAX_READ: Final = 1024 * 1024
"""The most bytes `read_lines` gives in one answer, however long the lines are."""
_REFERENCE: Final = re.compile(r"[0-9a-f]{64}")
_BLOCK: Final = 65_536


class Blobs:
    """Without a folder the content lives in a temporary one, which goes when the object goes."""

    def __init__(self, folder: Path | None, redactor: Redactor, *, sync: bool = False) -> None:
        self._folder = folder
        self._redactor = redactor
        self._sync = sync

    @property
    def folder(self) -> Path:
        if self._folder is None:
            import shutil
            import tempfile

            self._folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def put(self, content: bytes) -> str:
        """Keep the content byte for byte and return its reference."""
        reference = sha256(content).hexdigest()
        path = self.path(reference)
        with translated("kept"):
            if not path.exists():
                new = NewFile(self.folder)
                try:
                    new.file.write(content)
                    new.publish(path, sync=self._sync)
                finally:
                    new.discard()
        return reference

    def read(self, reference: str) -> bytes:
        with translated("read"):
            content = self.path(reference).read_bytes()
        if sha256(content).hexdigest() != reference:
            raise LedgerCorrupt(f"The kept content {reference[:12]} was changed since it was kept; do not use it.")
        return content

    def spill(self, output: str | bytes, max_bytes: int) -> Spill:
        """Keep an output, redacted, as far as it is allowed."""
        with self.spill_writer(max_bytes) as writer:
            writer.write(output)
            return writer.close()

    @contextmanager
    def spill_writer(self, max_bytes: int) -> Generator[SpillWriter]:
        """For output that arrives in pieces; what was not closed is thrown away."""
        with translated("kept"):
            new = NewFile(self.folder)
        try:
            yield SpillWriter(new, self.path, self._redactor.stream(), max_bytes, sync=self._sync)
        finally:
            new.discard()

    def read_lines(self, reference: str, offset: int, limit: int, max_bytes: int = MAX_READ) -> tuple[str, int]:
        """Lines from number `offset` (1-based), and how many there are in all. Reads in blocks, keeps what it gives."""
        first = max(1, offset)
        kept = bytearray()
        line = 1
        with translated("read"), self.path(reference).open("rb") as file:
            while block := file.read(_BLOCK):
                newlines = block.count(b"\n")
                if line + newlines >= first and line < first + limit and len(kept) < max_bytes:
                    kept += _slice(block, first - line, first + limit - line)
                line += newlines
        text = bytes(kept[:max_bytes]).decode("utf-8", "replace" if len(kept) <= max_bytes else "ignore")
        return text.removesuffix("\n") if text.count("\n") == limit else text, line

    def path(self, reference: str) -> Path:
        if not _REFERENCE.fullmatch(reference):
            raise LedgerUnavailable(f"{reference[:80]!r} is not the name of kept content; it is 64 hexadecimal digits.")
        return self.folder / reference[:2] / reference


def _slice(block: bytes, skip: int, end: int) -> bytes:
    """From after the `skip`-th newline to the `end`-th one, or to where the block ends."""
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
