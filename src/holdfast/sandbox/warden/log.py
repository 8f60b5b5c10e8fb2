"""The output of a command in the background, written by its worker. Standard library only, and little of it."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG_BLOCK = 65_536


class Log:
    """The output of a command that runs in the background, in two files of which the older is dropped in turn."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self.fd, self.pipe = os.pipe()
        os.set_blocking(self.fd, False)
        self._base, self._half = wanted["base"], max(1, wanted["limit"] // 2)
        self._file = -1
        self._room = self._lines = 0
        self._files: list[str] = []

    def started(self) -> None:
        os.close(self.pipe)
        self._next_file()

    def close(self) -> None:
        """The command was not started."""
        os.close(self.pipe)
        os.close(self.fd)

    def pump(self) -> bool | None:
        """Take what is there now; False at the end, None when there is nothing now."""
        try:
            block = os.read(self.fd, LOG_BLOCK)
        except BlockingIOError:
            return None
        if not block:
            return False
        if self._room < len(block):
            end = block.rfind(b"\n") + 1  # a file begins with a line
            self._write(block[:end])
            self._next_file()
            block = block[end:]
        self._write(block)
        return True

    def _write(self, block: bytes) -> None:
        try:
            os.write(self._file, block)
        except OSError:
            pass  # a full disk must not stop the process
        self._room -= len(block)
        self._lines += block.count(b"\n")

    def finish(self, status: int, *, alone: bool) -> None:
        """Take the rest, and write down how the command ended; `alone`: nobody was there to be told."""
        while self.pump():
            pass
        new = f"{self._base}.end.new"
        try:
            fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            os.write(fd, f"{status} {time.time():.3f} {int(alone)}".encode())
            os.close(fd)
            os.rename(new, f"{self._base}.end")
        except OSError:
            pass  # then nobody will know

    def _next_file(self) -> None:
        """Named by the number of lines that came before it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        name = f"{self._base}.out.{len(self._files)}.{self._lines}"
        self._files.append(name)
        self._room = self._half
        try:
            self._file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            if len(self._files) > 2:
                os.unlink(self._files[-3])
        except OSError:
            pass  # the folder may be gone; the process goes on
