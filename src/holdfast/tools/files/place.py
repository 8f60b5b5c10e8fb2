"""Where a call's path leads, whether it may be used, and the words for what went wrong there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.contract.context import Context
from holdfast.contract.errors import PathRefused

_REASONS: Final = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EFBIG: "it would be larger than a file may be here",
    errno.EIO: "the disk reported an error",
    errno.ENXIO: "it is a socket or a device, not a regular file",
    errno.ELOOP: "a link stands in its way; name the real path",
    errno.ENOTDIR: "something on the way is not a folder",
    errno.ENOENT: "it is not there any more",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EMFILE: "too many files are open",
}


class Place(NamedTuple):
    """A real path beneath a real root."""

    root: Path
    path: Path
    given: str

    @property
    def shown(self) -> str:
        """Relative to the root, as every message and output names it."""
        return self.path.relative_to(self.root).as_posix()


def reading(ctx: Context, given: str) -> Place:
    """A path to read: links are followed as long as they stay inside the root; without one, the working folder."""
    if ctx.root is not None:
        place = Place(ctx.root, ctx.path.confine(given), given)
    else:
        root = Path(os.path.realpath(ctx.cwd))
        place = Place(root, ctx.path.resolve(given), given)
        if not place.path.is_relative_to(root):
            raise PathRefused(f"{given!a} is outside the working folder {root}; use a path inside it.")
    _check_readable(ctx, place)
    return place


def changing(ctx: Context, given: str) -> Place:
    """A path to change: no `..`, no link, and writable by the sandbox policy."""
    if ctx.root is None:
        raise PathRefused("There is no project root here, so no file can be changed; run `holdfast init` first.")
    place = Place(ctx.root, ctx.path.confine(given, mutating=True), given)
    if place.path == place.root:
        raise PathRefused(f"{given!a} is the project root itself; name a file in it.")
    if not ctx.sandbox.is_path_writable(place.path):
        raise PathRefused(
            f"Sandbox: {given!a} is not writable; add its folder to sandbox.writable in your configuration."
        )
    _check_readable(ctx, place)
    return place


def _check_readable(ctx: Context, place: Place) -> None:
    """A proposal shows what is there, so that what may not be read may not be changed either."""
    if not ctx.sandbox.is_path_readable(place.path):
        raise PathRefused(f"Sandbox: {place.given!a} may not be read (sandbox.read_deny).")


def reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or error.strerror or type(error).__name__
