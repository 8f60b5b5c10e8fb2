"""`LoginFile`: a stored OAuth login in a private file, with a lock so that two processes do not refresh it at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from holdfast.fs.replace import open_lock, read_private, try_lock, write_private

LoginT = TypeVar("LoginT", bound=Struct)
_MOST_BYTES: Final = 1 << 20
_POLL_SECONDS: Final = 0.05


class LoginFile(Generic[LoginT]):
    """With a path the login is persistent; without one it is lost with the process."""

    def __init__(self, path: Path | None, nothing: LoginT) -> None:
        """`nothing` stands for no login, and its type is that of the content."""
        self._path = path
        self._nothing = nothing
        self._kept = nothing

    def read(self) -> LoginT:
        """The stored login; a file that cannot be read or belongs to another user counts as none."""
        if self._path is None:
            return self._kept
        try:
            return msgspec.json.decode(read_private(self._path, _MOST_BYTES), type=type(self._nothing))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return self._nothing

    def write(self, kept: LoginT) -> None:
        self._kept = kept
        if self._path is not None:
            write_private(self._path, msgspec.json.encode(kept), sync=True)

    def forget(self) -> bool:
        """Delete the login; False if there was none."""
        had, self._kept = self._kept is not self._nothing, self._nothing
        if self._path is None:
            return had
        with suppress(FileNotFoundError):
            self._path.unlink()
            return True
        return False

    @asynccontextmanager
    async def locked(self, seconds: float) -> AsyncGenerator[None]:
        """Hold the lock of the login, which every process takes before it changes it. Raises `TimeoutError`."""
        if self._path is None:
            yield
            return
        descriptor = open_lock(self._path.with_suffix(".lock"))
        try:
            async with asyncio.timeout(seconds):
                while not try_lock(descriptor):  # noqa: ASYNC110 - flock has no asynchronous form
                    await asyncio.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)
