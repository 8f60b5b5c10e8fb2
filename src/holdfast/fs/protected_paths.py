"""Protected paths: files that something obeys or runs later, which no general "may write" covers.

`protected_list` has their names. Protected beside them: what begins with a dot at the top of a project, what something
there includes or runs (`included_files`), and holdfast's own files (`own_paths`).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Final

from holdfast.fs import git_folder
from holdfast.fs.included_files import including
from holdfast.fs.own_paths import installation, is_remembered, user_config_file, user_state_dir
from holdfast.fs.paths import Matcher, Pattern, fold, fold_path, may_be_short, names_of, shared_names
from holdfast.fs.protected_list import (
    BY_GIT,
    DEPENDENCIES,
    DOCUMENT_SUFFIX,
    DOCUMENTS,
    FOR_COMMANDS,
    FORGES,
    INERT,
    INERT_AT_TOP,
    OWN,
    PROTECTED,
)

CONFIGURED: Final = "the configuration protects it"
INSTALLED: Final = "holdfast runs it"
DOTTED: Final = "it is at the top of the project, where programs obey names that begin with a dot"
SHORT: Final = "it may be the short name of something protected"
ENVIRONMENT: Final = "it is a program of an environment"
AT_HOME: Final = "a program of this user obeys it"
_DOTS: Final = (".", "\N{FULLWIDTH FULL STOP}", "\N{ONE DOT LEADER}", "\N{SMALL FULL STOP}")

_Around = tuple[str, str | None, str | None, str]
"""What pins patterns to places: the home folder, the user's folders where the environment names them, the project."""


def is_protected(
    path: Path, *, root: Path | None, extra: Iterable[str] = (), for_commands: bool = False, as_document: bool = True
) -> str | None:
    """Why a path is protected, or None. Both the path as written and where its symlinks lead are looked at.

    `for_commands`: inside `.git` only what git obeys or runs counts, so that a command can commit, below the top of the
    project build files do not count, so that it can build, and names with a dot do not count only for that, since
    programs cache there. `as_document`: being named like a document is a reason.
    """
    top = "" if root is None else str(root)
    full = os.path.join(top or os.getcwd(), path)  # noqa: PTH109, PTH118 - a Path takes longer than the rest
    places = tuple(dict.fromkeys((os.path.normpath(full), _real(full))))
    around = _around(top)
    matchers = (_built_in(around, for_commands, as_document), _configured(around, tuple(extra)))
    subjects = tuple(map(fold_path, places))
    for subject in subjects:
        names = names_of(subject)
        if for_commands and (inside := git_folder.inside(names, names_of(fold_path(top)))) and git_folder.locks(inside):
            return BY_GIT
        if "~" in subject and any(map(may_be_short, names)):
            return SHORT
        if names[-1] in INERT:
            names = names[:-1]
        shared = shared_names(names)
        for matcher in matchers:
            reason = matcher.reason(names) or (None if shared is None else matcher.reason(shared))
            if reason is not None:
                return reason
    if any(map(is_remembered, places, subjects)):
        return OWN
    if root is None:
        return None
    if (reason := including(root, zip(subjects, places, strict=True))) is not None:
        return reason
    return None if for_commands else _by_its_place(places, top, around[0])


def leads_to_protected(
    path: Path, *, root: Path | None, extra: Iterable[str] = (), for_commands: bool = False
) -> str | None:
    """Why a path may not be a symlink, or None: through it something else would stand where a protected path does."""
    names = names_of(fold_path(os.path.normpath((root or Path.cwd()) / path)))
    if (inside := git_folder.inside(names)) and git_folder.is_way(inside):
        return BY_GIT
    around = _around("" if root is None else str(root))
    return _ways(around, tuple(extra), for_commands).reason(names, whole=True)


@lru_cache(maxsize=4096)
def could_be_protected(name: str, extra: tuple[str, ...] = ()) -> bool:
    """Whether a name alone is that of a protected path, wherever it stands: a quick look before `is_protected`."""
    name, matcher = fold(name), _last_names(extra)
    if matcher.may_end(name) or may_be_short(name):
        return True
    shared = shared_names([name])
    return shared is not None and matcher.may_end(shared[0])


def locked_reason(
    path: str | Path, *, root: Path | None, extra: Sequence[str] = (), writable: Sequence[Path] = ()
) -> str | None:
    """Why a command may not change a path, or None."""
    path = Path(path)
    if _is_exempt(path, root, writable):
        return None
    reason = is_protected(path, root=root, extra=extra, for_commands=True)
    if reason is None and git_folder.points_elsewhere(path):
        with suppress(OSError):
            return None if stat.S_ISDIR(os.lstat(path).st_mode) else BY_GIT
    if reason is None and os.path.islink(path):  # noqa: PTH114 - False where nobody may look
        return link_reason(path, root=root, extra=extra, writable=writable)
    return reason


def link_reason(
    path: Path, *, root: Path | None, extra: Sequence[str] = (), writable: Sequence[Path] = ()
) -> str | None:
    """Why a command may not put a symlink at a path, or take it from there; None if it may."""
    if _is_exempt(path, root, writable):
        return None
    if git_folder.inside_of(path, root):
        return BY_GIT  # git writes through links: its messages and logs would end up where they lead
    return leads_to_protected(path, root=root, extra=extra, for_commands=True)


def _is_exempt(path: Path, root: Path | None, writable: Sequence[Path]) -> bool:
    """Whether it lies in a folder of installed packages; what is above the top folder it is in does not matter.

    Nothing in a git folder does: a submodule or a worktree may be called `node_modules`.
    """
    tops = (*(() if root is None else (root,)), *writable)
    top = next((top for top in tops if path.is_relative_to(top)), None)
    names = path.parts if top is None else path.relative_to(top).parts
    return not DEPENDENCIES.isdisjoint(names) and not any(map(git_folder.is_git_folder, names))


def is_document(name: str) -> bool:
    """Whether it is the name of a conversation."""
    return fold(name).endswith(DOCUMENT_SUFFIX)


def is_conversation(path: str | Path, extra: Sequence[str]) -> bool:
    """Whether it is a document, or named as a single path, as the document that is being driven is."""
    return is_document(Path(path).name) or exact(path) in extra or is_remembered(str(path))


def is_harmless(path: str | Path, tops: Sequence[Path | None], extra: Sequence[str] = ()) -> bool:
    """Whether a new file there would be a document and nothing else: nothing is remembered of it, so nothing obeys
    what it says, and a command may make one."""
    path = Path(path)
    reasons = (is_protected(path, root=top, extra=extra, for_commands=True, as_document=False) for top in tops)
    return is_document(path.name) and all(reason is None for reason in reasons)


def exact(path: str | Path) -> str:
    """The pattern of one path, whatever characters are in it."""
    return escape(fold_path(os.path.abspath(path)))  # noqa: PTH100 - its symlinks are not followed


def _by_its_place(places: Iterable[str], root: str, home: str) -> str | None:
    for place in places:
        if _is_dotted(place, root):
            return DOTTED
        own = _first_below(place, home)
        if own.startswith(".") and own != _first_below(root, home):
            return AT_HOME
        if git_folder.in_repository(place):
            return BY_GIT
        if _is_in_environment(place):
            return ENVIRONMENT
    return None


def _is_dotted(place: str, root: str) -> bool:
    """Whether it is, or lies in, something with a dot at the top of the project that is not known to be inert."""
    written = _first_below(place, root)
    if not written.startswith(_DOTS):
        return False
    first = fold(written)
    if first in FORGES:
        below = fold_path(place[len(root.rstrip("/")) + len(written) + 2 :])
        return bool(below) and re.fullmatch(FORGES[first], below) is None
    return first not in INERT and first not in INERT_AT_TOP and not first.endswith("ignore")


def _is_in_environment(place: str) -> bool:
    """Whether it is one of the programs of a Python environment, whatever the environment is called."""
    folder, _, programs = place.rpartition("/")[0].rpartition("/")
    return programs.lower() in ("bin", "scripts") and os.path.lexists(f"{folder}/pyvenv.cfg")


def _first_below(path: str, folder: str) -> str:
    """The name directly in a folder that a path goes through; empty if it does not lie in it."""
    above = f"{folder.rstrip('/')}/"
    return path.removeprefix(above).partition("/")[0] if path.startswith(above) else ""


def _around(root: str) -> _Around:
    home = os.path.expanduser("~")  # noqa: PTH111 - as Path.home, ten times as fast
    return home, os.environ.get("XDG_CONFIG_HOME"), os.environ.get("XDG_STATE_HOME"), root


@lru_cache(maxsize=16)
def _built_in(around: _Around, for_commands: bool, as_document: bool) -> Matcher:
    return Matcher(_patterns(_groups(for_commands, as_document, around[-1]), around))


@lru_cache(maxsize=16)
def _configured(around: _Around, extra: tuple[str, ...]) -> Matcher:
    return Matcher(_patterns({CONFIGURED: extra}, around))


@lru_cache(maxsize=16)
def _ways(around: _Around, extra: tuple[str, ...], for_commands: bool) -> Matcher:
    """What lies on the way to a pattern, but for the pattern itself."""
    patterns = _patterns({**_groups(for_commands, True, around[-1]), CONFIGURED: extra}, around)
    return Matcher(
        pattern._replace(names=pattern.names[:count]) for pattern in patterns for count in range(1, len(pattern.names))
    )


@lru_cache(maxsize=16)
def _last_names(extra: tuple[str, ...]) -> Matcher:
    own = (user_config_file().name, user_config_file().parent.name, user_state_dir().name)
    every = (pattern for table in (PROTECTED, FOR_COMMANDS) for patterns in table.values() for pattern in patterns)
    return Matcher(Pattern((fold_path(pattern).rpartition("/")[2],), False, "") for pattern in (*every, *extra, *own))


def _groups(for_commands: bool, as_document: bool, root: str) -> dict[str, Iterable[str]]:
    groups: dict[str, Iterable[str]] = dict(PROTECTED)
    named = (pattern for pattern in PROTECTED[OWN] if as_document or pattern != DOCUMENTS)
    kept = (user_config_file().parent, Path(_real(user_config_file())), user_state_dir())
    groups[OWN] = (*named, *map(exact, kept))
    if for_commands:
        return {why: [one for each in some for one in FOR_COMMANDS.get(each, (each,))] for why, some in groups.items()}
    return {**groups, INSTALLED: [exact(folder) for folder in installation(root)]}


def _patterns(groups: dict[str, Iterable[str]], around: _Around) -> Iterator[Pattern]:
    for reason, patterns in groups.items():
        for pattern in patterns:
            for place in _places(pattern, around):
                yield Pattern(tuple(names_of(fold_path(place))), place.startswith("/"), reason)


def _places(pattern: str, around: _Around) -> Iterable[str]:
    """The pattern with its pin filled in, as written and with symlinks followed."""
    for pin, folder in (("~/", around[0]), ("$root/", around[-1])):
        if pattern.startswith(pin):
            return {f"{escape(place)}/{pattern.removeprefix(pin)}" for place in (folder, _real(folder)) if folder}
    return (pattern,)


def _real(path: Path | str) -> str:
    """Where a path leads; the path itself where that changes too quickly to be seen."""
    for _ in range(8):
        try:
            return os.path.realpath(path)
        except OSError:
            continue
    return os.path.normpath(path)
