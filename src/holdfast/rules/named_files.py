"""Binds approvals to file content: approving `sh build.sh` approves the current content of `build.sh`.

Everything in the command text that may be a path (`shell.path_mentions`) is looked up in the folder the command runs in
and in every folder that the text names. Beyond a limit the command is bound to every file of the project instead.
Not covered: names known only at run time (`$X`), files that a named file reads in turn, and files that programs find
by themselves (a Makefile).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from functools import lru_cache
from hashlib import sha256
from secrets import token_hex
from typing import Final
from unicodedata import normalize

from holdfast.contract.call import NamedFile
from holdfast.fs.beneath import USER_FILE_FLAGS, open_descriptor
from holdfast.rules.shell.analysis import CommandAnalysis, analyze
from holdfast.rules.shell.parts import CommandPart, word_set
from holdfast.rules.shell.path_mentions import PathMentions, TooManyPaths, find_path_mentions

MAX_FILES: Final = 64
"""Files that are bound by content; further ones by inode, size and timestamps."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""Total bytes of content that are read; beyond that, files are bound by inode, size and timestamps."""
EVERYTHING: Final = "every file in the project"
_MAX_FOUND: Final = 1024
_MAX_FOLDERS: Final = 1000
_MAX_STEPS: Final = 1
"""Patterns are matched in folders that words name, and in folders found by one pattern (`for d in */`)."""
_MAX_LOOKS: Final = 100_000
"""Paths that are checked to find the files; takes less than a second."""
_MAX_TREE: Final = 200_000
"""Files and folders of a project that is compared as a whole; takes about two seconds."""
_FEW_WORDS: Final = 256
"""Up to this many words are checked one by one; for more it is cheaper to list the folder."""
_CONTENT_DOES_NOT_MATTER: Final = word_set("chgrp chmod chown mkdir rm rmdir touch truncate unlink")
"""Programs that neither run nor copy the content of the files they name."""
_PATTERN: Final = re.compile(r"[*?]")
_BLOCK: Final = 1024 * 1024


def named_files(text: str, folders: Iterable[str], root: str | None) -> tuple[NamedFile, ...]:
    """The project files that a shell text names, looked up in all of `folders`, with digests of their content."""
    if _uses_no_content(analyze(text)):
        return ()
    places = list(dict.fromkeys(map(os.path.realpath, folders)))
    bounds = [os.path.realpath(root)] if root is not None else list(places)
    try:
        found = _Search(find_path_mentions(text), bounds).files(places)
    except (TooManyPaths, RecursionError):
        return (NamedFile(EVERYTHING, _tree_fingerprint(bounds)),)
    return tuple(_with_digests(found))


def _uses_no_content(analysis: CommandAnalysis) -> bool:
    """Whether it only creates and removes files, or writes text from the command itself (`cat > x <<EOF`)."""
    return not (analysis.unreadable or analysis.too_complex) and all(map(_has_no_input, analysis.parts))


def _has_no_input(part: CommandPart) -> bool:
    if part.kind == "redirection":
        return "<" not in (part.words[0] or "") or len(part.words) == 1
    program = part.words[:1] if part.kind == "command" and not part.derived else (None,)
    return {*program} <= _CONTENT_DOES_NOT_MATTER or part.words == ("cat",)


class _Search:
    """Looks up every word and pattern in every folder, including folders found on the way."""

    def __init__(self, named: PathMentions, bounds: Sequence[str]) -> None:
        self._patterns = [(_split(pattern), pattern.startswith("/")) for pattern in named.patterns]
        self._all_names = named.all_names
        self._bounds = bounds
        self._absolute = [word for word in named.words if word.startswith("/")]
        self._relative = [word for word in named.words if not word.startswith("/")]
        self._by_first: dict[str, list[str]] = {}
        for word in self._relative if len(self._relative) > _FEW_WORDS else ():
            self._by_first.setdefault(_folded(word.partition("/")[0]), []).append(word)
        self._left = _MAX_LOOKS
        self._found: dict[str, str] = {}
        """The real path of each file, with the name it was found by first."""
        self._places: dict[str, int] = {}
        """The folders to search, with the number of patterns that led there."""
        self._queue: list[str] = []
        self._listed: dict[str, list[tuple[str, bool]]] = {}

    def files(self, folders: Iterable[str]) -> dict[str, str]:
        """The files by real path, with their display names. Raises `TooManyPaths`."""
        self._places = dict.fromkeys(folders, 0)
        self._queue = list(self._places)
        for word in self._absolute:
            self._look("/", word, 0)
        for folder in self._queue:  # `_look` appends to the list
            self._look_into(folder, self._places[folder])
        return self._found

    def _look_into(self, folder: str, steps: int) -> None:
        for word in self._words_in(folder):
            self._look(folder, word, steps)
        for parts, absolute in self._patterns if steps <= _MAX_STEPS else ():
            for path in self._matching("/" if absolute else folder, parts):
                self._look(folder, path, steps + 1)

    def _words_in(self, folder: str) -> Iterable[str]:
        """The words whose first path component exists in the folder, compared without case and Unicode form, as some
        file
        systems do."""
        if not self._by_first:
            return self._relative
        try:
            names = os.listdir(folder)  # noqa: PTH208 - thousands of them
        except OSError:
            return self._relative
        self._spend(len(names) // 8)
        there = {".", "..", *map(_folded, names)} & self._by_first.keys()
        return [word for name in there for word in self._by_first[name]]

    def _look(self, folder: str, word: str, steps: int) -> None:
        self._spend(1)
        path = os.path.join(folder, word)  # noqa: PTH118 - thousands of them
        kind = _kind(path)
        if not kind:
            return
        real, named = os.path.realpath(path), os.path.normpath(path)
        if kind == "folder":
            known = self._places.get(real)
            if (known is None or steps < known) and (steps == 0 or self._leads_in(real)):
                self._places[real] = steps
                self._queue.append(real)  # `cd x`, `make -C x`: any name in the text may be relative to it
        elif real not in self._found and (_is_inside(real, self._bounds) or _is_inside(named, self._bounds)):
            same = os.path.realpath(named) == real  # differs if `..` follows a symlink
            self._found[real] = _display_path(named if same else real, self._bounds[0])
        if len(self._places) > _MAX_FOLDERS or len(self._found) > _MAX_FOUND:
            raise TooManyPaths

    def _spend(self, looks: int) -> None:
        self._left -= looks
        if self._left < 0:
            raise TooManyPaths

    def _leads_in(self, folder: str) -> bool:
        """Whether a folder is in the project, or contains it. The rest of the machine is not searched."""
        return _is_inside(folder, self._bounds) or any(_is_inside(bound, [folder]) for bound in self._bounds)

    def _matching(self, folder: str, parts: Sequence[str]) -> Iterator[str]:
        """The paths that a pattern matches now. Case is ignored, because a shell option (`nocaseglob`) may do so."""
        self._spend(1)
        plain = next((at for at, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
        start = os.path.join(folder, *parts[:plain])  # noqa: PTH118
        if plain == len(parts):
            yield start
            return
        rest = parts[plain + 1 :]
        # A name that cannot be encoded (a lone surrogate) exists nowhere, and `realpath` would raise for it.
        if start != folder and not (_kind(start) and self._leads_in(os.path.realpath(start))):
            return
        deep = parts[plain] == "**" and (bool(rest) or self._all_names)
        if deep and rest:
            yield from self._matching(start, rest)
        matches = _matcher(parts[plain]).match
        for name, is_folder in self._entries(start):
            if name.startswith(".") and not (parts[plain].startswith(".") or self._all_names):
                continue
            if deep and is_folder:
                yield from self._matching(os.path.join(start, name), parts[plain:])  # noqa: PTH118
            if matches(name) is not None and (is_folder or not rest):
                path = os.path.join(start, name)  # noqa: PTH118
                yield from self._matching(path, rest) if rest else (path,)

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        """The names in a folder, and whether each is a folder that can be searched."""
        if (known := self._listed.get(folder)) is not None:
            self._spend(len(known) // 8)
            return known
        found = self._listed[folder] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._spend(1)
                    found.append((entry.name, entry.is_dir() and not (entry.is_symlink() and _is_above(entry.path))))
        except OSError:
            pass
        return found


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern), re.IGNORECASE)


def _split(pattern: str) -> list[str]:
    """The path components of a pattern."""
    return [part for part in pattern.split("/") if part]


def _folded(name: str) -> str:
    return normalize("NFC", name.casefold())


def _is_above(link: str) -> bool:
    """Whether a symlink points to a folder that contains it; following it would be an endless loop."""
    return _is_inside(link, [os.path.realpath(link)])


def _kind(path: str) -> str:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return ""
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else ""


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _tree_fingerprint(folders: Iterable[str]) -> str:
    """A digest over the metadata of every file in the folders; random, so never equal, if that cannot be determined."""
    digest, left = sha256(), _MAX_TREE
    waiting = sorted(folders)
    entered = set[tuple[int, int]]()
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            if os.access(folder, os.X_OK):  # not listable, but files in it can still be run by name
                return f"unknown files: {token_hex(16)}"
            continue
        for entry in listed:
            left -= 1
            if left < 0:
                return f"too many files: {token_hex(16)}"
            digest.update(os.fsencode(entry.path) + b"\0")
            try:
                about = entry.stat()
            except OSError:
                continue
            if not stat.S_ISDIR(about.st_mode):
                digest.update(_stat_fingerprint(about).encode() + b"\0")
            elif (about.st_dev, about.st_ino) not in entered:
                entered.add((about.st_dev, about.st_ino))
                waiting.append(entry.path)
    return f"tree:{digest.hexdigest()}"


def _stat_fingerprint(about: os.stat_result) -> str:
    return f"{about.st_dev}:{about.st_ino}:{about.st_size}:{about.st_mtime_ns}:{about.st_ctime_ns}"


def _display_path(path: str, root: str) -> str:
    inner = os.path.relpath(path, root) if _is_inside(path, [root]) else path
    return inner.encode(errors="backslashreplace").decode()


def _with_digests(found: Mapping[str, str]) -> Iterator[NamedFile]:
    left = MAX_BYTES
    for number, (shown, path) in enumerate(sorted((shown, path) for path, shown in found.items())):
        size, digest = _digest(path, left if number < MAX_FILES else 0)
        left -= size
        yield NamedFile(shown, digest)


def _digest(path: str, most: int) -> tuple[int, str]:
    """The number of bytes read, and the digest; for files over `most` bytes a digest of inode, size and timestamps."""
    try:
        with open_descriptor(path, USER_FILE_FLAGS) as descriptor:
            about = os.fstat(descriptor)
            if about.st_size > most or not stat.S_ISREG(about.st_mode):
                return 0, f"inode:{_stat_fingerprint(about)}"
            digest, size = sha256(), 0
            while block := os.read(descriptor, _BLOCK):
                digest.update(block)
                size += len(block)
            return size, f"sha256:{digest.hexdigest()}"
    except OSError:
        return 0, "unreadable"
