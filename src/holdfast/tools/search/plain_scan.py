"""The search engine without ripgrep: walks a project, applies ignore files, and searches files line by line.

It runs as a separate program, so that it can be killed whatever a pattern does to it: JSON request on stdin, JSON
answer on stdout. It imports the standard library and pathspec, and nothing of holdfast.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import monotonic
from typing import Any, Final

IGNORE_FILES: Final = (".rgignore", ".ignore", ".gitignore", ".git/info/exclude")
"""The ignore files of a folder, strongest first."""
VANISHED: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of a file that vanished or changed its type between listing and opening."""
BLOCK_SIZE: Final = 128 * 1024
MAX_LINE: Final = 8 << 20
"""Longer lines are searched in pieces."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO would wait for its writer. O_NOFOLLOW: a symlink swapped in meanwhile must not lead
# outside.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_MAX_PATH: Final = 4090
_IGNORE_FILE_BYTES: Final = 256 * 1024
_FIRST_NAMES: Final = frozenset(kind.partition("/")[0] for kind in IGNORE_FILES)

LineMatcher = Callable[[bytes], Iterator[int]]
"""Yields one offset in each matching line of a block."""
IgnoreRule = tuple[Callable[[str], re.Match[str] | None], bool]
"""The matcher of an ignore rule, and whether it ignores (or, with `!`, keeps)."""
IgnoreLevel = tuple[int, list[list[IgnoreRule]]]
"""The length of the folder prefix to strip from paths, and the folder's rules by kind, last rule first."""


def open_folder(root: int, path: str) -> int:
    """Open a folder below the root one name at a time, so that no symlink on the way is followed."""
    opened = os.open(".", _FOLDER, dir_fd=root)
    for name in path.split("/") if path else ():
        above = opened
        try:
            opened = os.open(name, _FOLDER, dir_fd=above)
        finally:
            os.close(above)
    return opened


def open_file(root: int, path: str) -> int:
    """Open a regular file below the root; raises `OSError`, with `ENXIO` for any other type."""
    above, _, name = path.rpartition("/")
    folder = open_folder(root, above)
    try:
        opened = os.open(name, _FILE, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    return opened


class Scan:
    """Walks a project and records what could not be read."""

    def __init__(self, root: str, *, ignores: bool = True, names: Sequence[str] = (), folders: Sequence[str] = ()):
        self.unreadable: list[str] = []
        self._path = root
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._ignores = ignores
        self._names = names
        self._folders = folders

    def close(self) -> None:
        os.close(self._root)

    def walk(self, scope: str) -> Iterator[str]:
        """Yield the path of every file in a folder, unordered."""
        parts = scope.split("/") if scope and self._ignores else []
        above = [self._level("/".join(parts[:depth])) for depth in range(len(parts))]
        pending = [(scope, above)]
        while pending:
            folder, levels = pending.pop()
            try:
                entries = self._entries(folder)
            except OSError as error:
                self.failed(folder, error)
                continue
            if self._ignores and not _FIRST_NAMES.isdisjoint(name for name, _, _ in entries):
                levels = [*levels, self._level(folder)]
            for name, is_folder, is_file in entries:
                path = f"{folder}/{name}" if folder else name
                if self._is_ignored(name, path, is_folder, levels):
                    continue
                if is_file:
                    yield path
                elif is_folder and len(path) < _MAX_PATH:
                    pending.append((path, levels))

    def count_matches(
        self, paths: Iterable[str], lines: LineMatcher, first: int
    ) -> Iterator[tuple[str, int, list[int]]]:
        """Yield each matching file with its number of matching lines and the offsets of the first ones."""
        for path in paths:
            try:
                opened = open_file(self._root, path)
                try:
                    count, places = _count(opened, lines, first)
                finally:
                    os.close(opened)
            except OSError as error:
                self.failed(path, error)
                continue
            if count:
                yield path, count, places

    def failed(self, path: str, error: OSError) -> None:
        if error.errno not in VANISHED:
            self.unreadable.append(path)

    def _entries(self, folder: str) -> list[tuple[str, bool, bool]]:
        """Return (name, is folder, is regular file) of each entry."""
        opened = open_folder(self._root, folder)
        try:
            with os.scandir(opened) as found:
                return [
                    (one.name, one.is_dir(follow_symlinks=False), one.is_file(follow_symlinks=False)) for one in found
                ]
        finally:
            os.close(opened)

    def _is_ignored(self, name: str, path: str, is_folder: bool, levels: list[IgnoreLevel]) -> bool:
        """Whether a path is skipped. For each kind of ignore file the nearest rule counts, and the strongest kind
        wins."""
        if name in self._names or (is_folder and name in self._folders):
            return True
        for kind in range(len(IGNORE_FILES)):
            for start, rules in reversed(levels):
                asked = f"{path[start:]}/" if is_folder else path[start:]
                for match, ignores in rules[kind]:
                    if found := match(asked):
                        # pathspec's regexes also match the contents of a matched folder: their only group is that
                        # folder's slash. A rule about the contents of a folder ends in a slash without the group.
                        at_end = found.end() == len(asked)
                        if at_end if found.lastindex else not (is_folder and at_end):
                            return ignores
        return name.startswith(".")

    def _level(self, folder: str) -> IgnoreLevel:
        return len(folder) + 1 if folder else 0, [
            self._rules(f"{folder}/{kind}" if folder else kind) for kind in IGNORE_FILES
        ]

    def _rules(self, path: str) -> list[IgnoreRule]:
        content = read_ignore_file(self._root, self._path, path)
        if not content:
            return []
        # Takes 50 ms to import, and many projects have no ignore file.
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

        rules: list[IgnoreRule] = []
        for line in content.decode("utf-8-sig", "surrogateescape").split("\n"):
            try:
                regex, ignores = GitIgnoreSpecPattern.pattern_to_regex(line)
                if regex is not None and ignores is not None:
                    # Only rules for any name (`*`, `**`, `*/`) are unanchored; `search` would try every position.
                    start = "" if regex.startswith("^") else ".*" if "(" in regex else ".*?"
                    rules.append((re.compile(start + regex, re.DOTALL).match, ignores))
            except (ValueError, re.error):
                continue  # a malformed rule matches nothing
        return rules[::-1]


def read_ignore_file(root: int, root_path: str, path: str) -> bytes:
    """Read the start of an ignore file. A symlink is followed only to a file of the project."""
    try:
        real = os.path.realpath(f"{root_path}/{path}")  # raises if a symlink is replaced while it is resolved
        if not real.startswith(f"{root_path}/"):
            return b""
        opened = open_file(root, real[len(root_path) + 1 :])
    except OSError:
        return b""
    with os.fdopen(opened, "rb") as file:
        return file.read(_IGNORE_FILE_BYTES)


def line_matcher(text: str, *, regex: bool = False, fold: bool = False) -> LineMatcher:
    """Return the matcher of a text or a regular expression. Raises `re.error`."""
    search = re.compile(text, re.IGNORECASE if fold else 0).search if regex else None
    wanted = text.encode().lower() if fold else text.encode()

    def literal(block: bytes) -> Iterator[int]:
        block = block.lower() if fold else block
        at = block.find(wanted)
        while at >= 0:
            yield at
            end = block.find(b"\n", at)
            at = block.find(wanted, end) if end >= 0 else -1

    def by_regex(block: bytes) -> Iterator[int]:
        assert search is not None
        at = 0
        # Line by line: \s and negated classes would match a newline.
        for line in block.removesuffix(b"\n").split(b"\n"):
            if search(line.decode("utf-8", "surrogateescape")):
                yield at
            at += len(line) + 1

    return by_regex if regex else literal


def _count(opened: int, lines: LineMatcher, first: int) -> tuple[int, list[int]]:
    """Count matching lines; a file with a NUL byte is binary and matches nothing."""
    count = 0
    places: list[int] = []
    for base, block in blocks(opened):
        if b"\0" in block:
            return 0, []
        for at in lines(block):
            if count < first:
                places.append(base + at)
            count += 1
    return count, places


def blocks(opened: int) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of whole lines with their offset; a line longer than `MAX_LINE` is split.

    The file is read, not mapped: truncating a mapped file would kill the process with SIGBUS.
    """
    base, rest = 0, b""
    while piece := os.read(opened, BLOCK_SIZE):
        data = rest + piece
        end = data.rfind(b"\n") + 1
        if not end and len(data) < MAX_LINE:
            rest = data
            continue
        block = data[: end or len(data)]
        yield base, block
        base, rest = base + len(block), data[len(block) :]
    if rest:
        yield base, rest


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    scan = Scan(request["root"], ignores=request["ignores"], names=request["names"], folders=request["folders"])
    paths = scan.walk(request["scope"]) if request["paths"] is None else request["paths"]
    if request["query"] is None:
        found: list[Any] = list(paths)
    else:
        try:
            lines = line_matcher(**request["query"])
        except (re.error, RecursionError, OverflowError) as error:
            return {"bad_pattern": str(error)}
        found = list(scan.count_matches(paths, lines, request["first"]))
    return {"found": found, "unreadable": scan.unreadable}


def main() -> None:
    request = json.load(sys.stdin)
    sys.path.append(request["packages"])
    # A backtracking pattern never returns to the interpreter, so only the default action of a signal can stop it.
    signal.setitimer(signal.ITIMER_REAL, max(0.01, request["deadline"] - monotonic()))
    json.dump(_answer(request), sys.stdout)


if __name__ == "__main__":
    main()
