"""Project roots, the state and configuration folders that belong to them, and the ownership checks on those."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from holdfast.contract.errors import ConfigError
from holdfast.fs.beneath import NotRegular, read_regular
from holdfast.fs.own_paths import config_folder, state_folder, user_config_file, user_state_dir
from holdfast.fs.replace import make_private_folder, write_private
from holdfast.import_path import MARKERS, find_project_root
from holdfast.text.escape import escape

PROJECT_FILE: Final = MARKERS[0]
_MARK: Final = "place"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")


def find_root(start: Path) -> Path | None:
    """Return the nearest folder at or above `start` that contains `holdfast.toml` or `.git`."""
    found = find_project_root(str(start))
    return None if found is None else Path(found)


def check_state_dir(root: Path) -> None:
    """Raise `ConfigError` if another user could change the state of this user or project, or the project brought it."""
    instead = "set XDG_STATE_HOME to a folder that is yours alone"
    named = state_folder()
    project = state_dir(root)
    inside = inside_project(named, root)
    if inside and _is_foreign(user_state_dir()):
        raise ConfigError(
            f"The state folder {escape(str(named))} is inside the project and was not created on this machine, so it "
            "may contain trust decisions of somebody else. Remove it, or, if it is yours, run `holdfast doctor` "
            "outside the project once."
        )
    for path in (named, project, named / "user.db", project / "ledger.db"):
        check_ownership(path, "The state folder" if path.suffix != ".db" else "The database", instead=instead)
    for path in (*_folders_in(named), *_folders_in(project), *_folders_in(project / "shown", str(os.getuid()))):
        check_ownership(path, "Part of the state folder", instead=instead)
    if inside or named.is_dir():
        mark_state_dir()


def mark_state_dir() -> None:
    """Mark the state folder as created on this machine. A project could ship one and point `XDG_STATE_HOME` to it."""
    folder = user_state_dir()
    with suppress(OSError):  # reported where the folder is used
        make_private_folder(folder)
        if not _is_marked(folder):
            write_private(folder / _MARK, _mark(folder).encode())


def _is_foreign(folder: Path) -> bool:
    try:
        return bool(os.listdir(folder)) and not _is_marked(folder)  # noqa: PTH208
    except FileNotFoundError:
        return False


def _is_marked(folder: Path) -> bool:
    with suppress(OSError, NotRegular):
        return read_regular(folder / _MARK, 100) == _mark(folder).encode()
    return False


def _mark(folder: Path) -> str:
    """Return a digest of the machine id and the folder's inode, which cannot be known on another machine."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii", errors="replace")
    except OSError:
        machine = ""
    return sha256(os.fsencode(f"{machine.strip()} {folder.stat().st_ino} {folder}")).hexdigest()


def _folders_in(folder: Path, *names: str) -> list[Path]:
    """Return the subfolders, or with `names` only those."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir() and (not names or entry.name in names)]
    except OSError:
        return []


def check_user_config(root: Path | None = None) -> None:
    """Raise `ConfigError` if another user could change this user's configuration, or their file for a project."""
    named = config_folder()
    own = () if root is None else (named / "projects", named / "projects" / user_project_file(root).name)
    for path in (named, named / "config.toml", *own):
        check_ownership(path, "The user configuration", instead="set XDG_CONFIG_HOME to a folder that is yours alone")


def state_dir(root: Path) -> Path:
    """Return the state folder of a project, named after the root plus a hash of its real path."""
    real = Path(os.path.realpath(root))
    state = user_state_dir()
    return state / "projects" / _project_name(real)


def user_project_file(root: Path) -> Path:
    """Return the path of the user's own configuration for one project."""
    return user_config_file().parent / "projects" / f"{_project_name(Path(os.path.realpath(root)))}.toml"


def _project_name(root: Path) -> str:
    name = _UNSAFE.sub("-", root.name).strip("-")[:40] or "root"
    return f"{name}-{sha256(os.fsencode(root)).hexdigest()[:16]}"


def inside_project(path: Path, root: Path) -> bool:
    """Whether a user-level path is inside the project. A root that contains the whole home folder does not count."""
    real = Path(os.path.realpath(root))
    return Path(os.path.realpath(path)).is_relative_to(real) and not _login_home().is_relative_to(real)


def _login_home() -> Path:
    """Return the account's home folder from the password database: the project may have set `HOME`."""
    try:
        return Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    except (ImportError, KeyError):
        return Path(os.path.realpath(Path.home()))


_MAX_LINKS = 40
"""The kernel's limit for symlinks in one path."""


def check_ownership(path: Path, what: str, *, instead: str) -> None:
    """Raise `ConfigError` if another user owns, can write or can replace the file or folder or one on its path.

    A missing path passes if no other user could create it. `instead` tells the user how to choose another location.
    """
    if not hasattr(os, "getuid"):
        return
    for place, info, last in walk_components(path):
        name = f"{what} {escape(str(path))}"
        if info.st_uid != os.getuid() and (last or not is_system_user(info.st_uid)) and not _is_root_file(info, last):
            how = "belongs" if last else f"is reached through {escape(place)}, which belongs"
            raise ConfigError(
                f"{name} {how} to the user {_user(info.st_uid)}, who could change what holdfast trusts. "
                f"Run holdfast as that user, or {instead}."
            )
        if not stat.S_ISLNK(info.st_mode) and _writable_by_others(info, last):
            raise ConfigError(
                f"{escape(place)}, {'which is' if last else 'on the path of'} {what[0].lower()}{what[1:]}, can be "
                f"written by others (mode {stat.S_IMODE(info.st_mode):04o}). "
                f"Check its content and run `chmod go-w {escape(place)}`, or {instead}."
            )


def walk_components(path: Path) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Yield every existing folder and symlink on the path, as (path, lstat, whether it is the final target).

    Symlinks are resolved by hand, because `realpath` would hide the intermediate links and folders, any of which
    another user might be able to replace.
    """
    parts = [part for part in reversed(path.parts) if part != os.sep]
    here, links = os.sep, 0
    yield here, os.stat(here), not parts  # noqa: PTH116
    while parts:
        part = parts.pop()
        if part == os.pardir:
            here = os.path.dirname(here)  # noqa: PTH120
            continue
        place = os.path.join(here, part)  # noqa: PTH118
        try:
            info = os.lstat(place)
        except OSError:
            return
        if stat.S_ISLNK(info.st_mode) and links < _MAX_LINKS:
            links += 1
            yield place, info, False
            target = Path(place).readlink()
            here = os.sep if target.is_absolute() else here
            parts += [part for part in reversed(target.parts) if part != os.sep]
            continue
        yield place, info, not parts
        here = place


def _writable_by_others(info: os.stat_result, last: bool) -> bool:
    """Whether others can write. A folder on the path may be sticky like /tmp: there they cannot replace entries."""
    if info.st_mode & stat.S_IWOTH:
        return last or not info.st_mode & stat.S_ISVTX
    return last and bool(info.st_mode & stat.S_IWGRP) and not _is_private_group(info.st_gid)


def _is_root_file(info: os.stat_result, last: bool) -> bool:
    """Whether this is a file that root wrote for this user."""
    return last and stat.S_ISREG(info.st_mode) and info.st_uid == 0


def is_system_user(user: int) -> bool:
    """Whether this is root, or in a user namespace the overflow user, as which the real root appears there."""
    return user == 0 or (user == _overflow_uid() and _in_user_namespace())


@lru_cache(maxsize=1)
def _overflow_uid() -> int:
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 65_534


@lru_cache(maxsize=1)
def _in_user_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text(encoding="ascii").split() != ["0", "0", "4294967295"]
    except OSError:
        return False


def _is_private_group(group: int) -> bool:
    """Whether this user is the group's only member, as in the per-user groups that many systems create."""
    if os.getuid() == 0:
        return False
    try:
        me = pwd.getpwuid(os.getuid()).pw_name
        members = {*grp.getgrgid(group).gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group)}
    except KeyError:
        return False
    return members == {me}


def _user(number: int) -> str:
    try:
        return f"'{pwd.getpwuid(number).pw_name}'"
    except KeyError:
        return str(number)
