"""After a command: what it planted at protected paths is taken away, what it moved or changed is put back.

Every step goes through open folders and follows no symlink, since another command may be running in the same place.
What a person or another program did meanwhile cannot always be told from what the command did: where the command
could only have done it after somebody else replaced what was mounted there, it stays, and what is taken away is kept.
Documents that somebody wrote always stay: whoever obeys them must ask who could have written them.
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
    ProtectedPath,
    find_protected,
    is_mask_stub,
    remove_stale_stub,
)
from holdfast.store.process_identity import is_alive, this_process

_FOLDER: Final = "sweeps"
"""Beside the folder where what was taken away is kept."""


class RestoreRecord(Struct, frozen=True, kw_only=True):
    owner: ProcessIdentity
    folder: str
    before: list[ProtectedPath]
    extra: tuple[str, ...]
    masked: tuple[str, ...]
    root: str | None


def recover(keep: Path | None, notes: list[str] | None = None) -> tuple[str, ...]:
    """Do what dead processes left to be done, except where a living one is at work; what had to be put right.

    `notes` gets where things are now.
    """
    if keep is None:
        return ()
    found = _read_records(keep.with_name(_FOLDER))
    busy = {note.folder for note in found.values() if is_alive(note.owner)}
    violations: list[str] = []
    for path, note in found.items():
        if note.folder in busy:
            continue
        for stub in reversed(note.masked):
            remove_stale_stub(stub)
        root = None if note.root is None else Path(note.root)
        sweep = Restorer(Path(note.folder), note.before, extra=note.extra, masked=note.masked, keep=keep, root=root)
        if Path(note.folder).is_dir():
            sweep()
            violations += sweep.violations
            if notes is not None:
                notes += (f"Left by an earlier command: {note}" for note in sweep.notes)
        sweep.forget()
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
"""What a name costs at least."""
_MAX_PASSES: Final = 3
_MAX_REMOVED: Final = 1000
_lock = threading.Lock()
_active: WeakSet[Restorer] = WeakSet()
"""Those whose commands run. What appears at a protected path meanwhile counts as planted for those that start later."""
_removed: dict[tuple[str, tuple[int, int]], int] = {}
"""What was taken away while others ran, which may have seen it, and must not put it back."""


class Restorer:
    """Puts one writable folder right when called; `violations` says what had to be, `notes` where things are now."""

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
            known = (item for item in before if all(other.is_innocent(item) for other in others))
            left = (item for item in known if _removed.get((item.path, item.identity)) != item.changed)
            self._before = {item.path: item for item in left}
            _active.add(self)
        self._note = None if keep is None else keep.with_name(_FOLDER) / os.urandom(8).hex()
        """Written for whoever comes after this process, and removed when all is put right."""
        if self._note is not None:
            note = RestoreRecord(
                owner=this_process(),
                folder=str(folder),
                before=list(self._before.values()),
                extra=self._extra,
                masked=self._masked,
                root=None if root is None else str(root),
            )
            with suppress(OSError):
                write_private(self._note, msgspec.msgpack.encode(note))

    def __call__(self) -> None:
        violations: list[str] = []
        try:
            self._left()
            for _ in range(_MAX_PASSES):
                found = self._put_right()
                violations += found
                if not found:
                    break
        except Exception:
            violations.append(str(self.folder))  # it may not be right: that must not pass for nothing
        finally:
            self.violations = tuple(dict.fromkeys(violations))
            self.forget()

    def forget(self) -> None:
        """There is nothing to be done any more."""
        with _lock:
            _active.discard(self)
        if self._note is not None:
            with suppress(OSError):
                self._note.unlink(missing_ok=True)

    def _put_right(self) -> list[str]:
        """What was wrong; nothing if all is as it should be."""
        unseen: list[str] = []
        violations: list[str] = []
        known = {item.identity: item for item in self._before.values()}
        moved: list[tuple[ProtectedPath, str]] = []
        for item in find_protected(self.folder, self._extra, root=self._root, unseen=unseen):
            if self.is_innocent(item):
                continue
            violations.append(item.path)
            origin = known.get(item.identity)
            if origin is not None and origin.path != item.path and not self._is_at_home(origin):
                moved.append((origin, item.path))
            else:
                self._take_away(item.path, item)
        wrong = [item for item in self._before.values() if not self._was_mounted_there(item) and self._differs(item)]
        lost = {item.identity: item for item in wrong if not self._is_at_home(item)}
        for origin, _path in moved:
            lost.pop(origin.identity, None)
        moved += self._search(lost)
        for origin, path in moved:
            if self._differs(origin):
                self._move_back(path, origin.path)
        for item in wrong:
            violations.append(item.path)
            if self._differs(item):
                self._take_away(item.path, None)
                self._put_back(item)
        return [*violations, *unseen]

    def _differs(self, item: ProtectedPath) -> bool:
        """It is not what it was, and must be: a document may be what somebody made of it."""
        if self._is_document(item) and self._is_file(item.path):
            return False
        return not self._is_at_home(item) or self._is_changed(item)

    def _is_document(self, item: ProtectedPath) -> bool:
        return item.kind == "file" and is_conversation_path(item.path, self._extra)

    def _left(self) -> None:
        """Say which documents changed that were not mounted: the command could have written them all the time."""
        for item in self._before.values():
            open_to_it = self._is_document(item) and not self._was_mounted_there(item) and self._is_file(item.path)
            if open_to_it and (not self._is_at_home(item) or self._is_changed(item)):
                self._note_down(f"{item.path} changed while it was not guarded, and was left as it is now.")

    def _search(self, lost: dict[tuple[int, int], ProtectedPath]) -> list[tuple[ProtectedPath, str]]:
        """Where things went that are neither at home nor at a protected path: anywhere, packages included."""
        found: list[tuple[ProtectedPath, str]] = []
        pending = [str(self.folder)]
        with FolderReader(self.folder) as reach:
            while pending and lost:
                for entry in reach.entries(pending.pop()):
                    with suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        origin = lost.get((about.st_dev, about.st_ino))
                        if origin is not None and self._is_it(origin, entry.path):
                            found.append((lost.pop(origin.identity), entry.path))
                        elif stat.S_ISDIR(about.st_mode):
                            pending.append(entry.path)
        return found

    def _is_it(self, origin: ProtectedPath, path: str) -> bool:
        """Not another document that got the number of one that is gone: that one is somebody's work."""
        if not self._is_document(origin) or origin.content is None:
            return True
        with suppress(OSError), self._parent(path) as (parent, name):
            return read_regular(name, len(origin.content) + 1, parent) == origin.content
        return False

    def is_innocent(self, item: ProtectedPath) -> bool:
        """It was there before, or the command cannot have put it there."""
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
        """Mounted, in the folder that still holds its name: the command could not change it there. If another one is
        there now, somebody else replaced it, which takes the mount away: from then on the command could write to it."""
        if not item.mounted:
            return False
        with suppress(OSError), self._parent(item.path) as (parent, _name):
            about = os.fstat(parent)
            return (about.st_dev, about.st_ino) == item.parent
        return False

    def _is_at_home(self, item: ProtectedPath) -> bool:
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

    def _take_away(self, path: str, item: ProtectedPath | None) -> None:
        """Make it harmless by one rename, keep a copy if that is wanted, remove it. What cannot be kept or removed
        stays under its new name, shut."""
        with suppress(OSError), self._parent(path) as (parent, name):
            aside = f"holdfast-{secrets.token_hex(8)}.blocked"
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
                self._note_down(f"What was at {path} was taken away and is kept as {where}.")

    def _note_down(self, note: str) -> None:
        self.notes = (*self.notes, note)

    def _move_back(self, here: str, there: str) -> None:
        with suppress(OSError), self._parent(here) as (parent, name), self._parent(there, make=True) as (home, old):
            os.rename(name, old, src_dir_fd=parent, dst_dir_fd=home)

    def _put_back(self, item: ProtectedPath) -> None:
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


def _quarantine_copy(parent: int, name: str, folder: Path, called: str) -> str | None:
    """Copy what lies in an open folder; where the copy is, or None if it is too much, and then there is none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    target = f"{folder}/{secrets.token_hex(4)}-{called}"
    for path, about in found:
        _copy(path, target + path.removeprefix(top), about)
    return target


def _below(top: str, most: int | None = MAX_QUARANTINED_FILES) -> list[tuple[str, os.stat_result]]:
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
        with Path(target).open("xb") as copy:
            copy.write(read_regular(path, about.st_size))


def _lock_folder(parent: int, name: str) -> None:
    """Let nobody enter a folder that stays."""
    with suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            change_mode(name, lambda _: 0, parent)
