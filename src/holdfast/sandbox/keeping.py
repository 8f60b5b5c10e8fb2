"""What a command planted: a copy of it for people to look at, within bounds, and its removal however deep it is."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.sandbox.reach import FOLDER, loosen

KEPT_BYTES: Final = 32 * 1024 * 1024
KEPT_TOTAL: Final = 4 * KEPT_BYTES
KEPT_FILES: Final = 1000
_BLOCK: Final = 4096
"""What a name costs at least."""
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def keep_copy(parent: int, name: str, folder: Path, called: str) -> str | None:
    """Copy what lies in an open folder; where the copy is, or None if it is too much, and then there is none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    top = f"/proc/self/fd/{parent}/{name}"
    found = _below(top)
    size = sum(_BLOCK + about.st_size for _path, about in found)
    if len(found) > KEPT_FILES or size > KEPT_BYTES:
        return None
    if size + sum(_BLOCK + about.st_size for _path, about in _below(str(folder), most=None)) > KEPT_TOTAL:
        return None
    target = f"{folder}/{secrets.token_hex(4)}-{called}"
    for path, about in found:
        _copy(path, target + path.removeprefix(top), about)
    return target


def _below(top: str, most: int | None = KEPT_FILES) -> list[tuple[str, os.stat_result]]:
    """Something and all that is in it, folders before what is in them; it ends early where there is too much."""
    found: list[tuple[str, os.stat_result]] = []
    pending = [top]
    while pending and (most is None or len(found) <= most):
        path = pending.pop()
        about = os.lstat(path)
        found.append((path, about))
        if stat.S_ISDIR(about.st_mode):
            pending += (f"{path}/{name}" for name in os.listdir(path))  # noqa: PTH208
    return found


def _copy(path: str, target: str, about: os.stat_result) -> None:
    if stat.S_ISDIR(about.st_mode):
        os.mkdir(target, 0o700)  # noqa: PTH102
    elif stat.S_ISLNK(about.st_mode):
        os.symlink(os.readlink(path), target)  # noqa: PTH115, PTH211
    elif stat.S_ISREG(about.st_mode):
        with os.fdopen(os.open(path, _FILE), "rb") as source, Path(target).open("xb") as copy:
            copy.write(source.read(about.st_size))


def remove(parent: int, name: str) -> None:
    """Folders are moved up before they are emptied, so that neither paths nor calls get too deep."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    os.chmod(f"/proc/self/fd/{parent}/{name}", stat.S_IRWXU)  # noqa: PTH101
    top = os.open(name, FOLDER, dir_fd=parent)
    try:
        pending = _emptied(top, top)
        while pending:
            below = pending.pop()
            inside = os.open(below, FOLDER, dir_fd=top)
            try:
                pending += _emptied(inside, top)
            finally:
                os.close(inside)
            os.rmdir(below, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _emptied(folder: int, top: int) -> list[str]:
    """Unlink the files in an open folder and move its folders to the top; their names there."""
    loosen(folder)
    moved: list[str] = []
    for name in os.listdir(folder):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            continue
        new = secrets.token_hex(8)
        os.chmod(f"/proc/self/fd/{folder}/{name}", stat.S_IRWXU)  # noqa: PTH101
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
        moved.append(new)
    return moved


def shut(parent: int, name: str) -> None:
    """Let nobody enter a folder that stays."""
    with suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.chmod(f"/proc/self/fd/{parent}/{name}", 0)  # noqa: PTH101
