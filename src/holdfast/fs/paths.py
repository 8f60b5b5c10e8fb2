"""Paths as a call names them, made absolute and held inside the root.

This is the half that looks before the file is opened; what changes between the look and the open is caught
where files are opened.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from holdfast.contract.errors import PathRefused

MAX_PATH_BYTES: Final = 4096
_SHOWN: Final = 120
_SEPARATORS: Final = re.compile(r"[/\\]")


def resolve(path: str | Path, base: Path) -> Path:
    """The real path: absolute, `~` and `base` filled in, symlinks and `..` followed as the system would."""
    return Path(os.path.realpath(_absolute(str(path), base)))


def confine(path: str | Path, *, root: Path, base: Path, mutating: bool) -> Path:
    """The real path, or `PathRefused` when it is outside the root.

    A path that will be changed may hold no `..` and no symlink below the root; one that is read is resolved
    the way the system would.
    """
    bounds = Path(os.path.realpath(root))
    if mutating:
        return _confine_changed(str(path), _absolute(str(path), base), bounds)
    real = resolve(path, base)
    if not real.is_relative_to(bounds):
        raise _outside(str(path), bounds)
    return real


def _confine_changed(text: str, full: Path, bounds: Path) -> Path:
    if ".." in _SEPARATORS.split(text) or ".." in full.parts:
        raise PathRefused(f"{_show(text)} contains '..'; write the path from the root {bounds} without it.")
    below = _below(full, bounds)
    if below is None:
        raise _outside(text, bounds)
    here = bounds
    for part in below.parts:
        here = here / part
        try:
            mode = here.lstat().st_mode
        except FileNotFoundError:
            break
        except OSError as error:
            raise PathRefused(f"{_show(text)} cannot be used: {error.strerror}; choose another path.") from None
        if stat.S_ISLNK(mode):
            raise PathRefused(
                f"{_show(text)} goes through the symlink {_show(str(here.relative_to(bounds)))}; "
                "name the real path instead."
            )
    return bounds / below


def _below(full: Path, bounds: Path) -> Path | None:
    """The part of `full` under the root; symlinks above the root are followed, those below it are kept to be seen."""
    if full.is_relative_to(bounds):
        return full.relative_to(bounds)
    for folder in (*reversed(full.parents), full):
        if os.path.realpath(folder) == str(bounds):
            return full.relative_to(folder)
    return None


def _absolute(text: str, base: Path) -> Path:
    _check(text)
    if text == "~" or text.startswith("~/"):
        return Path.home() / text[1:].lstrip("/")
    return Path(os.path.realpath(base)) / text


def _check(text: str) -> None:
    if not text:
        raise PathRefused("The path is empty; name a file or a folder.")
    if "\0" in text:
        raise PathRefused(f"{_show(text)} contains a NUL character; leave it out.")
    try:
        size = len(os.fsencode(text))
    except UnicodeEncodeError:
        raise PathRefused(f"{_show(text)} contains broken Unicode; send the name as it is on disk.") from None
    if size > MAX_PATH_BYTES:
        raise PathRefused(f"The path is {size:,} bytes long; at most {MAX_PATH_BYTES:,} are accepted.")
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        raise PathRefused(f"{_show(text)} names another user's home; write the path out, or './' before a real '~'.")
    if "%" in text and ".." in _SEPARATORS.split(_percent_decoded(text)) and ".." not in _SEPARATORS.split(text):
        raise PathRefused(f"{_show(text)} hides '..' in percent signs; paths are not URLs, write it out.")


def _percent_decoded(text: str) -> str:
    lowered = text.lower()
    for code, character in (("%25", "%"), ("%2e", "."), ("%2f", "/"), ("%5c", "\\")):
        lowered = lowered.replace(code, character)
    return lowered


def _outside(text: str, bounds: Path) -> PathRefused:
    return PathRefused(f"{_show(text)} is outside the project root {bounds}; use a path inside it.")


def _show(text: str) -> str:
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
