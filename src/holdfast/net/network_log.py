"""The network log: one line of JSON for each connection that was allowed or refused. One file per project.

The line is written before the connection is opened, so that no connection is missing. Only hosts and ports are logged,
never paths or queries.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

NETWORK_LOG: Final = "network.jsonl"
"""The name of the log in a project's state folder."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""The size at which a log is rotated. One older file is kept."""
BURST_SECONDS: Final = 10.0
"""Repetitions within this time are counted, and written as one line afterwards."""
_MAX_BURSTS: Final = 1024
_MAX_EXCESS: Final = 8
_MAX_LINE: Final = 64 * 1024
_MAX_ADDRESSES: Final = 16
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

Outcome = Literal["allowed", "refused", "unresolved"]


class NetworkEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision of the gateway."""

    at: float
    """Seconds since 1970."""
    by: str
    """The tool, server or model that asked."""
    host: str
    port: int
    outcome: Outcome
    addresses: tuple[str, ...] = ()
    """The addresses of the host, unless it was refused by name."""
    reason: str = ""
    """Why it was refused, or could not be resolved."""
    count: int = 1
    """How many equal decisions the line stands for."""


class NetworkLog:
    """Appends entries to a file that only the user can read. Several processes can write to the same file."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES) -> None:
        """`path` is in an existing folder."""
        self.path = path
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._bursts: dict[NetworkEntry, tuple[float, NetworkEntry | None]] = {}
        """When each entry was written, and its repetitions since then as one entry."""

    def record(self, entry: NetworkEntry) -> None:
        """Write an entry, or count it as a repetition. Raises `OSError` if it cannot be written."""
        entry = _clean(entry)
        kind = replace(entry, at=0.0)
        with self._lock:
            # In the order in which they began, so that a call looks at few of them.
            ended = list(takewhile(lambda each: not self._lasts(each, entry.at), self._bursts))
            if kind in self._bursts and kind not in ended and not self._lasts(kind, entry.at):
                ended.append(kind)  # the clock was set back
            lines = [repeated for each in ended if (repeated := self._bursts[each][1]) is not None]
            if kind in self._bursts and kind not in ended:
                began, repeated = self._bursts[kind]
                count = 0 if repeated is None else repeated.count
                self._bursts[kind] = (began, replace(entry, count=count + 1))
            else:
                lines.append(entry)
            self._append(lines)
            for each in ended:
                del self._bursts[each]
            if lines and lines[-1] is entry and len(self._bursts) < _MAX_BURSTS:
                self._bursts[kind] = (entry.at, None)

    def _lasts(self, kind: NetworkEntry, now: float) -> bool:
        return 0 <= now - self._bursts[kind][0] < BURST_SECONDS

    def close(self) -> None:
        """Write the repetitions that are only counted so far."""
        with self._lock:
            lines = [repeated for _, repeated in self._bursts.values() if repeated is not None]
            self._bursts.clear()
            with suppress(OSError):  # each stands beside a line that was written
                self._append(lines)

    def _append(self, entries: list[NetworkEntry]) -> None:
        if not entries:
            return
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        # Opened each time: another process may have rotated the file.
        with _opened(self.path) as file:
            if os.fstat(file).st_size + len(data) > self._max_bytes:
                self._rotate()
        with _opened(self.path) as file:
            # One write with O_APPEND, so that lines of several processes do not mix.
            if (written := os.write(file, data)) < len(data):
                with suppress(OSError):
                    os.write(file, b"\n")
                raise OSError(f"only {written} of {len(data)} bytes could be written")

    def _rotate(self) -> None:
        # A missing file has just been rotated by another process.
        with closing(_FileLock(self.path.with_suffix(".lock"))) as lock, suppress(FileNotFoundError):
            size = self.path.stat().st_size
            # If another process holds the lock, it rotates the file, and this line may exceed the size. If that process
            # is stopped, the file grows up to a limit.
            if lock.acquired and size > self._max_bytes // 2:
                self.path.replace(older_log(self.path))
            elif size > self._max_bytes * _MAX_EXCESS:
                raise OSError(f"it has {size:,} bytes, and another process prevents its rotation")


class _FileLock:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, _FLAGS, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.acquired = True
        except BlockingIOError:
            self.acquired = False

    def close(self) -> None:
        os.close(self._file)


@contextmanager
def _opened(path: Path) -> Generator[int]:
    file = os.open(path, _FLAGS, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def older_log(path: Path) -> Path:
    """Return the path of the rotated file."""
    return path.with_suffix(f".1{path.suffix}")


def read_log(path: Path) -> Iterator[NetworkEntry | None]:
    """Yield the entries of a log and its rotated file, oldest first; None for a line that cannot be read."""
    decoder = msgspec.json.Decoder(NetworkEntry)
    for part in (older_log(path), path):
        with suppress(FileNotFoundError), part.open("rb") as file:
            while line := file.readline(_MAX_LINE):
                if line.strip():
                    try:
                        yield decoder.decode(line)
                    except msgspec.DecodeError:
                        yield None


def _clean(entry: NetworkEntry) -> NetworkEntry:
    """Bound the texts of an entry, so that a line is short enough for one write."""
    return replace(
        entry,
        by=_bounded(entry.by, 200),
        host=_bounded(entry.host, 255),
        addresses=tuple(_bounded(each, 100) for each in entry.addresses[:_MAX_ADDRESSES]),
        reason=_bounded(entry.reason, 1000),
    )


def _bounded(text: str, most: int) -> str:
    # A lone surrogate cannot be encoded.
    text = text.encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"
