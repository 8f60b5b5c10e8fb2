"""Walking the files of a project: opened step by step, no link followed, ignore files and hidden names respected.

Stands alone: the scanning processes import it without the rest of holdfast.
"""

from __future__ import annotations

import errno
import os
import stat
from zlib import crc32

from holdfast.tools.search.ignore import KINDS, Level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""The file vanished, or became something else, between being seen and being opened."""
_KEPT_OPEN: Final = 64
_LONGEST: Final = 4090
_IGNORE_FILE_BYTES: Final = 256 * 1024
_FIRST_NAMES: Final = frozenset(kind.partition("/")[0] for kind in KINDS)


class Folders:
    """Opens folders below a root one name at a time, so that no link on the way is followed."""

    def __init__(self, root: str) -> None:
        self._names: list[bytes] = []
        self._open = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._spare: int | None = None

    def __enter__(self) -> Folders:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._drop(0)
        os.close(self._open.pop())

    def open(self, folder: bytes) -> int:
        """A folder by its path below the root; it stays open until the next one is asked for."""
        names = folder.split(b"/") if folder else []
        common = 0
        for mine, wanted in zip(self._names, names, strict=False):
            if mine != wanted:
                break
            common += 1
        self._drop(common)
        for name in names[common:_KEPT_OPEN]:
            self._open.append(os.open(name, _FOLDER, dir_fd=self._open[-1]))
            self._names.append(name)
        for name in names[_KEPT_OPEN:]:
            deeper = os.open(name, _FOLDER, dir_fd=self._open[-1] if self._spare is None else self._spare)
            self._close_spare()
            self._spare = deeper
        return self._open[-1] if self._spare is None else self._spare

    def open_file(self, path: bytes) -> int:
        """A regular file; raises `OSError`, with `ENXIO` for anything else."""
        folder, _, name = path.rpartition(b"/")
        return open_regular(self.open(folder), name)

    def _drop(self, keep: int) -> None:
        self._close_spare()
        while len(self._names) > keep:
            self._names.pop()
            os.close(self._open.pop())

    def _close_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None


def open_regular(folder: int, name: bytes) -> int:
    opened = os.open(name, FILE_FLAGS, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    return opened


class Walk:
    """One walk: what to leave out, and what could not be read."""

    def __init__(
        self,
        folders: Folders,
        root: str,
        *,
        ignores: bool = True,
        skipped_names: frozenset[bytes] = frozenset(),
        skipped_folders: frozenset[bytes] = frozenset(),
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self._folders = folders
        self._root = os.path.realpath(root)
        self._ignores = ignores
        self._skipped_names = skipped_names
        self._skipped_folders = skipped_folders
        self._share = share
        """This process is the n-th of so many: the names that are the others' are not even asked about."""
        self.unreadable: list[bytes] = []

    def files(self, scope: bytes = b"") -> Iterator[tuple[int, bytes, list[bytes]]]:
        """For each folder: itself, open; what its files' paths below the root begin with; their names, in no order."""
        waiting: list[tuple[bytes, Level | None]] = [(scope, self.level_above(scope))]
        while waiting:
            folder, above = waiting.pop()
            try:
                opened = self._folders.open(folder)
                with os.scandir(opened) as found:
                    entries = list(found)
            except OSError as error:
                self.failed(folder, error)
                continue
            level = above
            if self._ignores and not _FIRST_NAMES.isdisjoint(entry.name for entry in entries):
                level = self._level(opened, folder, above)
            prefix = folder + b"/" if folder else b""
            yield opened, prefix, self._names(entries, prefix, level, waiting)

    def _names(
        self,
        entries: list[os.DirEntry[str]],
        prefix: bytes,
        level: Level | None,
        waiting: list[tuple[bytes, Level | None]],
    ) -> list[bytes]:
        share, shares = self._share
        names: list[bytes] = []
        for entry in entries:
            name = entry.name.encode("utf-8", "surrogateescape")
            is_folder = entry.is_dir(follow_symlinks=False)
            if not is_folder and shares > 1 and crc32(name) % shares != share:
                continue
            if name in self._skipped_names or (is_folder and name in self._skipped_folders):
                continue
            verdict = None if level is None else level.ask(prefix + name, name, is_folder)
            if verdict or (verdict is None and name[0] == 0x2E):
                continue
            if is_folder:
                if len(prefix) + len(name) < _LONGEST:
                    waiting.append((prefix + name, level))
            elif entry.is_file(follow_symlinks=False):
                names.append(name)
        return names

    def failed(self, path: bytes, error: OSError) -> None:
        if error.errno not in GONE:
            self.unreadable.append(path)

    def level_above(self, scope: bytes) -> Level | None:
        """The ignore files of the folders above a scope, from the root down."""
        level: Level | None = None
        if scope and self._ignores:
            parts = scope.split(b"/")
            for depth in range(len(parts)):
                folder = b"/".join(parts[:depth])
                level = self.level_at(folder, level)
        return level

    def level_at(self, folder: bytes, above: Level | None) -> Level | None:
        """With the ignore files of one more folder; one that is gone has none."""
        try:
            return self._level(self._folders.open(folder), folder, above)
        except OSError:
            return above

    def _level(self, opened: int, folder: bytes, above: Level | None) -> Level | None:
        contents = [self._read(opened, folder, kind) for kind in KINDS]
        return Level(above, folder, contents) if any(contents) else above

    def _read(self, opened: int, folder: bytes, name: str) -> bytes | None:
        """An ignore file. One that is a link counts too, as long as it leads to a file of the project."""
        try:
            if "/" in name or stat.S_ISLNK(os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode):
                real = os.path.realpath(f"{self._root}/{os.fsdecode(folder)}/{name}")
                if not real.startswith(self._root + os.sep):
                    return None
                file = os.open(real, FILE_FLAGS)
            else:
                file = os.open(name, FILE_FLAGS, dir_fd=opened)
        except OSError:
            return None
        with os.fdopen(file, "rb") as content:
            return content.read(_IGNORE_FILE_BYTES) if stat.S_ISREG(os.fstat(file).st_mode) else None
