"""Changing somebody else's configuration file: what was shown is what is written, whole or not at all."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.doors.cli.failures import UsageProblem
from holdfast.fs.beneath import FOLDER, open_regular, opened, read_regular
from holdfast.fs.replace import new_file, sync_folder
from holdfast.text.visible import visible

_MAX_BYTES: Final = 64 * 1024 * 1024


class Found(Struct, frozen=True, kw_only=True):
    """A file as it was read; `text` is None where there is none yet."""

    path: Path
    real: Path
    text: str | None
    mode: int | None = None


def find(path: Path, inside: Iterable[Path], *, root: Path | None = None) -> Found:
    """Read a file that is to be changed. Links may lead anywhere within `inside`, and nowhere else.

    In a project, below `root`, there may be none: a checkout brings its links, and one to a hook would be run.
    """
    link = None if root is None else _link_below(root, path)
    if link is not None:
        raise UsageProblem(
            f"{visible(str(link))} is a link to {visible(os.path.realpath(link))}; in a project nothing is written "
            "through links. Remove it, or use --print and put it in yourself."
        )
    real = Path(os.path.realpath(path))
    if not any(real.is_relative_to(os.path.realpath(folder)) for folder in inside):
        raise UsageProblem(
            f"{visible(str(path))} is a link to {visible(str(real))}, which is somewhere else; "
            "nothing is written there. Use --print and put it in yourself."
        )
    try:
        with os.fdopen(open_regular(real), "rb") as file:  # never a pipe or a device, which could block or act
            status = os.fstat(file.fileno())
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return Found(path=path, real=real, text=None)
    except OSError as error:
        reason = error.strerror or "it is not a file"
        raise UsageProblem(f"{visible(str(path))} cannot be read: {reason}; check it, or use --print.") from None
    if len(data) > _MAX_BYTES:
        raise UsageProblem(f"{visible(str(path))} is larger than {_MAX_BYTES >> 20} MiB; use --print.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UsageProblem(
            f"{visible(str(path))} is not UTF-8 (byte {error.start:,}), so it is not touched; use --print."
        ) from None
    return Found(path=path, real=real, text=text, mode=stat.S_IMODE(status.st_mode))


def _link_below(root: Path, path: Path) -> Path | None:
    """The first part of the path inside the project that is a link."""
    at = root
    for name in path.relative_to(root).parts:
        at /= name
        if at.is_symlink():
            return at
    return None


def write(found: Found, text: str, *, private: bool) -> None:
    """Put the new text in place of what was found; `private`: only the user may read it from now on."""
    mode = 0o600 if found.mode is None and private else found.mode
    found.real.parent.mkdir(parents=True, exist_ok=True)
    with opened(found.real.parent, FOLDER) as folder:
        with new_file(folder, text.encode(), mode=0o666 if mode is None else 0o600) as new:
            if mode is not None:
                os.fchmod(new.fd, mode & ~0o077 if private else mode)
            if _now(found.real.name, folder) != found.text:
                raise UsageProblem(f"{visible(str(found.path))} has changed while it was looked at; run this again.")
            new.replace(found.real.name)
        sync_folder(folder)


def _now(name: str, folder: int) -> str | None:
    try:
        return read_regular(name, _MAX_BYTES + 1, folder).decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
