"""What commands may write in a git folder: what git keeps as data. The rest is obeyed or run by git or its extensions.

Names are folded and counted from inside the folder. Folders of submodules and worktrees lie in it and are git folders
themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from typing import Final

from holdfast.config import git_state
from holdfast.config.patterns import fold

LEGACY: Final = frozenset({"branches", "remotes"})
"""Folders of remotes in the old style: nearly always there, and empty."""
OBEYED: Final = frozenset({"hooks", "config", "config.worktree", "commondir", "gitdir", *LEGACY})
"""Names directly in a git folder that git obeys, runs, or finds another folder by."""
RESOLUTIONS: Final = "rr-cache"
"""Recorded resolutions of conflicts. Git applies them by itself as soon as the folder is there."""
SKELETON: Final = ("HEAD", "objects", "refs", "commondir")
"""What makes a folder a repository."""
_SKELETON: Final = {name.lower(): name for name in SKELETON}
NESTED: Final = frozenset({"modules", "worktrees"})
_OBEYED_INSIDE: Final = (
    ("info", "attributes"),
    ("objects", "info", "alternates"),
    ("objects", "info", "http-alternates"),
)
_FILES: Final = (
    r"head|index(?:\..+)?|sharedindex\..+|packed-refs(?:\.new)?|shallow|description|gc\.(?:log|pid)|.+\.lock"
    r"|[a-z]+(?:_[a-z]+)+(?:\.patch)?|addp-hunk-edit\.diff"
)
"""Files with data: the names with underscores are references and messages, as `ORIG_HEAD` and `COMMIT_EDITMSG`."""
_FOLDERS: Final = {
    "objects": (
        r"(?:tmp_objdir[^/]*/)?(?:[0-9a-f]{2}|pack)(?:/[^/]+)?|tmp_objdir[^/]*|pack/multi-pack-index\.d/[^/]+|[^/]+\.lock"
        r"|info(?:/(?:packs|commit-graph|[^/]+\.lock|commit-graphs(?:/[^/]+)?))?"
    ),
    "refs": r"(?!(?:.*/)?(?:objects|commondir)(?:/|$)).+",
    "logs": r"(?!(?:.*/)?(?:objects|commondir)(?:/|$)).+",
    "lfs": r"(?!(?:.*/)?(?:head|commondir)(?:/|$)).+",
    "reftable": r"[^/]+",
    "rr-cache": r"[0-9a-f]{40,64}(?:/[^/]+)?",
    "info": r"exclude|sparse-checkout|refs|grafts|[^/]+\.lock",
    "notes_merge_worktree": r"[^/]+",
}
"""Folders with data, and what paths in them look like: nothing that could be a repository of its own."""


def locks(names: Sequence[str], *, whole: bool = True) -> bool:
    """Whether commands may not write there. `whole`: it is a `.git` and nothing else, so what is not known is locked;
    in a folder that only looks like one, other things may lie."""
    first, rest = names[0], names[1:]
    if first in OBEYED or first in git_state.FOLDERS:
        return True
    if any(tuple(names[: len(path)]) == path for path in _OBEYED_INSIDE):
        return True
    if first == "worktrees":
        return len(rest) > 1 and locks(rest[1:], whole=whole)
    if first == "modules":
        return _locks_module(rest, whole=whole)
    if not whole:
        return False
    if not rest:
        return first not in _FOLDERS and re.fullmatch(_FILES, first) is None
    return first not in _FOLDERS or re.fullmatch(_FOLDERS[first], "/".join(rest)) is None


def _locks_module(names: Sequence[str], *, whole: bool) -> bool:
    """The name of a submodule may have slashes, so nobody can tell where its folder begins."""
    inner = [names[start:] for start in range(1, len(names))]
    if any(locks(one, whole=False) for one in inner):
        return True
    return whole and bool(inner) and all(locks(one) for one in inner)


def state(names: Sequence[str]) -> tuple[str, str] | None:
    """Folder and name of a path that is judged by what it says, as `git_state` describes; None for any other path."""
    first, rest = names[0], names[1:]
    if first == "worktrees":
        return state(rest[1:]) if len(rest) > 1 else None
    if first != "modules":
        return git_state.state_of(names)
    inner = [rest[start:] for start in range(1, len(rest))]
    found = [(one, state(one)) for one in inner]
    if any(known is None and locks(one, whole=False) for one, known in found):
        return None
    return next((known for _, known in found if known is not None), None)


def holds_resolutions(names: Sequence[str]) -> bool:
    """Whether a path is that of the folder with recorded resolutions, in a git folder or in that of a submodule."""
    return names[-1] == RESOLUTIONS and (len(names) == 1 or names[0] in NESTED)


def is_repository(names: Collection[str]) -> bool:
    """Whether git takes a folder with these names in it for a repository, whatever it is called."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def in_repository(path: str) -> bool:
    """Whether a path lies in such a folder, or would complete one: git then obeys what is in it."""
    parts = path.split("/")
    for place, name in enumerate(map(fold, parts)):
        if name in OBEYED or name in _SKELETON or name == "info":
            folder = "/".join(parts[:place])
            there = {each for low, each in _SKELETON.items() if low == name or os.path.lexists(f"{folder}/{each}")}
            if is_repository(there):
                return True
    return False


def inside(names: Sequence[str], root: Sequence[str] = ()) -> Sequence[str]:
    """What of a path lies inside the first `.git` on it; nothing if there is none. One above the project does not count
    in the project: a worktree may lie there."""
    below = names[len(root) :] if names[: len(root)] == root else names
    return below[below.index(".git") + 1 :] if ".git" in below else ()


def is_way(names: Sequence[str]) -> bool:
    """Whether something that git obeys may lie below: such a folder must not be a link."""
    return names[0] in ("info", "objects", *NESTED) and not locks(names, whole=False)
