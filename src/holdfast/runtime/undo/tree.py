"""A folder tree with atomic changes of single paths, opened beneath its root so that symlinks cannot lead outside."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from holdfast.contract.errors import LedgerCorrupt
from holdfast.fs.beneath import (
    FOLDER_FLAGS,
    GONE_ERRNOS,
    FolderTree,
    change_mode,
    open_descriptor,
    open_regular,
    set_mode,
    with_owner_access,
)
from holdfast.fs.replace import NewFile
from holdfast.fs.temporary import temporary_name
from holdfast.store.blobs import Blobs
from holdfast.store.changes import ABSENT, PathKind, PathState

StoreContent = Callable[[int], str]
"""Stores the content of an open file; returns its SHA-256."""

_KINDS: Final[dict[int, PathKind]] = {
    stat.S_IFREG: "file",
    stat.S_IFLNK: "symlink",
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "fifo",
}


def kind_of(mode: int) -> PathKind:
    return _KINDS.get(stat.S_IFMT(mode), "other")


def path_state(folder: int, name: str, keep: StoreContent | None = None) -> PathState:
    """The state of a path. `keep` stores the content of a file; without it the content is only hashed."""
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return ABSENT
    kind = kind_of(facts.st_mode)
    if kind == "file":
        return file_state(folder, name, facts, keep)
    target = os.readlink(name, dir_fd=folder) if kind == "symlink" else None
    return describe_stat(facts, target=target)


def file_state(folder: int, name: str, facts: os.stat_result, keep: StoreContent | None) -> PathState:
    try:
        opened = open_file(folder, name)
    except PermissionError:
        return describe_stat(facts)
    try:
        digest = digest_of_open(opened) if keep is None else keep(opened)
        return describe_stat(os.fstat(opened), digest, stored=keep is not None)
    finally:
        os.close(opened)


def describe_stat(
    facts: os.stat_result, digest: str | None = None, *, stored: bool = False, target: str | None = None
) -> PathState:
    kind = kind_of(facts.st_mode)
    mine = facts.st_uid == os.geteuid() and facts.st_gid == os.getegid()
    return PathState(
        kind=kind,
        mode=None if kind == "symlink" else stat.S_IMODE(facts.st_mode),
        size=facts.st_size if kind == "file" else 0,
        blob=digest if stored else None,
        digest=None if stored else digest,
        target=target,
        owner=None if mine else (facts.st_uid, facts.st_gid),
    )


def open_file(folder: int, name: str) -> int:
    """Open a regular file for reading. If the mode of our own file forbids it, the mode is changed for a moment."""
    try:
        return open_regular(name, folder)
    except PermissionError:
        mode = change_mode(name, lambda mode: mode | stat.S_IRUSR, folder)
        try:
            return open_regular(name, folder)
        finally:
            change_mode(name, lambda _: mode, folder)


def digest_of_open(opened: int) -> str:
    digest = sha256()
    while block := os.read(opened, _BLOCK):
        digest.update(block)
    return digest.hexdigest()


def list_names(folder: int) -> list[str]:
    """The sorted names in a folder."""
    with suppress(OSError):  # rewind: an earlier listing has moved the descriptor's position
        os.lseek(folder, 0, os.SEEK_SET)
    return sorted(os.listdir(folder))


_BLOCK: Final = 1024 * 1024


class Tree(FolderTree):
    """Paths are relative to the root; the root itself is the empty path."""

    def __init__(self, root: str | Path) -> None:
        super().__init__(root, loosen=True)

    def state(self, path: str, keep: StoreContent | None = None) -> PathState:
        if not path:
            return describe_stat(os.fstat(self.top))
        try:
            folder, name = self.parent(path)
            return path_state(folder, name, keep)
        except OSError as error:
            if error.errno in GONE_ERRNOS:  # a parent is missing, or is not a folder
                return ABSENT
            raise

    def size(self, path: str) -> int | None:
        """The size of a file; None if there is no file."""
        try:
            folder, name = self.parent(path)
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        return facts.st_size if stat.S_ISREG(facts.st_mode) else None

    def names(self, path: str) -> list[str]:
        """The names in a folder; empty if there is no such folder."""
        try:
            return list_names(self.open(path))
        except OSError as error:
            if error.errno in GONE_ERRNOS:
                return []
            raise

    def remove(self, path: str, *, folder: bool) -> None:
        parent, name = self.parent(path, writable=True)
        if folder:
            self.close_folder(path)
            os.rmdir(name, dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)

    def make_folder(self, path: str, state: PathState) -> None:
        """Create a folder that its owner can write to; `apply_edits` sets the final mode after its content."""
        parent, name = self.parent(path, writable=True)
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        with open_descriptor(name, FOLDER_FLAGS, parent) as made:
            _set_owner(made, state)
            set_mode(made, with_owner_access(state.mode or 0))

    def make_link(self, path: str, state: PathState) -> None:
        target = state.target or ""
        self._replace(path, state, lambda folder, name: os.symlink(target, name, dir_fd=folder))

    def make_fifo(self, path: str, state: PathState) -> None:
        def make(folder: int, name: str) -> None:
            os.mkfifo(name, 0o600, dir_fd=folder)
            change_mode(name, lambda mode: mode if state.mode is None else state.mode, folder)

        self._replace(path, state, make)

    def copy_in(self, path: str, state: PathState, source: int, times: tuple[int, int] | None = None) -> None:
        """Create or replace a file with the content of the open `source`."""
        parent, name = self.parent(path, writable=True)
        os.lseek(source, 0, os.SEEK_SET)
        with NewFile(parent) as new:
            while block := os.read(source, _BLOCK):
                new.write(block)
            _set_owner(new.fd, state)
            if state.mode is not None:
                os.fchmod(new.fd, state.mode)  # after chown, which clears setuid and setgid
            if times is not None:
                os.utime(new.fd, ns=times)
            new.replace(name)

    def move_in(self, path: str, source: str) -> bool:
        """Rename a finished file to its path; False if it is on another file system."""
        parent, name = self.parent(path, writable=True)
        try:
            os.rename(source, name, dst_dir_fd=parent)
        except OSError as error:
            if error.errno == errno.EXDEV:
                return False
            raise
        return True

    def set_times(self, path: str, times: tuple[int, int]) -> None:
        parent, name = self.parent(path)
        os.utime(name, ns=times, dir_fd=parent, follow_symlinks=False)

    def _replace(self, path: str, state: PathState, make: Callable[[int, str], None]) -> None:
        """Create something under a temporary name and rename it to the path, which is atomic."""
        parent, name = self.parent(path, writable=True)
        with temporary_name(parent) as new:
            make(parent, new)
            if state.owner is not None:
                with suppress(PermissionError):
                    os.chown(new, *state.owner, dir_fd=parent, follow_symlinks=False)
            os.rename(new, name, src_dir_fd=parent, dst_dir_fd=parent)


def _set_owner(descriptor: int, state: PathState) -> None:
    if state.owner is not None:
        with suppress(PermissionError):
            os.fchown(descriptor, *state.owner)


class PathEdit(Struct, frozen=True):
    """A change of one path, from its present state to the wanted one."""

    path: str
    now: PathState
    wanted: PathState


class ContentSource(Protocol):
    """Provides the content of files."""

    def write_file(self, tree: Tree, step: PathEdit) -> None:
        """Write a file with the wanted content, mode and owner, atomically."""
        ...


class BlobSource:
    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def write_file(self, tree: Tree, step: PathEdit) -> None:
        reference = step.wanted.content
        assert reference is not None
        with self._blobs.path(reference).open("rb", buffering=0) as file:
            if digest_of_open(file.fileno()) != reference:
                raise LedgerCorrupt(
                    f"The stored content {reference[:12]} has changed since it was stored; do not use it."
                )
            file.seek(0)
            tree.copy_in(step.path, step.wanted, file.fileno())


def parents_first(paths: Iterable[str]) -> list[str]:
    """The paths sorted so that folders come before their content."""
    return sorted(paths, key=lambda path: path.split("/") if path else [])


def apply_edits(tree: Tree, steps: Sequence[PathEdit], source: ContentSource, failed: list[str] | None = None) -> None:
    """Apply edits: remove what is in the way, deepest first; then create; then set the modes of folders.

    The modes come last, because a read-only folder could not be filled. With `failed`, the error of a path is added to
    it and the other paths are still edited; without it, the first error is raised.
    """
    by_path = {step.path: step for step in steps}
    ordered = [by_path[path] for path in parents_first(by_path)]
    for step in reversed(ordered):
        if _must_remove(step):
            with _collecting_errors(step, failed):
                tree.remove(step.path, folder=step.now.kind == "directory")
    for step in ordered:
        with _collecting_errors(step, failed):
            _make(tree, step, source)
    tree.restore_modes()
    for step in reversed(ordered):
        if step.wanted.kind == "directory" and step.wanted.mode is not None:
            with _collecting_errors(step, failed):
                tree.set_mode(step.path, step.wanted.mode)


@contextmanager
def _collecting_errors(step: PathEdit, failed: list[str] | None) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if failed is None:
            raise
        failed.append(f"{step.path}: {error.strerror or error}")


def _must_remove(step: PathEdit) -> bool:
    if step.now.kind == "absent":
        return False
    return step.wanted.kind == "absent" or (step.now.kind == "directory") != (step.wanted.kind == "directory")


def _make(tree: Tree, step: PathEdit, source: ContentSource) -> None:
    now, wanted = step.now, step.wanted
    if wanted.kind == "directory":
        if now.kind != "directory":
            tree.make_folder(step.path, wanted)
    elif wanted.kind == "file":
        if now.kind == "file" and now.content == wanted.content and wanted.mode is not None:
            tree.set_mode(step.path, wanted.mode)
        else:
            source.write_file(tree, step)
    elif wanted.kind == "symlink":
        tree.make_link(step.path, wanted)
    elif wanted.kind == "fifo":
        tree.make_fifo(step.path, wanted)
