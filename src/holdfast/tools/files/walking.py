"""The entries of a folder and, if asked, of what lies below it, without following a link."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from heapq import nsmallest
from pathlib import Path
from typing import Final, Literal, NamedTuple

from holdfast.tools.files.atomic import folder

Kind = Literal["dir", "file", "link", "other"]

BUILD_FOLDERS: Final = frozenset(
    (".git", ".hg", ".svn", ".tox", ".venv", "venv", "__pycache__", "build", "dist", "node_modules", "target", "vendor")
)
MAX_VISITED: Final = 1_000_000
_INTO: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Entry(NamedTuple):
    """Ordered as they are listed: folders first, then by name whatever its case, then exactly."""

    not_folder: bool
    folded: str
    path: str
    """Relative to the folder that is listed."""
    kind: Kind
    link: bool


class Listing(NamedTuple):
    entries: list[Entry]
    total: int
    complete: bool
    """False: there was so much that the rest was not looked at."""
    not_entered: int
    """Build folders whose content is left out."""


class Walk:
    """One listing: what it may enter, and what it saw."""

    def __init__(self, top: Path, inside: Path, may_enter: Callable[[Path], bool], stop: Callable[[], bool]) -> None:
        self._top = top
        self._inside = inside
        self._may_enter = may_enter
        self._stop = stop
        self.visited = 0
        self.not_entered = 0

    def first(self, opened: int, depth: int, limit: int) -> Listing:
        """The first entries in order, and how many there are."""
        entries = nsmallest(limit, self._entries(opened, "", depth))
        return Listing(entries, self.visited, self.visited < MAX_VISITED, self.not_entered)

    def _entries(self, opened: int, prefix: str, depth: int) -> Iterator[Entry]:
        folders: list[str] = []
        with os.scandir(opened) as found:
            for item in found:
                if self.visited >= MAX_VISITED or (self.visited % 1024 == 0 and self._stop()):
                    return
                self.visited += 1
                name = item.name
                path = prefix + name
                link = item.is_symlink()
                if link:
                    kind: Kind = "dir" if self._leads_to_folder(path) else "link"
                elif item.is_dir(follow_symlinks=False):
                    kind = "dir"
                    folders.append(name)
                else:
                    kind = "file" if item.is_file(follow_symlinks=False) else "other"
                yield Entry(kind != "dir", path.casefold(), path, kind, link)
        if depth > 1:
            for name in folders:
                yield from self._below(opened, prefix, name, depth - 1)

    def _below(self, opened: int, prefix: str, name: str, depth: int) -> Iterator[Entry]:
        if name in BUILD_FOLDERS:
            self.not_entered += 1
            return
        if not self._may_enter(self._top / prefix / name):
            return
        with contextlib.suppress(OSError):  # gone, swapped for a link, or closed to us: listed, not entered
            below = os.open(name, _INTO, dir_fd=opened)
            try:
                yield from self._entries(below, f"{prefix}{name}/", depth)
            finally:
                os.close(below)

    def size_of(self, entry: Entry) -> int | None:
        """The bytes of a file, looked up again from the root: the folders on the way may be others by now."""
        where, _, name = entry.path.rpartition("/")
        if entry.kind != "file":
            return None
        try:
            with folder(self._inside, self._top / where) as opened:
                return os.stat(name, dir_fd=opened, follow_symlinks=False).st_size
        except OSError:
            return None

    def _leads_to_folder(self, path: str) -> bool:
        target = Path(os.path.realpath(self._top / path))
        return target.is_relative_to(self._inside) and target.is_dir()
