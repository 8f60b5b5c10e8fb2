"""Where a project begins, and what is remembered for it, out of reach of its tools."""

from __future__ import annotations

import os
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
_UNTIDY: Final = re.compile(r"[^A-Za-z0-9_-]+")


def find_root(start: Path) -> Path | None:
    """The nearest folder at or above `start` that holds `holdfast.toml` or `.git`."""
    found = find_project_root(str(start))
    return None if found is None else Path(found)


def check_state_dir(root: Path) -> None:
    """Raise `ConfigError` if another user could change what is remembered for this user, or for this project."""
    instead = "set XDG_STATE_HOME to a folder that is yours alone"
    named = state_folder()
    project = state_dir(root)
    inside = inside_project(named, root)
    if inside and _came_along(user_state_dir()):
        raise ConfigError(
            f"The state folder {escape(str(named))} lies inside the project and was not made on this machine, so it "
            "may say what somebody else trusts; remove it, or, if it is yours, run `holdfast doctor` outside the "
            "project once."
        )
    for path in (named, project, named / "user.db", project / "ledger.db"):
        check_ownership(path, "The state folder" if path.suffix != ".db" else "The database", instead=instead)
    for path in (*_folders_in(named), *_folders_in(project), *_folders_in(project / "shown", str(os.getuid()))):
        check_ownership(path, "Part of the state folder", instead=instead)
    if inside or named.is_dir():
        mark_state_dir()


def mark_state_dir() -> None:
    """Note in the state folder that it was made here: a project may bring one along, and say where it is."""
    folder = user_state_dir()
    with suppress(OSError):  # what is wrong with it is said where it is used
        make_private_folder(folder)
        if not _is_marked(folder):
            write_private(folder / _MARK, _mark(folder).encode())


def _came_along(folder: Path) -> bool:
    try:
        return bool(os.listdir(folder)) and not _is_marked(folder)  # noqa: PTH208
    except FileNotFoundError:
        return False


def _is_marked(folder: Path) -> bool:
    with suppress(OSError, NotRegular):
        return read_regular(folder / _MARK, 100) == _mark(folder).encode()
    return False


def _mark(folder: Path) -> str:
    """What nobody elsewhere can know: the machine's own number, and that of the folder on the disk."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii", errors="replace")
    except OSError:
        machine = ""
    return sha256(os.fsencode(f"{machine.strip()} {folder.stat().st_ino} {folder}")).hexdigest()


def _folders_in(folder: Path, *names: str) -> list[Path]:
    """Those that are there, of these names or of any."""
    try:
        with os.scandir(folder) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir() and (not names or entry.name in names)]
    except OSError:
        return []


def check_user_config(root: Path | None = None) -> None:
    """The same for the user's configuration, and for the user's own rules for a project."""
    named = config_folder()
    own = () if root is None else (named / "projects", named / "projects" / user_project_file(root).name)
    for path in (named, named / "config.toml", *own):
        check_ownership(path, "The user configuration", instead="set XDG_CONFIG_HOME to a folder that is yours alone")


def state_dir(root: Path) -> Path:
    """The folder that remembers for one project: a readable name and a hash of where the root is."""
    real = Path(os.path.realpath(root))
    state = user_state_dir()
    return state / "projects" / _project_name(real)


def user_project_file(root: Path) -> Path:
    """The user's own rules for one project."""
    return user_config_file().parent / "projects" / f"{_project_name(Path(os.path.realpath(root)))}.toml"


def _project_name(root: Path) -> str:
    name = _UNTIDY.sub("-", root.name).strip("-")[:40] or "root"
    return f"{name}-{sha256(os.fsencode(root)).hexdigest()[:16]}"


def inside_project(path: Path, root: Path) -> bool:
    """Whether a user-level path was moved into the project. A root that holds the whole home folder is no move."""
    real = Path(os.path.realpath(root))
    return Path(os.path.realpath(path)).is_relative_to(real) and not _login_home().is_relative_to(real)


def _login_home() -> Path:
    """The home folder of the account; `HOME` itself may have been set by a file of the project."""
    try:
        import pwd

        return Path(os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir))
    except (ImportError, KeyError):
        return Path(os.path.realpath(Path.home()))


_MOST_LINKS = 40


def check_ownership(path: Path, what: str, *, instead: str) -> None:
    """Raise `ConfigError` for a file or folder that another user owns, can write, or can exchange on the way there.

    What is not there yet is fine if nobody else can put it there. `instead` says how to choose another place.
    """
    if not hasattr(os, "getuid"):
        return
    for place, about, last in walk_components(path):
        name = f"{what} {escape(str(path))}"
        if about.st_uid != os.getuid() and (last or not is_system_user(about.st_uid)) and not _roots_own(about, last):
            how = "belongs" if last else f"is reached through {escape(place)}, which belongs"
            raise ConfigError(
                f"{name} {how} to the user {_user(about.st_uid)}, who could change what holdfast trusts; "
                f"run holdfast as that user, or {instead}."
            )
        if not stat.S_ISLNK(about.st_mode) and _others_write(about, last):
            raise ConfigError(
                f"{escape(place)}, {'which is' if last else 'on the way to'} {what[0].lower()}{what[1:]}, can be "
                f"written by others (mode {stat.S_IMODE(about.st_mode):04o}); "
                f"run `chmod go-w {escape(place)}` if what is in it is still yours, or {instead}."
            )


def walk_components(path: Path) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Every folder and link on the way, as far as there is one; the last is where the path leads."""
    waiting = [part for part in reversed(path.parts) if part != os.sep]
    here, links = os.sep, 0
    yield here, os.stat(here), not waiting  # noqa: PTH116
    while waiting:
        part = waiting.pop()
        if part == os.pardir:
            here = os.path.dirname(here)  # noqa: PTH120
            continue
        place = os.path.join(here, part)  # noqa: PTH118
        try:
            about = os.lstat(place)
        except OSError:
            return
        if stat.S_ISLNK(about.st_mode) and links < _MOST_LINKS:
            links += 1
            yield place, about, False
            target = Path(place).readlink()
            here = os.sep if target.is_absolute() else here
            waiting += [part for part in reversed(target.parts) if part != os.sep]
            continue
        yield place, about, not waiting
        here = place


def _others_write(about: os.stat_result, last: bool) -> bool:
    """Of a folder on the way only whether anybody can exchange what is in it; in one like /tmp they cannot."""
    if about.st_mode & stat.S_IWOTH:
        return last or not about.st_mode & stat.S_ISVTX
    return last and bool(about.st_mode & stat.S_IWGRP) and not _is_private_group(about.st_gid)


def _roots_own(about: os.stat_result, last: bool) -> bool:
    """A file of settings that root wrote for this user."""
    return last and stat.S_ISREG(about.st_mode) and about.st_uid == 0


def is_system_user(user: int) -> bool:
    """Root, or in a user namespace whoever is nobody there: root outside it is shown so."""
    return user == 0 or (user == _overflow() and _is_inside_a_namespace())


@lru_cache(maxsize=1)
def _overflow() -> int:
    try:
        return int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 65_534


@lru_cache(maxsize=1)
def _is_inside_a_namespace() -> bool:
    try:
        return Path("/proc/self/uid_map").read_text(encoding="ascii").split() != ["0", "0", "4294967295"]
    except OSError:
        return False


def _is_private_group(group: int) -> bool:
    """A group of which this user is the only member, as many systems make one for each and let it write by default."""
    import grp
    import pwd

    if os.getuid() == 0:
        return False
    try:
        me = pwd.getpwuid(os.getuid()).pw_name
        members = {*grp.getgrgid(group).gr_mem, *(user.pw_name for user in pwd.getpwall() if user.pw_gid == group)}
    except KeyError:
        return False
    return members == {me}


def _user(number: int) -> str:
    import pwd

    try:
        return f"'{pwd.getpwuid(number).pw_name}'"
    except KeyError:
        return str(number)
