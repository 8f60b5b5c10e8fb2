"""Which files holdfast remembers calls of, whatever they are called: one link per document in the user's state folder,
so that every conversation and every process can tell in one look."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from holdfast.config.patterns import fold_path
from holdfast.config.roots import user_state_dir


def remember(path: Path) -> None:
    """From now on this document, given by its real path, is protected. Raises `OSError`."""
    entry = _entry(fold_path(str(path)))
    if not os.path.islink(entry):  # noqa: PTH114
        Path(entry).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            Path(entry).symlink_to(path)


def is_remembered(path: str, folded: str | None = None) -> bool:
    """Whether it is such a document, another name of the same file, or one a careless file system takes for it."""
    if os.path.islink(_entry(folded or fold_path(path))):  # noqa: PTH114
        return True
    try:
        about = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return False
    return about.st_nlink > 1 and stat.S_ISREG(about.st_mode) and (about.st_dev, about.st_ino) in identities()


def remembered() -> Iterator[str]:
    """The documents, as they were named when something was first remembered of them."""
    with suppress(OSError), os.scandir(_folder()) as entries:
        for entry in entries:
            with suppress(OSError):
                yield os.readlink(entry.path)  # noqa: PTH115


def identities() -> set[tuple[int, int]]:
    """Device and inode of those that are there now."""
    found: set[tuple[int, int]] = set()
    for path in remembered():
        with suppress(OSError):
            about = os.stat(path)  # noqa: PTH116
            found.add((about.st_dev, about.st_ino))
    return found


def _folder() -> str:
    return _in_state(os.environ.get("XDG_STATE_HOME"), os.environ.get("HOME"))


@lru_cache(maxsize=4)
def _in_state(given: str | None, home: str | None) -> str:
    """Found once: to follow every link on the way takes longer than all the rest."""
    return str(user_state_dir() / "documents")


def _entry(folded: str) -> str:
    return f"{_folder()}/{sha256(os.fsencode(folded)).hexdigest()[:40]}"
