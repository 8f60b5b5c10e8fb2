"""Compare-and-swap for files: reads a file as one state, and replaces it only while it is still in that state."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from holdfast.contract.call import Precondition, Proposal
from holdfast.contract.context import Context
from holdfast.contract.enums import Risk
from holdfast.contract.errors import PathRefused
from holdfast.contract.json import Args
from holdfast.contract.result import Result, fail
from holdfast.fs.beneath import NotRegular, open_folder, open_regular
from holdfast.fs.paths import absolute, resolve
from holdfast.fs.replace import FileMetadata, new_file, read_metadata, sync_folder
from holdfast.text.truncate import format_size

MAX_BYTES: Final = 64 * 1024 * 1024
"""Larger files are not changed, since their previous content could not be saved for undo."""
_ABSENT: Final = "absent"

SaveImage = Callable[[Path, bytes | None, int | None], None]


class FileChanged(Exception):
    """The file changed since the change was proposed."""


class TooLarge(Exception):
    """The file is too large to be saved for undo."""


class FileState(Struct, frozen=True):
    """The content and metadata of a path, or its absence."""

    content: bytes | None
    digest: str
    """Covers content, inode and mode; `absent` if there is no file."""
    traits: FileMetadata | None = None

    @property
    def exists(self) -> bool:
        return self.content is not None

    @property
    def mode(self) -> int | None:
        return None if self.traits is None else self.traits.mode


def read_state(root: Path, path: Path) -> FileState:
    try:
        with open_folder(root, path.parent) as opened:
            return _read(opened, path.name)
    except FileNotFoundError:
        return FileState(None, _ABSENT)


def replace_file(
    root: Path,
    path: Path,
    content: bytes,
    *,
    seen: str,
    keep_before: SaveImage,
    keep_after: SaveImage,
    create_parents: bool = False,
) -> FileState:
    """Replace the file with `content` if it is still in the state `seen`; returns the previous state. Raises
    `FileChanged`.

    Both images are saved before the rename: a change that cannot be recorded for undo does not happen.
    """
    with open_folder(root, path.parent, create=create_parents) as opened:
        before = _read(opened, path.name)
        if before.digest != seen:
            raise FileChanged
        keep_before(path, before.content, before.mode)
        with new_file(opened, content, before.traits) as new:
            keep_after(path, content, stat.S_IMODE(os.fstat(new.fd).st_mode))
            if before.exists:
                # Check again right before the rename: writing the new file may have taken long.
                if _read(opened, path.name).digest != seen:
                    raise FileChanged
                new.replace(path.name)
            else:
                try:
                    # A hard link fails if the name exists, so a file created meanwhile is never overwritten.
                    new.claim(path.name)
                except FileExistsError:
                    raise FileChanged from None
        with contextlib.suppress(OSError):  # the file is in place; a failed fsync of the folder cannot undo that
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
        traits = read_metadata(opened)
    if content is None or len(content) > MAX_BYTES:
        raise TooLarge(f"is {format_size(facts.st_size)}; only files up to {format_size(MAX_BYTES)} can be changed")
    return FileState(content, f"{sha256(content).hexdigest()}:{facts.st_ino}:{traits.mode:o}", traits)


_REASONS: Final = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full; free some space and try again",
    errno.EDQUOT: "the disk quota is used up; free some space and try again",
    errno.EFBIG: "it would exceed the file size limit",
    errno.EIO: "the disk reported an error",
    errno.ENXIO: "it is a socket or a device, not a regular file",
    errno.ELOOP: "its path contains a symbolic link; use the real path",
    errno.ENOTDIR: "a parent of its path is not a folder",
    errno.ENOENT: "it no longer exists",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EMFILE: "too many files are open",
}


class ConfinedPath(NamedTuple):
    """A real path beneath a real root, as requested by a call."""

    root: Path
    path: Path
    requested: str
    secret: bool = False
    """Its content is not shown in previews: reading it needs approval."""

    @property
    def relative(self) -> str:
        """The path relative to the root, as messages and outputs show it."""
        return self.path.relative_to(self.root).as_posix()


def path_to_read(ctx: Context, given: str) -> ConfinedPath:
    """Resolve a path to read. Symlinks are followed within the root, or the working folder if there is no root."""
    if ctx.root is not None:
        target = ConfinedPath(ctx.root, ctx.path.confine(given), given)
    else:
        root = Path(os.path.realpath(ctx.cwd))
        target = ConfinedPath(root, resolve(given, root), given)
        if not target.path.is_relative_to(root):
            raise PathRefused(f"{given!a} is outside the working folder {root}. Use a path inside it.")
    _check_readable(ctx, target)
    return target


def path_to_change(ctx: Context, given: str) -> ConfinedPath:
    """Resolve a path to change: no `..`, no symlinks, and writable by the sandbox policy."""
    if ctx.root is None:
        raise PathRefused("There is no project root here, so no file can be changed. Run `holdfast init` first.")
    path = ctx.path.confine(given, mutating=True)
    target = ConfinedPath(ctx.root, path, given, ctx.sandbox.is_path_secret(path))
    if target.path == target.root:
        raise PathRefused(f"{given!a} is the project root itself. Name a file in it.")
    _check_own(ctx, target)
    if not ctx.sandbox.is_path_writable(target.path):
        raise PathRefused(
            f"Sandbox: {given!a} is not writable. Add its folder to sandbox.writable in your configuration."
        )
    _check_readable(ctx, target)
    return target


def _check_readable(ctx: Context, target: ConfinedPath) -> None:
    """Refuse unreadable paths. This applies to changes too, because a proposal shows the current content."""
    _check_own(ctx, target)
    if not all(map(ctx.sandbox.is_path_readable, (target.path, absolute(target.requested, target.root)))):
        raise PathRefused(f"Sandbox: {target.requested!a} may not be read (sandbox.read_deny).")


def _check_own(ctx: Context, target: ConfinedPath) -> None:
    if ctx.sandbox.is_path_own(target.path):
        raise PathRefused(f"{target.requested!a} belongs to holdfast itself; tools may not read or change it.")


def os_error_reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0) or error.strerror or type(error).__name__


MAX_DIFF_BYTES: Final = 2 * 1024 * 1024
"""Larger files are not diffed."""
MAX_PREVIEW_CHARS: Final = 256 * 1024
"""A longer diff is cut."""
MAX_DIFF_LINES: Final = 2000
"""Lines kept of a cut diff."""


def propose_change(
    tool: str,
    target: ConfinedPath,
    summary: str,
    risk: Risk,
    state: FileState,
    after: bytes,
    payload: Args,
    given: tuple[bytes | None, bytes],
) -> Proposal:
    """Return the proposal of a change, with its diff and precondition.

    `given` is the old and new text as the call itself states them; it is shown in place of the content of a secret
    file.
    """
    old, new = given if target.secret else (state.content, after)
    if target.secret and old is None and state.content is not None:
        old, summary = b"", f"{summary}; the replaced content is not shown, as it may contain secrets"
    diff = _diff(old, new, target.relative, None)
    cut = len(diff) > MAX_PREVIEW_CHARS or _is_large(old, new)
    return Proposal(
        tool_name=tool,
        summary=summary,
        risk=risk,
        payload={"path": str(target.path), "seen": state.digest, **payload},
        preview=_diff(old, new, target.relative, MAX_DIFF_LINES) if cut else diff,
        preview_kind="diff",
        preview_cut=cut,
        preconditions=(Precondition(kind="file", subject=str(target.path), value=state.digest),),
    )


def apply_change(
    ctx: Context, target: ConfinedPath, after: bytes, seen: str, *, create_parents: bool = False
) -> FileState | Result:
    """Apply the change; return the previous state, or the failure."""
    try:
        return replace_file(
            target.root,
            target.path,
            after,
            seen=seen,
            keep_before=ctx.storage.before_image,
            keep_after=ctx.storage.after_image,
            create_parents=create_parents,
        )
    except FileChanged:
        return file_changed_result(target)
    except (NotRegular, TooLarge) as error:
        return fail(f"{target.relative} {error}, so nothing was written.")
    except OSError as error:
        return fail(f"{target.relative} was not written: {os_error_reason(error)}.")


def file_changed_result(target: ConfinedPath) -> Result:
    return fail(
        f"{target.relative} has changed since this was proposed, so nothing was written. Propose the change again."
    )


def line_count(content: bytes) -> int:
    return content.count(b"\n") + (0 if content.endswith(b"\n") or not content else 1)


def _is_large(before: bytes | None, after: bytes) -> bool:
    return max(len(before or b""), len(after)) > MAX_DIFF_BYTES


def _diff(before: bytes | None, after: bytes, path: str, max_lines: int | None) -> str:
    from holdfast.text.diff import unified_diff  # only proposals need it

    if _is_large(before, after):
        was = "nothing" if before is None else format_size(len(before))
        return f"[{path}: {was} becomes {format_size(len(after))}, too large to show line by line]"
    old = None if before is None else before.decode(errors="replace")
    return unified_diff(old, after.decode(errors="replace"), path, max_lines=max_lines)
