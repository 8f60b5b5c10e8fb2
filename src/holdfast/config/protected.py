"""Protected paths: files that something obeys or runs later, which no general "may write" covers.

A pattern is one or more names joined by `/`. It matches wherever those names stand next to each other in a path,
and everything beneath; `~/`, `$root/` and `/` pin it to a place. `*` and `?` stand for characters of one name;
`[*]`, `[?]` and `[[]` stand for those characters themselves. `acting` lists the patterns. Protected beside them: what
begins with a dot at the top of a project, what something there includes or runs (`included`), files with
remembered calls (`documents`), and where holdfast is installed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Final

from holdfast.config import documents, git_folder
from holdfast.config.acting import BY_GIT, DOCUMENTS, FOR_COMMANDS, FORGES, INERT, INERT_AT_TOP, OWN, PROTECTED
from holdfast.config.included import included
from holdfast.config.installation import installation
from holdfast.config.patterns import Matcher, Pattern, fold, fold_path, may_be_short, names_of, shared_names
from holdfast.config.roots import user_config_file, user_state_dir

CONFIGURED: Final = "the configuration protects it"
INSTALLED: Final = "holdfast runs it"
DOTTED: Final = "it is at the top of the project, where programs obey names that begin with a dot"
SHORT: Final = "it may be the short name of something protected"
ENVIRONMENT: Final = "it is a program of an environment"
AT_HOME: Final = "a program of this user obeys it"


def is_protected(
    path: Path,
    *,
    root: Path | None,
    extra: Iterable[str] = (),
    for_commands: bool = False,
    as_document: bool = True,
) -> str | None:
    """Why a path is protected, or None. Both the path as written and where its symlinks lead are looked at.

    `for_commands`: inside `.git` only what git obeys or runs counts, so that a command can commit, below the top of the
    project build files do not count, so that it can build, and names with a dot do not count only for that, since
    programs cache there. `as_document`: being named like a document is a reason.
    """
    top = "" if root is None else str(root)
    full = os.path.join(top or os.getcwd(), path)  # noqa: PTH109, PTH118 - a Path takes longer than the rest
    places = dict.fromkeys((os.path.normpath(full), _real(full)))
    home = _home()
    around = (home, _given(), top)
    matchers = (_built_in(*around, for_commands, as_document), _configured(*around, tuple(extra)))
    subjects = list(map(fold_path, places))
    for subject in subjects:
        names = names_of(subject)
        if for_commands and (inside := git_folder.inside(names, _folded(top))) and git_folder.locks(inside):
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
    if any(documents.is_remembered(place, subject) for place, subject in zip(places, subjects, strict=True)):
        return OWN
    if root is None:
        return None
    if (reason := next(filter(None, map(included(root).reason, subjects, places)), None)) is not None:
        return reason
    return None if for_commands else _by_its_place(places, top, home)


def leads_to_protected(
    path: Path, *, root: Path | None, extra: Iterable[str] = (), for_commands: bool = False
) -> str | None:
    """Why a path may not be a symlink, or None: through it something else would stand where a protected path does."""
    names = names_of(fold_path(os.path.normpath((root or Path.cwd()) / path)))
    if (inside := git_folder.inside(names)) and git_folder.is_way(inside):
        return BY_GIT
    around = (_home(), _given(), "" if root is None else str(root))
    return _ways(*around, tuple(extra), for_commands).reason(names, whole=True)


def could_be_protected(name: str, extra: Iterable[str] = ()) -> bool:
    """Whether a name alone is that of a protected path, wherever it stands: a quick look before `is_protected`."""
    return _could_be(fold(name), tuple(extra))


def is_document(name: str) -> bool:
    """Whether it is the name of a conversation."""
    return fold(name).endswith(DOCUMENTS[1:])


def exact(path: str | Path) -> str:
    """The pattern of one path, whatever characters are in it."""
    return escape(fold_path(os.path.abspath(path)))  # noqa: PTH100 - its symlinks are not followed


def is_git_folder(name: str) -> bool:
    return fold(name) == ".git"


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


_DOTS: Final = (".", "\N{FULLWIDTH FULL STOP}", "\N{ONE DOT LEADER}", "\N{SMALL FULL STOP}")


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


@lru_cache(maxsize=4096)
def _could_be(name: str, extra: tuple[str, ...]) -> bool:
    matcher = _last_names(extra)
    if matcher.may_end(name) or may_be_short(name):
        return True
    shared = shared_names([name])
    return shared is not None and matcher.may_end(shared[0])


@lru_cache(maxsize=16)
def _last_names(extra: tuple[str, ...]) -> Matcher:
    own = (user_config_file().name, user_config_file().parent.name, user_state_dir().name)
    every = (pattern for table in (PROTECTED, FOR_COMMANDS) for patterns in table.values() for pattern in patterns)
    return Matcher(Pattern((fold_path(pattern).rpartition("/")[2],), False, "") for pattern in (*every, *extra, *own))


@lru_cache(maxsize=16)
def _folded(root: str) -> list[str]:
    return names_of(fold_path(root)) if root else []


def _home() -> str:
    return os.path.expanduser("~")  # noqa: PTH111 - as Path.home, ten times as fast


def _given() -> tuple[str | None, str | None]:
    return os.environ.get("XDG_CONFIG_HOME"), os.environ.get("XDG_STATE_HOME")


@lru_cache(maxsize=16)
def _built_in(
    home: str, given: tuple[str | None, ...], root: str, for_commands: bool, as_document: bool
) -> Matcher:
    return Matcher(_patterns(_groups(for_commands, as_document, root), home, root))


@lru_cache(maxsize=16)
def _configured(home: str, given: tuple[str | None, ...], root: str, extra: tuple[str, ...]) -> Matcher:
    return Matcher(_patterns({CONFIGURED: extra}, home, root))


@lru_cache(maxsize=16)
def _ways(
    home: str, given: tuple[str | None, ...], root: str, extra: tuple[str, ...], for_commands: bool
) -> Matcher:
    """What lies on the way to a pattern, but for the pattern itself."""
    patterns = _patterns({**_groups(for_commands, True, root), CONFIGURED: extra}, home, root)
    return Matcher(
        pattern._replace(names=pattern.names[:count]) for pattern in patterns for count in range(1, len(pattern.names))
    )


def _groups(for_commands: bool, as_document: bool, root: str) -> dict[str, Iterable[str]]:
    groups: dict[str, Iterable[str]] = dict(PROTECTED)
    named = (pattern for pattern in PROTECTED[OWN] if as_document or pattern != DOCUMENTS)
    kept = (user_config_file().parent, Path(_real(user_config_file())), user_state_dir())
    groups[OWN] = (*named, *map(exact, kept))
    if for_commands:
        return {why: [one for each in some for one in FOR_COMMANDS.get(each, (each,))] for why, some in groups.items()}
    return {**groups, INSTALLED: [exact(folder) for folder in installation(root)]}


def _patterns(groups: dict[str, Iterable[str]], home: str, root: str) -> Iterator[Pattern]:
    for reason, patterns in groups.items():
        for pattern in patterns:
            for folded, pinned in _places(pattern, home, root):
                yield Pattern(tuple(names_of(folded)), pinned, reason)


def _places(pattern: str, home: str, root: str) -> list[tuple[str, bool]]:
    """The pattern folded, with its pin filled in, as written and with symlinks followed; and whether it is pinned."""
    for pin, folder in (("~/", home), ("$root/", root)):
        if pattern.startswith(pin):
            rest = pattern.removeprefix(pin)
            places = {folder, _real(folder)} if folder else set[str]()
            return [(fold_path(f"{escape(place)}/{rest}"), True) for place in places]
    return [(fold_path(pattern), pattern.startswith("/"))]


def _real(path: Path | str) -> str:
    """Where a path leads; the path itself where that changes too quickly to be seen."""
    for _ in range(8):
        try:
            return os.path.realpath(path)
        except OSError:
            continue
    return os.path.normpath(path)
