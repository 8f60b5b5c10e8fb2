"""Protected paths while a command runs: which exist, and how each is protected.

Existing ones are bind-mounted read-only, or their content is saved; a few missing names are masked by a mount. If the
command writes to the folder itself and not to an overlay, `restore_protected` afterwards removes planted files and
moves back what was moved.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Literal, Self

from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.errors import SandboxRefused
from holdfast.fs import git_folder
from holdfast.fs.beneath import FolderTree, open_regular
from holdfast.fs.included_files import find_references
from holdfast.fs.own_paths import document_identities, registered_documents
from holdfast.fs.paths import fold, fold_path
from holdfast.fs.protected_list import MASKED_FILES, MASKED_FOLDERS, PACKAGE_FOLDERS
from holdfast.fs.protected_paths import (
    exact_pattern,
    is_conversation_path,
    may_be_protected_name,
    protected_reason,
    symlink_reason,
)

MAX_MOUNTED: Final = 64
MAX_MOUNTED_DOCUMENTS: Final = 32
"""Documents mounted in addition: the most recently changed ones."""
MAX_SAVED_BYTES: Final = 32 * 1024 * 1024
MAX_SAVED_MOUNTED_BYTES: Final = 1024 * 1024
"""Per mounted file: its content is needed only if a command moves the folder around the mount."""
_LINKS_WITHOUT_FOLDERS: Final = 2
"""The link count of a directory without subdirectories: its name and its `.` entry."""
_OBJECT_FOLDER_LENGTH: Final = 2
"""The length of the folder names in `.git/objects`: two hexadecimal digits."""

Kind = Literal["folder", "file", "link", "other"]


class ProtectedPath(Struct, frozen=True, kw_only=True):
    """A protected path as it was before the command. Stored in restore records."""

    path: str
    kind: Kind
    identity: tuple[int, int]
    """Device and inode."""
    parent: tuple[int, int]
    """Device and inode of its parent folder."""
    mode: int
    changed: int = 0
    """The ctime in nanoseconds."""
    content: bytes | None = None
    """The content of a file, or the target of a symlink; None if it is not saved."""
    mounted: bool = False


def find_protected(
    folder: Path, extra: Sequence[str] = (), *, root: Path | None = None, unseen: list[str] | None = None
) -> list[ProtectedPath]:
    """Return every protected path in a folder at any depth, and nothing below a protected folder.

    `root` is the project, if it is not the folder itself. `unseen` receives the folders that could not be listed.
    """
    with FolderReader(folder) as reader:
        found = list(_protected_paths(_Scan(folder, extra, root, reader).everywhere()))
        if unseen is not None:
            unseen += reader.failed
    return found


def find_protected_at_top(folder: Path, extra: Sequence[str] = (), *, root: Path | None = None) -> list[ProtectedPath]:
    """Return the protected paths directly in a folder and in its git folder."""
    with FolderReader(folder) as reader:
        return list(_protected_paths(_Scan(folder, extra, root, reader).at_top()))


def is_mask_stub(item: ProtectedPath, folder: Path) -> bool:
    """Whether the path is an empty mount stub, of this command or of another running one."""
    name = item.path.removeprefix(f"{folder}/")
    return name in (*MASKED_FOLDERS, *MASKED_FILES) and _is_stub(item.path)


def choose_mounts(found: Sequence[ProtectedPath], extra: Sequence[str] = ()) -> list[ProtectedPath]:
    """Choose what is mounted and save the content of the rest.

    Folders come first, then paths nearest to the top. Documents have their own quota.
    """
    mountable = [
        item for item in found if item.kind in ("folder", "file", "other") and not is_writable_but_pinned(item)
    ]
    documents = [item for item in mountable if item.kind == "file" and is_conversation_path(item.path, extra)]
    documents.sort(key=lambda item: (exact_pattern(item.path) not in extra, -item.changed))
    document_paths = {item.path for item in documents}
    mountable = [item for item in mountable if item.path not in document_paths]
    mountable.sort(key=lambda item: (item.kind != "folder", item.path.count("/"), item.path))
    folders = sum(item.kind == "folder" for item in mountable)
    mounted = {item.path for item in (*mountable[: max(MAX_MOUNTED, folders)], *documents[:MAX_MOUNTED_DOCUMENTS])}
    remaining = MAX_SAVED_BYTES
    chosen: list[ProtectedPath] = []
    for item in found:
        content = item.content
        if item.kind == "file":
            content = _content(item, MAX_SAVED_MOUNTED_BYTES if item.path in mounted else MAX_SAVED_BYTES)
            remaining -= 0 if item.path in mounted else len(content or b"")
            if remaining < 0:
                raise SandboxRefused(
                    "The writable folders contain more protected files than can be saved. "
                    'Narrow sandbox.writable, or set sandbox.undo = "overlay".'
                )
        chosen.append(replace(item, content=content, mounted=item.path in mounted))
    return chosen


def is_writable_but_pinned(item: ProtectedPath) -> bool:
    """Whether commands may write in the folder, but neither create nor remove it: git's recorded resolutions."""
    above, _, name = item.path.rpartition("/")
    return item.kind == "folder" and fold(name) == git_folder.RERERE_CACHE and os.path.lexists(f"{above}/HEAD")


def _content(item: ProtectedPath, limit: int) -> bytes | None:
    """Read a file up to a limit; None if it changed, is too large or cannot be read. A file that this user cannot read,
    its commands cannot change in place."""
    with suppress(OSError), os.fdopen(open_regular(item.path), "rb") as file:
        about = os.fstat(file.fileno())
        if (about.st_dev, about.st_ino) == item.identity:
            content = file.read(limit + 1)
            return content if len(content) <= limit or limit == MAX_SAVED_BYTES else None
    return None


class FolderReader:
    """Lists folders that commands write to. A mode that locks the owner out is loosened until the block ends, so that
    `chmod 0` cannot hide planted files."""

    def __init__(self, folder: Path) -> None:
        self.failed: list[str] = []
        """Folders of this user that could not be listed."""
        self._top = str(folder)
        self._opened = ExitStack()
        self._folders: FolderTree | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Return the sorted entries; empty if the folder is gone, or is another user's and closed."""
        try:
            return _list(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            try:
                self._folders = self._folders or self._opened.enter_context(FolderTree(self._top, loosen=True))
                self._folders.parent(f"{folder}/.".removeprefix(f"{self._top}/"), writable=True)
                return _list(folder)
            except OSError:
                if _is_own(folder):
                    self.failed.append(folder)
                return []


def _list(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if entries:
        with suppress(FileNotFoundError):
            entries[0].stat(follow_symlinks=False)  # fails for a folder with read but no execute permission
    return entries


def _is_own(folder: str) -> bool:
    try:
        return os.lstat(folder).st_uid == os.geteuid()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


class _Scan:
    """Searches a folder for protected paths."""

    def __init__(self, folder: Path, extra: Sequence[str], root: Path | None, reader: FolderReader) -> None:
        self._folder = str(folder)
        self._tops = (folder,) if root is None or root == folder else (folder, root)
        self._extra = tuple(extra)
        self._reader = reader
        named = [
            *map(fold_path, registered_documents()),
            *(path for top in self._tops for path in find_references(top)),
        ]
        self._names = {path.rpartition("/")[2] for path in named}
        self._numbers = {number for _, number in document_identities()}

    def everywhere(self) -> Iterator[os.DirEntry[str]]:
        pending = [self._folder]
        while pending:
            here = pending.pop()
            for entry in self._in(here):
                if not isinstance(entry, str):
                    yield entry
                elif entry not in PACKAGE_FOLDERS:
                    pending.append(f"{here}/{entry}")

    def at_top(self) -> Iterator[os.DirEntry[str]]:
        return (entry for entry in self._in(self._folder, deep=False) if not isinstance(entry, str))

    def _in(self, here: str, *, deep: bool = True) -> Iterator[os.DirEntry[str] | str]:
        """Yield the entries protected directly in a folder or in its git folder, and the names of folders to search
        next."""
        entries = self._reader.entries(here)
        if git_folder.is_repository({entry.name for entry in entries}):
            yield from self._git_parts(here, whole=False)
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and git_folder.is_git_folder(entry.name):
                yield from self._git_parts(entry.path, whole=True, deep=deep)
            elif self._is_locked(entry, is_folder=is_folder):
                yield entry
            elif is_folder:
                yield entry.name

    def _is_locked(self, entry: os.DirEntry[str], *, is_folder: bool) -> bool:
        name, extra = fold(entry.name), self._extra
        known = name in self._names or entry.inode() in self._numbers or may_be_protected_name(name, extra)
        if not known and not entry.is_symlink() and name != "repo":
            return False  # the fast path: nearly all files
        path = Path(entry.path)
        if entry.is_symlink():
            ways = (symlink_reason(path, root=top, extra=extra, for_commands=True) for top in self._tops)
            if any(reason is not None for reason in ways):
                return True
        if not is_folder and git_folder.is_pointer_name(path):
            return True
        reasons = (protected_reason(path, root=top, extra=extra, for_commands=True) for top in self._tops)
        return known and any(reason is not None for reason in reasons)

    def _git_parts(self, folder: str, *, whole: bool, deep: bool = True) -> Iterator[os.DirEntry[str]]:
        """Yield what commands may not write in a git folder and in those of its submodules and worktrees. Without
        `deep`, skip what may be hidden among its objects."""
        pending: list[tuple[str, tuple[str, ...]]] = [(folder, ())]
        while pending:
            here, above = pending.pop()
            for entry in self._reader.entries(here):
                if above == ("objects",) and len(entry.name) == _OBJECT_FOLDER_LENGTH and not _has_folders(entry):
                    continue
                names = (*above, fold(entry.name))
                locked = git_folder.is_locked(names, whole=whole)
                state = git_folder.sequencer_file(names)
                if entry.is_dir(follow_symlinks=False):
                    if git_folder.is_rerere_cache(names):
                        yield entry
                    if state is not None and not state[1]:
                        yield from self._states(entry, state[0])
                    elif locked and names[-1] not in git_folder.LEGACY_REMOTES:
                        yield entry
                    elif names == ("objects",) and not (whole and deep):
                        pending.append((f"{entry.path}/info", ("objects", "info")))
                    elif locked or _may_hold(entry, names, whole=whole and deep):
                        pending.append((entry.path, names))
                elif (
                    locked
                    or (entry.is_symlink() and (whole or git_folder.leads_to_control_file(names)))
                    or (state is not None and not git_folder.file_matches_git_format(state, entry.path))
                ):
                    yield entry

    def _states(self, folder: os.DirEntry[str], name: str) -> Iterator[os.DirEntry[str]]:
        """Yield the files of a rebase that git would not have written: they may run commands."""
        for entry in self._reader.entries(folder.path):
            if not git_folder.file_matches_git_format((name, fold(entry.name)), entry.path):
                yield entry


def _may_hold(entry: os.DirEntry[str], names: Sequence[str], *, whole: bool) -> bool:
    """Whether a folder may contain locked paths."""
    if not whole:
        return git_folder.leads_to_control_file(names)
    return names[0] not in ("objects", "lfs") or len(names) == 1 or names[1] == "info" or _has_folders(entry)


def _has_folders(entry: os.DirEntry[str]) -> bool:
    """Whether a folder may have subfolders. Most file systems count them in the link count, which saves listing the
    many object folders."""
    with suppress(OSError):
        about = entry.stat(follow_symlinks=False)
        return not stat.S_ISDIR(about.st_mode) or about.st_nlink != _LINKS_WITHOUT_FOLDERS
    return True


def _protected_paths(entries: Iterable[os.DirEntry[str]]) -> Iterator[ProtectedPath]:
    for entry in entries:
        with suppress(OSError):  # removed meanwhile
            yield _protected_path(entry)


def _protected_path(entry: os.DirEntry[str]) -> ProtectedPath:
    about = entry.stat(follow_symlinks=False)
    around = os.stat(entry.path.rpartition("/")[0])  # noqa: PTH116
    kind = kind_of(about.st_mode)
    return ProtectedPath(
        path=entry.path,
        kind=kind,
        identity=(about.st_dev, about.st_ino),
        parent=(around.st_dev, around.st_ino),
        mode=stat.S_IMODE(about.st_mode),
        changed=about.st_ctime_ns,
        content=os.fsencode(Path(entry.path).readlink()) if kind == "link" else None,
    )


def kind_of(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


_stub_users: Counter[str] = Counter()
_stub_users_lock = threading.Lock()


class MountStubs:
    """The mount points of masks at missing protected names; `remove` deletes those that no running command needs.

    A mount needs something to mount on: empty folders, and Unix sockets for files. git ignores sockets, nobody can
    write to them, and they are cheap to remove. Every mount costs time, so other missing names are left to
    `restore_protected`.
    """

    def __init__(self, folder: Path) -> None:
        self.folders: list[str] = []
        self.files: list[str] = []
        self.made: list[str] = []
        """Stubs in use by this process, removed once its last command that needs them has ended."""
        with _stub_users_lock:
            for name in MASKED_FOLDERS:
                path = f"{folder}/{name}"
                if path.rpartition("/")[0] not in self.folders and self._ensure(path, os.mkdir):
                    self.folders.append(path)
            for path in (f"{folder}/{name}" for name in MASKED_FILES):
                if self._ensure(path, lambda path: os.mknod(path, stat.S_IFSOCK | 0o600)):
                    self.files.append(path)

    def _ensure(self, path: str, make: Callable[[str], None]) -> bool:
        if os.path.lexists(path):
            if path in _stub_users:
                self._use(path)
            return _is_stub(path)
        with suppress(OSError):
            make(path)
            self._use(path)
            return True
        return False

    def _use(self, path: str) -> None:
        _stub_users[path] += 1
        self.made.append(path)

    def remove(self) -> None:
        with _stub_users_lock:
            for path in reversed(self.made):
                _stub_users[path] -= 1
                if not _stub_users[path]:
                    del _stub_users[path]
                    with suppress(OSError):
                        _remove_stub(path)
            self.made.clear()


def remove_stale_stub(path: str) -> None:
    """Remove a stub left by a dead process, unless a command of this one needs it."""
    with _stub_users_lock, suppress(OSError):
        if path not in _stub_users:
            _remove_stub(path)


def _remove_stub(path: str) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        os.rmdir(path)  # noqa: PTH106 - fails if a command has put something in it
    elif _is_stub(path):
        os.unlink(path)  # noqa: PTH108


def _is_stub(path: str) -> bool:
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        if path.endswith(MASKED_FILES):
            return stat.S_ISSOCK(mode)
        return stat.S_ISDIR(mode) and not os.listdir(path)  # noqa: PTH208
    return False
