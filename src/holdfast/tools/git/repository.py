"""Which repository a project belongs to, found without git: whatever `.git` says was written by the project's author.

Git follows a `.git` file, a link or a `commondir` anywhere. Here a git folder outside the project is taken only if it
names the project in turn, as those of linked worktrees and submodules do; else a project could show another one's
history and files as its own.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.fs.beneath import read_regular

_MOST: Final = 1 << 20
_POINTER: Final = re.compile(rb"gitdir: ([^\n]+)\n?\s*")
_WORKTREE: Final = re.compile(rb"^\s*worktree\s*=\s*(.*?)\s*$", re.MULTILINE | re.IGNORECASE)
_ATTRIBUTES: Final = (".gitattributes", ".gitignore")


class NotARepository(Exception):
    """There is none, or it is not the project's own; the message is for the model."""


class Repository(Struct, frozen=True, kw_only=True):
    top: Path
    """The top of the working tree."""
    folder: Path
    """The git folder: `.git`, or that of a worktree or submodule."""
    common: Path
    """The git folder of the main worktree, where the configuration, refs and objects are."""
    shown: tuple[Path, ...] = ()
    """What of it lies outside the project."""

    @property
    def variables(self) -> dict[str, str]:
        """All of it named, so that git neither searches nor follows: `core.worktree` and `commondir` are not asked."""
        return {
            "GIT_DIR": str(self.folder),
            "GIT_COMMON_DIR": str(self.common),
            "GIT_WORK_TREE": str(self.top),
        }

    def may_define_filters(self) -> bool:
        """Whether its configuration has a filter, or takes in files that may."""
        texts = (_content(file) for file in (self.common / "config", self.folder / "config.worktree"))
        return any(text is None or b"filter" in text.lower() or b"include" in text.lower() for text in texts)


def repository_of(root: Path) -> Repository:
    """The repository of a project, whose top may lie above it. Raises `NotARepository`."""
    top = next((folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git")), None)
    if top is None:
        raise NotARepository(f"Not a git repository: {root.name} and the folders above it have no .git.")
    entry = top / ".git"
    if entry.is_dir() and not entry.is_symlink():
        folder = common = entry
    else:
        folder, common = _elsewhere(top, entry)
    names = (above / name for above in (top, *_between(top, root)) for name in _ATTRIBUTES)
    files = (file for file in names if file.is_file() and not file.is_symlink())
    outside = (path for path in (folder, common, *files) if not path.is_relative_to(root))
    return Repository(top=top, folder=folder, common=common, shown=tuple(dict.fromkeys(outside)))


def _between(top: Path, root: Path) -> list[Path]:
    return [folder for folder in root.parents if folder != top and folder.is_relative_to(top)]


def _elsewhere(top: Path, entry: Path) -> tuple[Path, Path]:
    """Where a `.git` leads that is not the folder itself, and the common folder of that."""
    text = None if entry.is_dir() else _content(entry)
    pointer = None if text is None else _POINTER.fullmatch(text)
    folder = Path(os.path.realpath(entry if pointer is None else top / os.fsdecode(pointer[1])))
    shared = _content(folder / "commondir")
    common = folder if not shared else Path(os.path.realpath(folder / os.fsdecode(shared.strip())))
    own = folder.is_relative_to(top) and common.is_relative_to(top)
    linked = common == folder.parent.parent and _names(folder / "gitdir", folder, entry)
    if own or linked or (common == folder and _is_work_tree_of(folder, top)):
        return folder, common
    raise NotARepository(
        f"The .git of {top.name} leads to {folder}, which does not name it in turn, so that it may be another "
        "project's; `git worktree repair` mends a worktree that was moved."
    )


def _names(file: Path, base: Path, wanted: Path) -> bool:
    """Whether a file holds a path, and it is this one."""
    text = _content(file)
    return bool(text) and os.path.realpath(base / os.fsdecode(text.strip())) == os.path.realpath(wanted)


def _is_work_tree_of(folder: Path, top: Path) -> bool:
    """As git notes it for submodules, in `core.worktree`."""
    found = _WORKTREE.findall(_content(folder / "config") or b"")
    return any(os.path.realpath(folder / os.fsdecode(path.strip(b'"'))) == os.path.realpath(top) for path in found)


def _content(path: Path) -> bytes | None:
    """A small plain file; b"" where there is none, None for anything that cannot be read at once."""
    try:
        content = read_regular(path, _MOST, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError:
        return None
    return content if len(content) < _MOST else None
