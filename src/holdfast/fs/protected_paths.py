"""Protected paths: files that a program obeys or runs later, so general write permission does not cover them.

These are the names in `protected_list`, dotted names at the top of a project, files that project files include or run
(`included_files`), and holdfast's own files (`own_paths`).
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
"""What `~/` and `$root/` in patterns stand for: the home folder, the XDG variables (as cache key), the project root."""


def protected_reason(
    path: Path, *, root: Path | None, extra: Iterable[str] = (), for_commands: bool = False, as_document: bool = True
) -> str | None:
    """Return why a path is protected, or None. Checks the path as written and its resolved form.

    `for_commands` relaxes the rules for commands: in `.git` only files that git obeys or runs count, so that a command
    can commit; build files count only at the top of the project, so that it can build; dotted names alone do not count,
    because programs keep caches there. `as_document`: a document's name is a reason.
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
    """Return why a path must not be a symlink, or None: it would put another file at a protected path."""
    names = split_path(fold_path(os.path.normpath((root or Path.cwd()) / path)))
    if (inside := git_folder.names_inside_git(names)) and git_folder.leads_to_control_file(inside):
        return GIT_REASON
    around = _pins("" if root is None else str(root))
    return _ancestor_matcher(around, tuple(extra), for_commands).reason(names, whole=True)


@lru_cache(maxsize=4096)
def may_be_protected_name(name: str, extra: tuple[str, ...] = ()) -> bool:
    """Whether a name can be that of a protected path: a fast filter before `protected_reason`."""
    name, matcher = fold(name), _last_name_matcher(extra)
    if matcher.may_match_last(name) or may_be_short_name(name):
        return True
    shared = without_local_markers([name])
    return shared is not None and matcher.may_match_last(shared[0])


def command_locked_reason(
    path: str | Path, *, root: Path | None, extra: Sequence[str] = (), writable: Sequence[Path] = ()
) -> str | None:
    """Return why a command may not change a path, or None."""
    path = Path(path)
    if _is_exempt(path, root, writable):
        return None
    reason = protected_reason(path, root=root, extra=extra, for_commands=True)
    if reason is None and git_folder.is_pointer_name(path):
        with suppress(OSError):
            return None if stat.S_ISDIR(os.lstat(path).st_mode) else GIT_REASON
    if reason is None and os.path.islink(path):  # noqa: PTH114 - unlike Path, returns False on PermissionError
        return command_symlink_reason(path, root=root, extra=extra, writable=writable)
    return reason


def command_symlink_reason(
    path: Path, *, root: Path | None, extra: Sequence[str] = (), writable: Sequence[Path] = ()
) -> str | None:
    """Return why a command may not create or remove a symlink at a path, or None."""
    if _is_exempt(path, root, writable):
        return None
    if git_folder.path_names_inside_git(path, root):
        return GIT_REASON  # git writes through symlinks: its messages and logs would end up at the target
    return symlink_reason(path, root=root, extra=extra, for_commands=True)


def _is_exempt(path: Path, root: Path | None, writable: Sequence[Path]) -> bool:
    """Whether a path is in a folder of installed packages, below the root or writable folder that contains it.

    Paths in a git folder are not exempt: a submodule or a worktree may be named `node_modules`.
    """
    tops = (*(() if root is None else (root,)), *writable)
    top = next((top for top in tops if path.is_relative_to(top)), None)
    names = path.parts if top is None else path.relative_to(top).parts
    return not PACKAGE_FOLDERS.isdisjoint(names) and not any(map(git_folder.is_git_folder, names))


def is_document_name(name: str) -> bool:
    """Whether the name has the suffix of a document."""
    return fold(name).endswith(DOCUMENT_SUFFIX)


def is_conversation_path(path: str | Path, extra: Sequence[str]) -> bool:
    """Whether a path is a document by name, by registration, or by an exact pattern (the document in use)."""
    return is_document_name(Path(path).name) or exact_pattern(path) in extra or is_registered_document(str(path))


def is_inert_document(path: str | Path, tops: Sequence[Path | None], extra: Sequence[str] = ()) -> bool:
    """Whether a new file there would be only a document. Nothing obeys it without registration, so a command may
    create it."""
    path = Path(path)
    reasons = (protected_reason(path, root=top, extra=extra, for_commands=True, as_document=False) for top in tops)
    return is_document_name(path.name) and all(reason is None for reason in reasons)


def exact_pattern(path: str | Path) -> str:
    """Return the pattern that matches only this path."""
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
    """Whether a path is at or below a dotted name at the top of the project that is not known to be inert."""
    written = _first_name_below(place, root)
    if not written.startswith(_DOTS):
        return False
    first = fold(written)
    if first in FORGE_FOLDERS:
        below = fold_path(place[len(root.rstrip("/")) + len(written) + 2 :])
        return bool(below) and re.fullmatch(FORGE_FOLDERS[first], below) is None
    return first not in INERT and first not in INERT_AT_TOP and not first.endswith("ignore")


def _is_environment_program(place: str) -> bool:
    """Whether a path is a program of a Python environment of any name."""
    folder, _, programs = place.rpartition("/")[0].rpartition("/")
    return programs.lower() in ("bin", "scripts") and os.path.lexists(f"{folder}/pyvenv.cfg")


def _first_name_below(path: str, folder: str) -> str:
    """Return the first component of a path below a folder; empty if it is not inside."""
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
    """Return a matcher of the parents of all patterns, without the patterns themselves."""
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
    """Expand `~/` and `$root/` in a pattern, as written and with symlinks resolved."""
    for pin, folder in (("~/", around[0]), ("$root/", around[-1])):
        if pattern.startswith(pin):
            return {f"{escape(place)}/{pattern.removeprefix(pin)}" for place in (folder, _real_path(folder)) if folder}
    return (pattern,)


def _real_path(path: Path | str) -> str:
    """Resolve a path. Retries if it changes meanwhile; returns the path itself if it keeps changing."""
    for _ in range(8):
        try:
            return os.path.realpath(path)
        except OSError:
            continue
    return os.path.normpath(path)
