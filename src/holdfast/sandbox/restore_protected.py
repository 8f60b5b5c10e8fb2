"""Restores protected paths after a command: removes what it planted, puts back what it moved or changed.

Every step works on open folders and follows no symlink, since another command may be racing in the same place. Changes
by the user or another program cannot always be told from the command's: where the command could act only because
somebody else had replaced a mounted path, the change stays, and everything removed is quarantined. Documents always
stay; code that obeys a document must check who could have written it.

A record on disk, written before the command starts, lets the next process finish the work after a crash.
"""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakSet

import msgspec
from msgspec import Struct

from holdfast.contract.call import ProcessIdentity
from holdfast.fs.beneath import NEW_FILE_FLAGS, FolderTree, change_mode, read_regular, remove_tree
from holdfast.fs.protected_paths import is_conversation_path, is_inert_document
from holdfast.fs.replace import write_private
from holdfast.sandbox.protected_mounts import (
    FolderReader,
    Kind,
    ProtectedPath,
    find_protected,
    is_mask_stub,
    kind_of,
    remove_stale_stub,
)
from holdfast.store.process_identity import is_alive, this_process

_RECORDS: Final = "sweeps"
"""The folder of the records, next to the quarantine."""


class RestoreRecord(Struct, frozen=True, kw_only=True):
    """What a `Restorer` has to do, on disk for the case that its process dies."""

    owner: ProcessIdentity
    folder: str
    before: list[ProtectedPath]
    extra: tuple[str, ...]
    masked: tuple[str, ...]
    root: str | None


def recover(keep: Path | None, notes: list[str] | None = None) -> tuple[str, ...]:
    """Restore for dead processes, except in folders where a living one works; return the restored paths.

    `notes` receives sentences about where removed files are now.
    """
    if keep is None:
        return ()
    records = _read_records(keep.with_name(_RECORDS))
    busy = {record.folder for record in records.values() if is_alive(record.owner)}
    violations: list[str] = []
    for path, record in records.items():
        if record.folder in busy:
            continue
        for stub in reversed(record.masked):
            remove_stale_stub(stub)
        root = None if record.root is None else Path(record.root)
        restorer = Restorer(
            Path(record.folder), record.before, extra=record.extra, masked=record.masked, keep=keep, root=root
        )
        if Path(record.folder).is_dir():
            restorer()
            violations += restorer.violations
            if notes is not None:
                notes += (f"Left by an earlier command: {note}" for note in restorer.notes)
        restorer.discard()
        path.unlink(missing_ok=True)
    return tuple(violations)


def _read_records(folder: Path) -> dict[Path, RestoreRecord]:
    found: dict[Path, RestoreRecord] = {}
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            if not path.name.startswith("."):
                with suppress(OSError, msgspec.MsgspecError):
                    found[path] = msgspec.msgpack.decode(path.read_bytes(), type=RestoreRecord)
    return found


MAX_QUARANTINED_BYTES: Final = 32 * 1024 * 1024
MAX_QUARANTINE_BYTES: Final = 4 * MAX_QUARANTINED_BYTES
MAX_QUARANTINED_FILES: Final = 1000
_NAME_BYTES: Final = 4096
"""The least a file counts towards the limits."""
_MAX_PASSES: Final = 3
_MAX_REMOVED: Final = 1000
_lock = threading.Lock()
_active: WeakSet[Restorer] = WeakSet()
"""Restorers of running commands. A path that appears meanwhile counts as planted for those that start later, too."""
_removed: dict[tuple[str, tuple[int, int]], int] = {}
"""Paths removed while other commands ran: those saw them before, and must not put them back."""


class Restorer:
    """Restores one writable folder when called, as a cleanup step.

    `violations` are the restored paths, `notes` sentences about where removed files are now.
    """

    def __init__(
        self,
        folder: Path,
        before: Sequence[ProtectedPath],
        *,
        extra: Sequence[str] = (),
        masked: Sequence[str] = (),
        keep: Path | None = None,
        root: Path | None = None,
    ) -> None:
        self.violations: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.folder = folder
        self._extra = tuple(extra)
        self._masked = tuple(masked)
        self._keep = keep
        self._root = root
        with _lock:
            others = [other for other in _active if other.folder == folder]
            known = (item for item in before if all(other.is_legitimate(item) for other in others))
            left = (item for item in known if _removed.get((item.path, item.identity)) != item.changed)
            self._before = {item.path: item for item in left}
            _active.add(self)
        self._record = None if keep is None else keep.with_name(_RECORDS) / os.urandom(8).hex()
        """Read by the next process if this one dies; removed when everything is restored."""
        if self._record is not None:
            record = RestoreRecord(
                owner=this_process(),
                folder=str(folder),
                before=list(self._before.values()),
                extra=self._extra,
                masked=self._masked,
                root=None if root is None else str(root),
            )
            with suppress(OSError):
                write_private(self._record, msgspec.msgpack.encode(record))

    def __call__(self) -> None:
        violations: list[str] = []
        try:
            self._report_changed_documents()
            # Repeat: moving something back can uncover another planted file.
            for _ in range(_MAX_PASSES):
                found = self._restore()
                violations += found
                if not found:
                    break
        except Exception:
            violations.append(str(self.folder))  # unknown state: report the folder rather than nothing
        finally:
            self.violations = tuple(dict.fromkeys(violations))
            self.discard()

    def discard(self) -> None:
        """Remove the record: nothing is left to restore."""
        with _lock:
            _active.discard(self)
        if self._record is not None:
            with suppress(OSError):
                self._record.unlink(missing_ok=True)

    def _restore(self) -> list[str]:
        """Restore once and return the paths that were wrong."""
        unseen: list[str] = []
        violations: list[str] = []
        known = {item.identity: item for item in self._before.values()}
        moved: list[tuple[ProtectedPath, str]] = []
        for item in find_protected(self.folder, self._extra, root=self._root, unseen=unseen):
            if self.is_legitimate(item):
                continue
            violations.append(item.path)
            origin = known.get(item.identity)
            if (
                origin is not None
                and origin.kind == item.kind
                and origin.path != item.path
                and not self._is_in_place(origin)
            ):
                moved.append((origin, item.path))
            else:
                self._remove(item.path, item)
        wrong = [item for item in self._before.values() if not self._was_mounted_there(item) and self._differs(item)]
        lost = {item.identity: item for item in wrong if not self._is_in_place(item)}
        for origin, _path in moved:
            lost.pop(origin.identity, None)
        moved += self._find_moved(lost)
        for origin, path in moved:
            if self._differs(origin):
                self._move_back(path, origin.path)
        for item in wrong:
            violations.append(item.path)
            if self._differs(item):
                self._remove(item.path, None)
                self._recreate(item)
        return [*violations, *unseen]

    def _differs(self, item: ProtectedPath) -> bool:
        """Whether a path differs from before and must be restored. A document that is still a file may have been
        edited."""
        if self._is_document(item) and self._is_file(item.path):
            return False
        return not self._is_in_place(item) or self._is_changed(item)

    def _is_document(self, item: ProtectedPath) -> bool:
        return item.kind == "file" and is_conversation_path(item.path, self._extra)

    def _report_changed_documents(self) -> None:
        """Note the changed documents that were not mounted: the command could have written them."""
        for item in self._before.values():
            was_writable = self._is_document(item) and not self._was_mounted_there(item) and self._is_file(item.path)
            if was_writable and (not self._is_in_place(item) or self._is_changed(item)):
                self._add_note(f"{item.path} changed while it was not protected, and was left as it is.")

    def _find_moved(self, lost: dict[tuple[int, int], ProtectedPath]) -> list[tuple[ProtectedPath, str]]:
        """Find files that were moved away, by inode, anywhere in the folder including installed packages."""
        found: list[tuple[ProtectedPath, str]] = []
        pending = [str(self.folder)]
        with FolderReader(self.folder) as reader:
            while pending and lost:
                for entry in reader.entries(pending.pop()):
                    with suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        origin = lost.get((about.st_dev, about.st_ino))
                        if origin is not None and self._is_same_file(origin, entry.path, kind_of(about.st_mode)):
                            found.append((lost.pop(origin.identity), entry.path))
                        elif stat.S_ISDIR(about.st_mode):
                            pending.append(entry.path)
        return found

    def _is_same_file(self, origin: ProtectedPath, path: str, kind: Kind) -> bool:
        """Whether the file is the original, and not a new one that reuses its inode number."""
        if kind != origin.kind:
            return False
        if origin.content is None or not (kind == "link" or self._is_document(origin)):
            return True
        with suppress(OSError), self._parent(path) as (parent, name):
            if kind == "link":
                return os.fsencode(os.readlink(name, dir_fd=parent)) == origin.content
            return read_regular(name, len(origin.content) + 1, parent) == origin.content
        return False

    def is_legitimate(self, item: ProtectedPath) -> bool:
        """Whether the path existed before, or the command cannot have created it."""
        tops = (self.folder,) if self._root is None else (self.folder, self._root)
        if any(is_mask_stub(item, top) for top in tops):
            return True
        if any(Path(item.path).is_relative_to(path) for path in self._masked):
            return True
        before = self._before.get(item.path)
        if before is None:
            return item.kind == "file" and is_inert_document(item.path, tops, self._extra)
        if before.identity == item.identity or self._was_mounted_there(before):
            return True
        return self._is_document(before) and item.kind == "file"

    def _was_mounted_there(self, item: ProtectedPath) -> bool:
        """Whether the path was mounted and its parent folder is still in place, so that the command could not change it
        there.

        If another file is there now, somebody outside replaced it. That detaches the mount, and the command can write
        to the new file from then on.
        """
        if not item.mounted:
            return False
        with suppress(OSError), self._parent(item.path) as (parent, _name):
            about = os.fstat(parent)
            return (about.st_dev, about.st_ino) == item.parent
        return False

    def _is_in_place(self, item: ProtectedPath) -> bool:
        with suppress(OSError), self._parent(item.path) as (parent, name):
            about = os.stat(name, dir_fd=parent, follow_symlinks=False)
            return (about.st_dev, about.st_ino) == item.identity
        return False

    def _is_file(self, path: str) -> bool:
        with suppress(OSError), self._parent(path) as (parent, name):
            return stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
        return False

    def _is_changed(self, item: ProtectedPath) -> bool:
        if item.content is None:
            return False
        with suppress(OSError), self._parent(item.path) as (parent, name):
            if item.kind == "link":
                return os.fsencode(os.readlink(name, dir_fd=parent)) != item.content
            about = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_IMODE(about.st_mode) != item.mode:
                return True
            return read_regular(name, len(item.content) + 1, parent) != item.content
        return True

    def _remove(self, path: str, item: ProtectedPath | None) -> None:
        """Rename the path to a harmless name, quarantine a copy, and delete it. If it cannot be copied or deleted, it
        stays under the new name without permissions."""
        with suppress(OSError), self._parent(path) as (parent, name):
            aside = f"holdfast-{secrets.token_hex(8)}.blocked"
            # One atomic rename disarms it; copying and deleting can take long or fail.
            os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
            if item is not None:
                with _lock:
                    _remember(item)
            where: str | None = f"{path.rpartition('/')[0]}/{aside}"
            try:
                copy = None if self._keep is None else _quarantine_copy(parent, aside, self._keep, name)
                if self._keep is None or copy is not None:
                    remove_tree(aside, parent)
                    where = copy
                else:
                    _lock_folder(parent, aside)
            except OSError:
                _lock_folder(parent, aside)
            if where is not None:
                self._add_note(f"Removed {path}; a copy is at {where}.")

    def _add_note(self, note: str) -> None:
        self.notes = (*self.notes, note)

    def _move_back(self, here: str, there: str) -> None:
        with suppress(OSError), self._parent(here) as (parent, name), self._parent(there, make=True) as (home, old):
            os.rename(name, old, src_dir_fd=parent, dst_dir_fd=home)

    def _recreate(self, item: ProtectedPath) -> None:
        if item.content is None:
            return
        with suppress(OSError), self._parent(item.path, make=True) as (parent, name):
            if item.kind == "link":
                os.symlink(os.fsdecode(item.content), name, dir_fd=parent)
                return
            with os.fdopen(os.open(name, NEW_FILE_FLAGS, item.mode, dir_fd=parent), "wb") as file:
                file.write(item.content)
                os.fchmod(file.fileno(), item.mode)

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Generator[tuple[int, str]]:
        with FolderTree(self.folder, loosen=True) as folders:
            yield folders.parent(path.removeprefix(f"{self.folder}/"), writable=True, make=make)


def _remember(item: ProtectedPath) -> None:
    while len(_removed) >= _MAX_REMOVED:
        del _removed[next(iter(_removed))]
    _removed[(item.path, item.identity)] = item.changed


def _quarantine_copy(parent: int, name: str, folder: Path, label: str) -> str | None:
    """Copy a file or folder into the quarantine; return the copy's path, or None if it is too large."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Through the open folder: its path may lead elsewhere by now.
    top = f"/proc/self/fd/{parent}/{name}"
    found = _below(top)
    size = sum(_NAME_BYTES + about.st_size for _path, about in found)
    if len(found) > MAX_QUARANTINED_FILES or size > MAX_QUARANTINED_BYTES:
        return None
    if (
        size + sum(_NAME_BYTES + about.st_size for _path, about in _below(str(folder), most=None))
        > MAX_QUARANTINE_BYTES
    ):
        return None
    target = f"{folder}/{secrets.token_hex(4)}-{label}"
    for path, about in found:
        _copy(path, target + path.removeprefix(top), about)
    return target


def _below(top: str, most: int | None = MAX_QUARANTINED_FILES) -> list[tuple[str, os.stat_result]]:
    """Return a path and everything below it, folders before their contents; stops early if there is too much."""
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
        with Path(target).open("xb") as copy:
            copy.write(read_regular(path, about.st_size))


def _lock_folder(parent: int, name: str) -> None:
    """Remove all permissions of a folder that could not be deleted."""
    with suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            change_mode(name, lambda _: 0, parent)
