"""One child process and the frames to and from it; every wait has an end, and a child that is late is killed."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from holdfast.helper_process import isolated_python, start
from holdfast.import_path import import_order

MAX_FRAME: Final = 16 << 20
START_SECONDS: Final = 30.0
_PROGRAM: Final = (
    "import sys; h = sys.modules['holdfast'] = type(sys)('holdfast'); h.__path__ = [sys.argv[1]]; "
    "from holdfast.chat.lua.child import main; main(sys.argv[2], int(sys.argv[3]))"
)
"""Only the child's own modules are loaded, and of what is installed only lupa."""
_BLOCK: Final = 1 << 18


class ChildTooSlow(Exception):
    """It did not answer in time and was killed."""


class ChildTooLoud(Exception):
    """Its answer was larger than any answer may be; it was killed."""


class ChildLost(Exception):
    """It ended by itself, or was ended by a limit."""


class Child:
    """A Lua process. After any of the exceptions above it is gone."""

    def __init__(self) -> None:
        found = PathFinder.find_spec("lupa", import_order(sys.path))
        if found is None or found.origin is None:
            raise ChildLost
        folder = Path(found.origin).parent.parent
        package = Path(__file__).parents[2]
        self._process = start(
            isolated_python("-c", _PROGRAM, str(package), str(folder), str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        for fd in (self._in, self._out):
            os.set_blocking(fd, False)
        self._received = bytearray()
        try:
            self.receive(time.monotonic() + START_SECONDS)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, body: bytes, deadline: float) -> None:
        view = memoryview(len(body).to_bytes(4, "big") + body)
        while view:
            self._wait(self._in, select.POLLOUT, deadline)
            try:
                view = view[os.write(self._in, view[:_BLOCK]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                self._lost()

    def receive(self, deadline: float) -> bytes:
        size = int.from_bytes(self._exactly(4, deadline), "big")
        if size > MAX_FRAME:
            self.kill()
            raise ChildTooLoud
        return self._exactly(size, deadline)

    def kill(self) -> None:
        """End it and clear up; again is harmless."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()

    def _exactly(self, size: int, deadline: float) -> bytes:
        while len(self._received) < size:
            self._wait(self._out, select.POLLIN, deadline)
            try:
                block = os.read(self._out, _BLOCK)
            except BlockingIOError:
                continue
            if not block:
                self._lost()
            self._received += block
        found = bytes(self._received[:size])
        del self._received[:size]
        return found

    def _wait(self, fd: int, event: int, deadline: float) -> None:
        left = deadline - time.monotonic()
        poll = select.poll()
        poll.register(fd, event)
        if left <= 0 or not poll.poll(left * 1000):
            self.kill()
            raise ChildTooSlow

    def _lost(self) -> None:
        self.kill()
        raise ChildLost
