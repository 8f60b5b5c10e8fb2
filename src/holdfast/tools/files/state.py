"""What is at a path, read as one state, and replaced whole only while it is still in that state."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.fs.beneath import folder, open_regular
from holdfast.fs.replace import Traits, new_file, sync_folder, traits_of
from holdfast.text.truncate import format_size

MAX_BYTES: Final = 64 * 1024 * 1024
"""What is replaced is kept, so that it can be put back; more than this is not."""
_ABSENT: Final = "absent"

Keep = Callable[[Path, bytes | None, int | None], None]


class Stale(Exception):
    """The file is not what it was when the change was proposed."""


class TooLarge(Exception):
    """The file is too large to be kept."""


class FileState(Struct, frozen=True):
    """What is at a path now."""

    content: bytes | None
    digest: str
    """Of content, inode and mode; `absent` if there is nothing."""
    traits: Traits | None = None

    @property
    def exists(self) -> bool:
        return self.content is not None

    @property
    def mode(self) -> int | None:
        return None if self.traits is None else self.traits.mode


def read_state(root: Path, path: Path) -> FileState:
    try:
        with folder(root, path.parent) as opened:
            return _read(opened, path.name)
    except FileNotFoundError:
        return FileState(None, _ABSENT)


def replace_file(
    root: Path,
    path: Path,
    content: bytes,
    *,
    seen: str,
    keep_before: Keep,
    keep_after: Keep,
    create_parents: bool = False,
) -> FileState:
    """Write `content` if the file is still in the state `seen`; returns what was there before.

    Both images are kept before the file gets its name: what cannot be recorded does not happen.
    """
    with folder(root, path.parent, create=create_parents) as opened:
        before = _read(opened, path.name)
        if before.digest != seen:
            raise Stale
        keep_before(path, before.content, before.mode)
        with new_file(opened, content, before.traits) as new:
            keep_after(path, content, stat.S_IMODE(os.fstat(new.fd).st_mode))
            if before.exists:
                if _read(opened, path.name).digest != seen:
                    raise Stale
                new.replace(path.name)
            else:
                try:
                    new.claim(path.name)
                except FileExistsError:
                    raise Stale from None
        with contextlib.suppress(OSError):  # it is in place, whatever the disk says now
            sync_folder(opened)
    return before


def _read(where: int, name: str) -> FileState:
    try:
        opened = open_regular(name, where)
    except FileNotFoundError:
        return FileState(None, _ABSENT)
    with os.fdopen(opened, "rb") as file:
        facts = os.fstat(opened)
        content = file.read(MAX_BYTES + 1) if facts.st_size <= MAX_BYTES else None
        traits = traits_of(opened)
    if content is None or len(content) > MAX_BYTES:
        raise TooLarge(f"is {format_size(facts.st_size)}; only files up to {format_size(MAX_BYTES)} are changed")
    return FileState(content, f"{sha256(content).hexdigest()}:{facts.st_ino}:{traits.mode:o}", traits)
