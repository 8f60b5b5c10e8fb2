"""The project files a command names: `sh build.sh` is approved together with what is in `build.sh`.

Only what stands in the command as plain words or patterns is looked at. Words the shell expands in other ways (`$X`),
files that a named file goes on to read, and files that programs find by themselves (a Makefile) are not seen here.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import iglob
from hashlib import sha256
from itertools import chain, islice
from typing import Final

from holdfast.contract.call import NamedFile
from holdfast.rules.shell.parts import Reading, read

MAX_FILES: Final = 64
"""Files that are bound by their content; more of them by what the file system says of them."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""The same for how much of them is read in all."""
_MAX_FOLDERS: Final = 8
_MAX_WORDS: Final = 20_000
"""More than the shell reader takes; only a text it gives up on can have more."""
_OUTPUTS: Final = frozenset({"-o", "--out", "--outfile", "--output"})
"""Options whose value is written: what a build leaves there changes with every build, and nobody approves it."""
_CONTENT_DOES_NOT_MATTER: Final = frozenset(
    {"chgrp", "chmod", "chown", "mkdir", "rm", "rmdir", "touch", "truncate", "unlink"}
)
"""Programs that neither run nor copy what is in the files they name."""
_CRUDE: Final = re.compile(r"[^\s'\"`$;&|<>(){}]+")
_MAX_PATTERNS: Final = 16
_BLOCK: Final = 1024 * 1024


def named_files(text: str, folders: Iterable[str], root: str | None) -> tuple[NamedFile, ...]:
    """The files in the project that a shell text names, resolved in every folder it may be in, with their content."""
    reading = read(text)
    if _only_makes_and_removes(reading):
        return ()
    places = list(dict.fromkeys(map(os.path.realpath, folders)))
    bounds = [os.path.realpath(root)] if root is not None else list(places)
    found: dict[str, str] = {}
    """Where each file really is, and what it was called first."""
    for word in _candidates(reading, text, places):
        for folder in tuple(places):
            path = os.path.join(folder, word)  # noqa: PTH118 - thousands of them
            kind = _kind(path)
            if not kind:
                continue
            real, named = os.path.realpath(path), os.path.normpath(path)
            if kind == "folder" and len(places) < _MAX_FOLDERS and real not in places:
                places.append(real)  # `cd x`, `make -C x`: whatever follows may be meant there
            elif kind == "file" and (_is_inside(real, bounds) or _is_inside(named, bounds)):
                same = os.path.realpath(named) == real  # not where `..` follows a link
                found.setdefault(real, _shown(named if same else real, bounds[0]))
    return tuple(_bound(found))


def _only_makes_and_removes(reading: Reading) -> bool:
    return not reading.unreadable and all(
        part.kind == "command" and not part.derived and {*part.words[:1]} <= _CONTENT_DOES_NOT_MATTER
        for part in reading.parts
    )


def _candidates(reading: Reading, text: str, places: Sequence[str]) -> Iterator[str]:
    """`places` grows while they are looked at."""
    seen: set[str] = set()
    for word in chain(_words(reading, text), _matching(text, places)):
        if word and "\0" not in word and word not in seen:
            seen.add(word)
            yield word
        if len(seen) >= _MAX_WORDS:
            return


def _words(reading: Reading, text: str) -> Iterator[str]:
    for part in reading.parts:
        if part.kind == "command":
            yield from _spellings([word or "" for word in part.words])
        elif part.kind == "redirection" and "<" in (part.words[0] or "") and len(part.words) > 1:
            yield part.words[1] or ""
        elif part.kind == "assignment":
            yield part.text.partition("=")[2].strip("'\"")
    if reading.unreadable or reading.overrun:
        yield from _CRUDE.findall(text)  # what is not understood is taken apart without understanding


def _matching(text: str, places: Sequence[str]) -> Iterator[str]:
    """What `sh ./b*.sh` means now. Patterns over many folders are left out: they would have to be walked through."""
    patterns = [word for word in _CRUDE.findall(text) if 0 < sum(map(_is_pattern, word.split("/"))) <= 2]
    for pattern in patterns[:_MAX_PATTERNS]:
        for folder in tuple(places):
            yield from islice(iglob(pattern, root_dir=folder), MAX_FILES)  # noqa: PTH207 - it may be absolute


def _is_pattern(name: str) -> bool:
    return any(sign in name for sign in "*?[")


def _spellings(words: Sequence[str]) -> Iterator[str]:
    """The words, and the files that options name: `--file=x`, `-fx`, `if=x`, `@x`, and modules after `-m`."""
    before = ""
    for word in words:
        if before in _OUTPUTS or word.partition("=")[0] in _OUTPUTS:
            before = word
            continue
        yield word
        if "=" in word:
            yield word.partition("=")[2]
        if word.startswith("-") and not word.startswith("--"):
            yield word[2:]
        if word.startswith("@"):
            yield word[1:]
        if before == "-m":
            module = word.replace(".", "/")
            yield from (f"{module}.py", f"{module}/__main__.py")
        before = word


def _kind(path: str) -> str:
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except (OSError, ValueError):
        return ""
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else ""


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _shown(path: str, root: str) -> str:
    inner = os.path.relpath(path, root) if _is_inside(path, [root]) else path
    return inner.encode(errors="backslashreplace").decode()


def _bound(found: Mapping[str, str]) -> Iterator[NamedFile]:
    left = MAX_BYTES
    for number, (shown, path) in enumerate(sorted((shown, path) for path, shown in found.items())):
        size, digest = _content(path, left if number < MAX_FILES else 0)
        left -= size
        yield NamedFile(shown, digest)


def _content(path: str, most: int) -> tuple[int, str]:
    """How much was read, and the digest; beyond `most` bytes, which inode it is and when that was last changed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0, "unreadable"
    try:
        about = os.fstat(descriptor)
        if about.st_size > most or not stat.S_ISREG(about.st_mode):
            times = f"{about.st_mtime_ns}:{about.st_ctime_ns}"
            return 0, f"inode:{about.st_dev}:{about.st_ino}:{about.st_size}:{times}"
        digest, size = sha256(), 0
        while block := os.read(descriptor, _BLOCK):
            digest.update(block)
            size += len(block)
        return size, f"sha256:{digest.hexdigest()}"
    except OSError:
        return 0, "unreadable"
    finally:
        os.close(descriptor)
