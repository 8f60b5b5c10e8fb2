"""Whether a folder is this user's alone: what holdfast remembers and obeys must not be for other users to change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from holdfast.contract.errors import ConfigError
from holdfast.text.visible import visible

_MOST_LINKS = 40


def check_own(path: Path, what: str, *, instead: str) -> None:
    """Raise `ConfigError` for a file or folder that another user owns, can write, or can exchange on the way there.

    What is not there yet is fine if nobody else can put it there. `instead` says how to choose another place.
    """
    if not hasattr(os, "getuid"):
        return
    for place, about, last in _way_to(path):
        name = f"{what} {visible(str(path))}"
        if about.st_uid != os.getuid() and (last or not _is_system(about.st_uid)) and not _roots_own(about, last):
            how = "belongs" if last else f"is reached through {visible(place)}, which belongs"
            raise ConfigError(
                f"{name} {how} to the user {_user(about.st_uid)}, who could change what holdfast trusts; "
                f"run holdfast as that user, or {instead}."
            )
        if not stat.S_ISLNK(about.st_mode) and _others_write(about, last):
            raise ConfigError(
                f"{visible(place)}, {'which is' if last else 'on the way to'} {what[0].lower()}{what[1:]}, can be "
                f"written by others (mode {stat.S_IMODE(about.st_mode):04o}); "
                f"run `chmod go-w {visible(place)}` if what is in it is still yours, or {instead}."
            )


def _way_to(path: Path) -> Iterator[tuple[str, os.stat_result, bool]]:
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


def _is_system(user: int) -> bool:
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
