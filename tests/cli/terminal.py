"""The real command on a pty; every wait for its output is bounded."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Sequence
from types import TracebackType

from tests.cli.command_line import Cli, start_command, utf8_decoder

PATIENCE = 100.0
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """`with Terminal(cli, "call", …) as person:`, then `expect` output and `type` lines."""

    def __init__(
        self, cli: Cli, *args: str, columns: int = 80, rows: int = 40, via: Sequence[str] = (), **env: str
    ) -> None:
        self._ours, theirs = pty.openpty()
        self._open = True
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = start_command(cli, args, [theirs] * 3, terminal=True, via=via, **env)
        os.close(theirs)
        self.raw = ""
        self._decoder = utf8_decoder()
        self._seen = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(PATIENCE)
        self.hang_up()

    @property
    def text(self) -> str:
        """The output without colours."""
        return _STYLE.sub("", self.raw).replace("\r\n", "\n")

    def expect(self, words: str) -> None:
        """Wait until the text appears after the last expected text."""
        deadline = time.monotonic() + PATIENCE
        while words not in self.text[self._seen :]:
            assert self._read(deadline), f"{words!r} did not appear:\n{self.text}"
        self._seen += self.text[self._seen :].index(words) + len(words)

    def type(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def hang_up(self) -> None:
        """Close the terminal, as a lost connection does."""
        if self._open:
            self._open = False
            os.close(self._ours)

    def wait(self) -> int:
        """The exit code of a command that has no terminal any more."""
        return self._process.wait(PATIENCE)

    def finish(self) -> int:
        """Wait for the end; return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self._process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        """Read more output; return False at the end. Fails after the deadline."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no more output:\n{self.text}"
        try:
            piece = os.read(self._ours, 65_536)
        except OSError:
            return False
        self.raw += self._decoder.decode(piece)
        return bool(piece)
