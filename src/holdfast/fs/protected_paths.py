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
from holdfast.fs.included_files import reference_reason
from holdfast.fs.own_paths import installation_paths, is_registered_document, user_config_file, user_state_dir
from holdfast.fs.paths import (
    PathMatcher,
    PathPattern,
    fold,
    fold_path,
    may_be_short_name,
    split_path,
    without_local_markers,
)
from holdfast.fs.protected_list import (
    COMMAND_PATTERNS,
    DOCUMENT_PATTERN,
    DOCUMENT_SUFFIX,
    FORGE_FOLDERS,
    GIT_REASON,
    INERT,
    INERT_AT_TOP,
    OWN_REASON,
    PACKAGE_FOLDERS,
    PROTECTED,
)

CONFIGURED_REASON: Final = "the configuration protects it"
INSTALLED_REASON: Final = "holdfast runs it"
DOTTED_REASON: Final = "it is at the top of the project, where programs obey names that begin with a dot"
SHORT_NAME_REASON: Final = "it may be the short name of something protected"
ENVIRONMENT_REASON: Final = "it is a program of an environment"
HOME_REASON: Final = "a program of this user obeys it"
_DOTS: Final = (".", "\N{FULLWIDTH FULL STOP}", "\N{ONE DOT LEADER}", "\N{SMALL FULL STOP}")

_Pins = tuple[str, str | None, str | None, str]
"""What pins patterns to places: the home folder, the user's folders where the environment names them, the project."""


def protected_reason(
    path: Path, *, root: Path | None, extra: Iterable[str] = (), for_commands: bool = False, as_document: bool = True
) -> str | None:
    """Why a path is protected, or None. Both the path as written and where its symlinks lead are looked at.

    `for_commands`: inside `.git` only what git obeys or runs counts, so that a command can commit, below the top of the
    project build files do not count, so that it can build, and names with a dot do not count only for that, since
    programs cache there. `as_document`: being named like a document is a reason.
    """
    top = "" if root is None else str(root)
    full = os.path.join(top or os.getcwd(), path)  # noqa: PTH109, PTH118 - a Path takes longer than the rest
    places = tuple(dict.fromkeys((os.path.normpath(full), _real_path(full))))
    around = _pins(top)
    matchers = (_built_in_matcher(around, for_commands, as_document), _configured_matcher(around, tuple(extra)))
    subjects = tuple(map(fold_path, places))
    for subject in subjects:
        names = split_path(subject)
        if (
            for_commands
            and (inside := git_folder.names_inside_git(names, split_path(fold_path(top))))
            and git_folder.is_locked(inside)
        ):
            return GIT_REASON
        if "~" in subject and any(map(may_be_short_name, names)):
            return SHORT_NAME_REASON
        if names[-1] in INERT:
            names = names[:-1]
        shared = without_local_markers(names)
        for matcher in matchers:
            reason = matcher.reason(names) or (None if shared is None else matcher.reason(shared))
            if reason is not None:
                return reason
    if any(map(is_registered_document, places, subjects)):
        return OWN_REASON
    if root is None:
        return None
    if (reason := reference_reason(root, zip(subjects, places, strict=True))) is not None:
        return reason
    return None if for_commands else _location_reason(places, top, around[0])


def symlink_reason(
    path: Path, *, root: Path | None, extra: Iterable[str] = (), for_commands: bool = False
) -> str | None:
    """Why a path may not be a symlink, or None: through it something else would stand where a protected path does."""
    names = split_path(fold_path(os.path.normpath((root or Path.cwd()) / path)))
    if (inside := git_folder.names_inside_git(names)) and git_folder.leads_to_control_file(inside):
        return GIT_REASON
    around = _pins("" if root is None else str(root))
    return _ancestor_matcher(around, tuple(extra), for_commands).reason(names, whole=True)


@lru_cache(maxsize=4096)
def may_be_protected_name(name: str, extra: tuple[str, ...] = ()) -> bool:
    """Whether a name alone is that of a protected path, wherever it stands: a quick look before `is_protected`."""
    name, matcher = fold(name), _last_name_matcher(extra)
    if matcher.may_match_last(name) or may_be_short_name(name):
        return True
    shared = without_local_markers([name])
    return shared is not None and matcher.may_match_last(shared[0])


def command_locked_reason(
    path: str | Path, *, root: Path | None, extra: Sequence[str] = (), writable: Sequence[Path] = ()
) -> str | None:
    """Why a command may not change a path, or None."""
    path = Path(path)
    if _is_exempt(path, root, writable):
        return None
    reason = protected_reason(path, root=root, extra=extra, for_commands=True)
    if reason is None and git_folder.is_pointer_name(path):
        with suppress(OSError):
            return None if stat.S_ISDIR(os.lstat(path).st_mode) else GIT_REASON
    if reason is None and os.path.islink(path):  # noqa: PTH114 - False where nobody may look
        return command_symlink_reason(path, root=root, extra=extra, writable=writable)
    return reason


def command_symlink_reason(
    path: Path, *, root: Path | None, extra: Sequence[str] = (), writable: Sequence[Path] = ()
) -> str | None:
    """Why a command may not put a symlink at a path, or take it from there; None if it may."""
    if _is_exempt(path, root, writable):
        return None
    if git_folder.path_names_inside_git(path, root):
        return GIT_REASON  # git writes through links: its messages and logs would end up where they lead
    return symlink_reason(path, root=root, extra=extra, for_commands=True)


def _is_exempt(path: Path, root: Path | None, writable: Sequence[Path]) -> bool:
    """Whether it lies in a folder of installed packages; what is above the top folder it is in does not matter.

    Nothing in a git folder does: a submodule or a worktree may be called `node_modules`.
    """
    tops = (*(() if root is None else (root,)), *writable)
    top = next((top for top in tops if path.is_relative_to(top)), None)
    names = path.parts if top is None else path.relative_to(top).parts
    return not PACKAGE_FOLDERS.isdisjoint(names) and not any(map(git_folder.is_git_folder, names))


def is_document_name(name: str) -> bool:
    """Whether it is the name of a conversation."""
    return fold(name).endswith(DOCUMENT_SUFFIX)


def is_conversation_path(path: str | Path, extra: Sequence[str]) -> bool:
    """Whether it is a document, or named as a single path, as the document that is being driven is."""
    return is_document_name(Path(path).name) or exact_pattern(path) in extra or is_registered_document(str(path))


def is_inert_document(path: str | Path, tops: Sequence[Path | None], extra: Sequence[str] = ()) -> bool:
    """Whether a new file there would be a document and nothing else: nothing is remembered of it, so nothing obeys
    what it says, and a command may make one."""
    path = Path(path)
    reasons = (protected_reason(path, root=top, extra=extra, for_commands=True, as_document=False) for top in tops)
    return is_document_name(path.name) and all(reason is None for reason in reasons)


def exact_pattern(path: str | Path) -> str:
    """The pattern of one path, whatever characters are in it."""
    return escape(fold_path(os.path.abspath(path)))  # noqa: PTH100 - its symlinks are not followed


def _location_reason(places: Iterable[str], root: str, home: str) -> str | None:
    for place in places:
        if _is_dotted(place, root):
            return DOTTED_REASON
        own = _first_name_below(place, home)
        if own.startswith(".") and own != _first_name_below(root, home):
            return HOME_REASON
        if git_folder.is_in_repository(place):
            return GIT_REASON
        if _is_environment_program(place):
            return ENVIRONMENT_REASON
    return None


def _is_dotted(place: str, root: str) -> bool:
    """Whether it is, or lies in, something with a dot at the top of the project that is not known to be inert."""
    written = _first_name_below(place, root)
    if not written.startswith(_DOTS):
        return False
    first = fold(written)
    if first in FORGE_FOLDERS:
        below = fold_path(place[len(root.rstrip("/")) + len(written) + 2 :])
        return bool(below) and re.fullmatch(FORGE_FOLDERS[first], below) is None
    return first not in INERT and first not in INERT_AT_TOP and not first.endswith("ignore")


def _is_environment_program(place: str) -> bool:
    """Whether it is one of the programs of a Python environment, whatever the environment is called."""
    folder, _, programs = place.rpartition("/")[0].rpartition("/")
    return programs.lower() in ("bin", "scripts") and os.path.lexists(f"{folder}/pyvenv.cfg")


def _first_name_below(path: str, folder: str) -> str:
    """The name directly in a folder that a path goes through; empty if it does not lie in it."""
    above = f"{folder.rstrip('/')}/"
    return path.removeprefix(above).partition("/")[0] if path.startswith(above) else ""


def _pins(root: str) -> _Pins:
    home = os.path.expanduser("~")  # noqa: PTH111 - as Path.home, ten times as fast
    return home, os.environ.get("XDG_CONFIG_HOME"), os.environ.get("XDG_STATE_HOME"), root


@lru_cache(maxsize=16)
def _built_in_matcher(around: _Pins, for_commands: bool, as_document: bool) -> PathMatcher:
    return PathMatcher(_patterns(_patterns_by_reason(for_commands, as_document, around[-1]), around))


@lru_cache(maxsize=16)
def _configured_matcher(around: _Pins, extra: tuple[str, ...]) -> PathMatcher:
    return PathMatcher(_patterns({CONFIGURED_REASON: extra}, around))


@lru_cache(maxsize=16)
def _ancestor_matcher(around: _Pins, extra: tuple[str, ...], for_commands: bool) -> PathMatcher:
    """What lies on the way to a pattern, but for the pattern itself."""
    patterns = _patterns({**_patterns_by_reason(for_commands, True, around[-1]), CONFIGURED_REASON: extra}, around)
    return PathMatcher(
        pattern._replace(names=pattern.names[:count]) for pattern in patterns for count in range(1, len(pattern.names))
    )


@lru_cache(maxsize=16)
def _last_name_matcher(extra: tuple[str, ...]) -> PathMatcher:
    own = (user_config_file().name, user_config_file().parent.name, user_state_dir().name)
    every = (pattern for table in (PROTECTED, COMMAND_PATTERNS) for patterns in table.values() for pattern in patterns)
    return PathMatcher(
        PathPattern((fold_path(pattern).rpartition("/")[2],), False, "") for pattern in (*every, *extra, *own)
    )


def _patterns_by_reason(for_commands: bool, as_document: bool, root: str) -> dict[str, Iterable[str]]:
    groups: dict[str, Iterable[str]] = dict(PROTECTED)
    named = (pattern for pattern in PROTECTED[OWN_REASON] if as_document or pattern != DOCUMENT_PATTERN)
    kept = (user_config_file().parent, Path(_real_path(user_config_file())), user_state_dir())
    groups[OWN_REASON] = (*named, *map(exact_pattern, kept))
    if for_commands:
        return {
            why: [one for each in some for one in COMMAND_PATTERNS.get(each, (each,))] for why, some in groups.items()
        }
    return {**groups, INSTALLED_REASON: [exact_pattern(folder) for folder in installation_paths(root)]}


def _patterns(groups: dict[str, Iterable[str]], around: _Pins) -> Iterator[PathPattern]:
    for reason, patterns in groups.items():
        for pattern in patterns:
            for place in _expand_pin(pattern, around):
                yield PathPattern(tuple(split_path(fold_path(place))), place.startswith("/"), reason)


def _expand_pin(pattern: str, around: _Pins) -> Iterable[str]:
    """The pattern with its pin filled in, as written and with symlinks followed."""
    for pin, folder in (("~/", around[0]), ("$root/", around[-1])):
        if pattern.startswith(pin):
            return {f"{escape(place)}/{pattern.removeprefix(pin)}" for place in (folder, _real_path(folder)) if folder}
    return (pattern,)


def _real_path(path: Path | str) -> str:
    """Where a path leads; the path itself where that changes too quickly to be seen."""
    for _ in range(8):
        try:
            return os.path.realpath(path)
        except OSError:
            continue
    return os.path.normpath(path)
