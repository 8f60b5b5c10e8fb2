"""Protected paths while a command runs: which there are, how each is held, and what is put right afterwards.

What exists is mounted read-only or remembered, a few absent names are masked, and after a command that wrote to the
folder itself (not to an overlay) a sweep removes what was planted and puts back what was moved.
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
"""Documents that are mounted beside the others: those changed last."""
MAX_SAVED_BYTES: Final = 32 * 1024 * 1024
MAX_SAVED_MOUNTED_BYTES: Final = 1024 * 1024
"""Of what is mounted: it needs its content only if the mount was carried away with the folder around it."""
_LINKS_WITHOUT_FOLDERS: Final = 2
_HEX_FOLDER: Final = 2
"""How long the names of folders of objects are."""

Kind = Literal["folder", "file", "link", "other"]


class ProtectedPath(Struct, frozen=True, kw_only=True):
    """A protected path as it was before the command."""

    path: str
    kind: Kind
    identity: tuple[int, int]
    """Device and inode."""
    parent: tuple[int, int]
    """Those of the folder it lies in."""
    mode: int
    changed: int = 0
    """When it was last changed or renamed."""
    content: bytes | None = None
    """Of a file that is not mounted read-only, or where a symlink leads."""
    mounted: bool = False


def find_protected(
    folder: Path, extra: Sequence[str] = (), *, root: Path | None = None, unseen: list[str] | None = None
) -> list[ProtectedPath]:
    """Every protected path in a folder, at any depth; nothing below a protected folder.

    `root`: the project, where that is not the folder. `unseen` gets the folders nobody could look into.
    """
    with FolderReader(folder) as reach:
        found = list(_protected_paths(_Scan(folder, extra, root, reach).everywhere()))
        if unseen is not None:
            unseen += reach.failed
    return found


def find_protected_at_top(folder: Path, extra: Sequence[str] = (), *, root: Path | None = None) -> list[ProtectedPath]:
    """Those directly in a folder, and in its git folder."""
    with FolderReader(folder) as reach:
        return list(_protected_paths(_Scan(folder, extra, root, reach).at_top()))


def is_mask_stub(item: ProtectedPath, folder: Path) -> bool:
    """Whether it is an empty stub for a mask: this command's, or another's that is running."""
    name = item.path.removeprefix(f"{folder}/")
    return name in (*MASKED_FOLDERS, *MASKED_FILES) and _is_stub(item.path)


def choose_mounts(found: Sequence[ProtectedPath], extra: Sequence[str] = ()) -> list[ProtectedPath]:
    """Decide what is mounted (folders first, then what is nearest to the top; documents apart from them), and keep the
    content of the rest."""
    mountable = [
        item for item in found if item.kind in ("folder", "file", "other") and not is_writable_but_pinned(item)
    ]
    documents = [item for item in mountable if item.kind == "file" and is_conversation_path(item.path, extra)]
    documents.sort(key=lambda item: (exact_pattern(item.path) not in extra, -item.changed))
    apart = {item.path for item in documents}
    mountable = [item for item in mountable if item.path not in apart]
    mountable.sort(key=lambda item: (item.kind != "folder", item.path.count("/"), item.path))
    folders = sum(item.kind == "folder" for item in mountable)
    mounted = {item.path for item in (*mountable[: max(MAX_MOUNTED, folders)], *documents[:MAX_MOUNTED_DOCUMENTS])}
    room = MAX_SAVED_BYTES
    held: list[ProtectedPath] = []
    for item in found:
        content = item.content
        if item.kind == "file":
            content = _content(item, MAX_SAVED_MOUNTED_BYTES if item.path in mounted else MAX_SAVED_BYTES)
            room -= 0 if item.path in mounted else len(content or b"")
            if room < 0:
                raise SandboxRefused(
                    "There are more protected files in the writable folders than can be guarded; "
                    'narrow sandbox.writable, or set sandbox.undo = "overlay".'
                )
        held.append(replace(item, content=content, mounted=item.path in mounted))
    return held


def is_writable_but_pinned(item: ProtectedPath) -> bool:
    """Whether commands may write in it, but neither make nor remove it."""
    above, _, name = item.path.rpartition("/")
    return item.kind == "folder" and fold(name) == git_folder.RERERE_CACHE and os.path.lexists(f"{above}/HEAD")


def _content(item: ProtectedPath, limit: int) -> bytes | None:
    """What this user cannot read, its commands cannot change in place; what is too big is not kept."""
    with suppress(OSError), os.fdopen(open_regular(item.path), "rb") as file:
        about = os.fstat(file.fileno())
        if (about.st_dev, about.st_ino) == item.identity:
            content = file.read(limit + 1)
            return content if len(content) <= limit or limit == MAX_SAVED_BYTES else None
    return None


class FolderReader:
    """Looks into folders that commands write to; a mode that shuts the owner out is loosened until the block ends."""

    def __init__(self, folder: Path) -> None:
        self.failed: list[str] = []
        """Folders of this user that could not be looked into."""
        self._top = str(folder)
        self._opened = ExitStack()
        self._folders: FolderTree | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def entries(self, folder: str) -> list[os.DirEntry[str]]:
        """What is in a folder, in order; nothing where it is gone, or another user's and shut."""
        try:
            return _listed(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            try:
                self._folders = self._folders or self._opened.enter_context(FolderTree(self._top, loosen=True))
                self._folders.parent(f"{folder}/.".removeprefix(f"{self._top}/"), writable=True)
                return _listed(folder)
            except OSError:
                if _is_own(folder):
                    self.failed.append(folder)
                return []


def _listed(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if entries:
        with suppress(FileNotFoundError):
            entries[0].stat(follow_symlinks=False)  # a folder may be read and yet not be entered
    return entries


def _is_own(folder: str) -> bool:
    try:
        return os.lstat(folder).st_uid == os.geteuid()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


class _Scan:
    """A look for what is protected in a folder; what is known of single paths is read once."""

    def __init__(self, folder: Path, extra: Sequence[str], root: Path | None, reach: FolderReader) -> None:
        self._folder = str(folder)
        self._tops = (folder,) if root is None or root == folder else (folder, root)
        self._extra = tuple(extra)
        self._reach = reach
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
        """What is protected directly in a folder or in its git folder, and names of folders still to be looked into."""
        entries = self._reach.entries(here)
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
            return False  # as nearly all are
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
        """What commands may not write in a git folder, in those of its submodules and of its worktrees; without `deep`
        not what may be hidden among its data."""
        pending: list[tuple[str, tuple[str, ...]]] = [(folder, ())]
        while pending:
            here, above = pending.pop()
            for entry in self._reach.entries(here):
                if above == ("objects",) and len(entry.name) == _HEX_FOLDER and not _has_folders(entry):
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
        """What of a rebase git would not have written: it may run something."""
        for entry in self._reach.entries(folder.path):
            if not git_folder.file_matches_git_format((name, fold(entry.name)), entry.path):
                yield entry


def _may_hold(entry: os.DirEntry[str], names: Sequence[str], *, whole: bool) -> bool:
    """Whether something that is locked may lie in a folder."""
    if not whole:
        return git_folder.leads_to_control_file(names)
    return names[0] not in ("objects", "lfs") or len(names) == 1 or names[1] == "info" or _has_folders(entry)


def _has_folders(entry: os.DirEntry[str]) -> bool:
    """Whether there may be folders in it: most file systems count the links to a folder. Those of objects are many, and
    none has any."""
    with suppress(OSError):
        about = entry.stat(follow_symlinks=False)
        return not stat.S_ISDIR(about.st_mode) or about.st_nlink != _LINKS_WITHOUT_FOLDERS
    return True


def _protected_paths(entries: Iterable[os.DirEntry[str]]) -> Iterator[ProtectedPath]:
    for entry in entries:
        with suppress(OSError):  # gone in the meantime
            yield _protected_path(entry)


def _protected_path(entry: os.DirEntry[str]) -> ProtectedPath:
    about = entry.stat(follow_symlinks=False)
    around = os.stat(entry.path.rpartition("/")[0])  # noqa: PTH116
    kind = _kind(about.st_mode)
    return ProtectedPath(
        path=entry.path,
        kind=kind,
        identity=(about.st_dev, about.st_ino),
        parent=(around.st_dev, around.st_ino),
        mode=stat.S_IMODE(about.st_mode),
        changed=about.st_ctime_ns,
        content=os.fsencode(Path(entry.path).readlink()) if kind == "link" else None,
    )


def _kind(mode: int) -> Kind:
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISREG(mode):
        return "file"
    return "link" if stat.S_ISLNK(mode) else "other"


_stub_users: Counter[str] = Counter()
_stub_users_lock = threading.Lock()


class MountStubs:
    """What masks are mounted on; calling it removes those nobody needs any more.

    On the host the mounts need stubs: empty folders, or sockets nobody listens on, which git does not see, nobody can
    write to and are quickly removed. Every mount costs time, so other absent names are left to the sweep.
    """

    def __init__(self, folder: Path) -> None:
        self.folders: list[str] = []
        self.files: list[str] = []
        self.made: list[str] = []
        """Those that stay until every command of this process that needs them is over."""
        with _stub_users_lock:
            for name in MASKED_FOLDERS:
                path = f"{folder}/{name}"
                if path.rpartition("/")[0] not in self.folders and self._is_there(path, os.mkdir):
                    self.folders.append(path)
            for path in (f"{folder}/{name}" for name in MASKED_FILES):
                if self._is_there(path, lambda path: os.mknod(path, stat.S_IFSOCK | 0o600)):
                    self.files.append(path)

    def _is_there(self, path: str, make: Callable[[str], None]) -> bool:
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

    def __call__(self) -> None:
        with _stub_users_lock:
            for path in reversed(self.made):
                _stub_users[path] -= 1
                if not _stub_users[path]:
                    del _stub_users[path]
                    with suppress(OSError):
                        _remove_stub(path)
            self.made.clear()


def remove_stale_stub(path: str) -> None:
    """Remove a stub that a dead process left, unless one of ours needs it."""
    with _stub_users_lock, suppress(OSError):
        if path not in _stub_users:
            _remove_stub(path)


def _remove_stub(path: str) -> None:
    if stat.S_ISDIR(os.lstat(path).st_mode):
        os.rmdir(path)  # noqa: PTH106
    elif _is_stub(path):
        os.unlink(path)  # noqa: PTH108


def _is_stub(path: str) -> bool:
    with suppress(OSError):
        mode = os.lstat(path).st_mode
        if path.endswith(MASKED_FILES):
            return stat.S_ISSOCK(mode)
        return stat.S_ISDIR(mode) and not os.listdir(path)  # noqa: PTH208
    return False
