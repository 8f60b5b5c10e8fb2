"""The process that searches without ripgrep: a request comes in on stdin, what was found goes out on stdout, as JSON.

Imports nothing of holdfast but the walk: it is started without site-packages, to be quick.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import stat
import sys

from holdfast.tools.search.walk import FILE_FLAGS, Folders, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Final

    Bytes = bytes | bytearray | mmap.mmap
    Lines = Callable[[Bytes, int], Iterator[int]]
    """Where the first hit of each matching line is, in the first so many bytes."""

_SMALL: Final = 1 << 20


def literal_lines(query: bytes) -> Lines:
    def lines(data: Bytes, size: int) -> Iterator[int]:
        at = data.find(query, 0, size)
        while at >= 0:
            yield at
            end = data.find(b"\n", at, size)
            if end < 0:
                return
            at = data.find(query, end + 1, size)

    return lines


def folded_lines(query: bytes) -> Lines:
    """Upper and lower case ASCII letters are the same."""
    wanted = literal_lines(query.lower())
    return lambda data, size: wanted(data[:size].lower(), size)


def pattern_lines(pattern: bytes) -> Lines:
    """For patterns that never match a newline."""
    import re

    search = re.compile(pattern, re.MULTILINE).search

    def lines(data: Bytes, size: int) -> Iterator[int]:
        last = size - 1 if size and data[size - 1] == 0x0A else size
        at = 0
        while size and at <= last:
            found = search(data, at, last)
            if found is None:
                return
            yield found.start()
            end = data.find(b"\n", found.start(), size)
            if end < 0:
                return
            at = end + 1

    return lines


def lines_for(query: bytes, *, regex: bool, fold: bool) -> Lines:
    if regex:
        return pattern_lines(query)
    return folded_lines(query) if fold else literal_lines(query)


class Scan:
    """Searches files, reusing one buffer for those that fit in it."""

    def __init__(self, lines: Lines, first: int = 0) -> None:
        self._lines = lines
        self._first = first
        """Of how many lines to say where they are."""
        self._buffer = bytearray(_SMALL)
        self._into = [self._buffer]

    def file(self, folder: int, name: bytes) -> tuple[int, list[int]] | None:
        """How many lines match, and where the first of them do; None if none does or the file is binary."""
        opened = os.open(name, FILE_FLAGS, dir_fd=folder)
        try:
            size = os.readv(opened, self._into)
            if size < _SMALL:
                return self.data(self._buffer, size)
            facts = os.fstat(opened)
            if not stat.S_ISREG(facts.st_mode):
                return None
            with mmap.mmap(opened, facts.st_size, prot=mmap.PROT_READ) as data:
                return self.data(data, facts.st_size)
        finally:
            os.close(opened)

    def data(self, data: Bytes, size: int) -> tuple[int, list[int]] | None:
        count = 0
        first: list[int] = []
        for at in self._lines(data, size):
            if count < self._first:
                first.append(at)
            count += 1
        if not count or data.find(b"\0", 0, size) >= 0:
            return None
        return count, first


def search(request: dict[str, Any]) -> dict[str, Any]:
    query = bytes.fromhex(request["query"])
    scan = Scan(lines_for(query, regex=request["regex"], fold=request["fold"]), request["first"])
    found: list[tuple[str, int, list[int]]] = []
    with Folders(request["root"]) as folders:
        walk = _walk(folders, request)
        for folder, prefix, names in _named(folders, request) or walk.files(os.fsencode(request["scope"])):
            for name in names:
                try:
                    result = scan.file(folder, name)
                except OSError as error:
                    walk.failed(prefix + name, error)
                    continue
                if result is not None:
                    found.append((os.fsdecode(prefix + name), *result))
    return {"found": found, "unreadable": [os.fsdecode(path) for path in walk.unreadable]}


def listing(request: dict[str, Any]) -> dict[str, Any]:
    with Folders(request["root"]) as folders:
        walk = _walk(folders, request)
        scope = os.fsencode(request["scope"])
        found = [os.fsdecode(prefix + name) for _, prefix, names in walk.files(scope) for name in names]
    return {"found": found, "unreadable": [os.fsdecode(path) for path in walk.unreadable]}


def _named(folders: Folders, request: dict[str, Any]) -> list[tuple[int, bytes, list[bytes]]]:
    """The file a search was limited to: no ignore file is asked about that."""
    if not request["is_file"]:
        return []
    folder, slash, name = os.fsencode(request["scope"]).rpartition(b"/")
    return [(folders.open(folder), folder + slash, [name])]


def _walk(folders: Folders, request: dict[str, Any]) -> Walk:
    return Walk(
        folders,
        request["root"],
        ignores=request["ignores"],
        skipped_names=frozenset(map(os.fsencode, request["skipped_names"])),
        skipped_folders=frozenset(map(os.fsencode, request["skipped_folders"])),
        share=tuple(request["share"]),
    )


def main() -> None:
    request = json.load(sys.stdin)
    # A pattern that backtracks without end holds the interpreter: only a signal with its default action ends that.
    signal.setitimer(signal.ITIMER_REAL, request["seconds"])
    json.dump((listing if request["lists"] else search)(request), sys.stdout)
