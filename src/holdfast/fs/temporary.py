"""Temporary files and folders that are cleaned up even if the process is killed.

The name of a temporary file contains the process that made it, and a journal entry (a symlink in the state folder)
points to it while it exists. The next start removes the files of dead processes.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from holdfast.fs.beneath import remove_tree

_NAME: Final = re.compile(r"holdfast-(\d+)-(\d+)-([0-9a-f]{8}-[0-9a-f]{8})-[0-9a-f]{8}")
_START_FIELD: Final = 19
"""Index of the start time in /proc/PID/stat, counted after the command name in parentheses."""
_DAY: Final = 86_400.0
"""Age after which a file of another machine or container counts as orphaned."""
_journal_folder: list[Path] = []
"""The journal folder, once known."""
_made_folders: list[Path] = []
"""Folders that this process created for the journal, innermost last."""
_journal_lock: Final = threading.Lock()
_ATTEMPTS: Final = 5
_folder_entries: dict[Path, Path | None] = {}
"""The journal entries of existing temporary folders."""


def new_temporary_name() -> str:
    """Return a unique name that identifies this process."""
    return f"holdfast-{os.getpid()}-{process_start_time(os.getpid()) or 0}-{_name_scope()}-{os.urandom(4).hex()}"


def is_orphaned(name: str, since: float | None = None) -> bool:
    """Whether a name belongs to a dead process; `since` is its age stamp, if known."""
    found = _NAME.search(name)
    if found is None:
        return False
    pid, started, scope = found.groups()
    if scope != _name_scope():  # another boot or container: its pids are meaningless here
        return since is not None and time.time() - since > _DAY
    return process_start_time(int(pid)) != (int(started) or None)


def use_cleanup_journal(folder: Path) -> None:
    """Keep the journal in this folder from now on, and remove the files of dead processes listed there."""
    _journal_folder[:] = [folder]
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            if is_orphaned(entry.name, entry.stat(follow_symlinks=False).st_mtime):
                _remove_orphan(Path(os.readlink(entry.path)), entry.name)  # noqa: PTH115
                os.unlink(entry.path)  # noqa: PTH108


def _remove_orphan(path: Path, note: str) -> None:
    """Remove a path if its name shows that it is ours, or if it is a socket or an empty folder."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    ours = (found := _NAME.search(path.name)) is not None and note.startswith(found[0].rpartition("-")[0])
    if not ours and _is_mounted_on(path):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))  # a command that outlived holdfast still uses it
    if stat.S_ISDIR(mode):
        remove_temporary_folder(path) if ours else path.rmdir()
    elif ours or stat.S_ISSOCK(mode):
        path.unlink()


def _is_mounted_on(path: Path) -> bool:
    """Whether the path is a mount point in the namespace of any process: unlinking it would also remove the mount."""
    spelt = os.fsencode(path)
    for code in b"\\ \t\n":  # mountinfo uses octal escapes; the backslash must be first
        spelt = spelt.replace(bytes([code]), b"\\%03o" % code)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(line.split(b" ", 5)[4] == spelt for line in (process / "mountinfo").read_bytes().splitlines()):
                return True
    return False


class CleanupEntries:
    """Journal entries for paths that are about to be created. Calling it removes the entries."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._notes = [_add_entry(path) for path in paths]

    def __call__(self) -> None:
        for note in self._notes:
            _remove_entry(note)
        self._notes.clear()


@contextmanager
def temporary_name(folder: int) -> Generator[str]:
    """Yield a name for a file that is renamed within the block; otherwise the file is removed at the end."""
    name = f".{new_temporary_name()}.tmp"
    note = _add_entry(f"{os.path.realpath(f'/proc/self/fd/{folder}')}/{name}")
    try:
        yield name
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)
        _remove_entry(note)


def _add_entry(path: str) -> Path | None:
    if not _journal_folder:
        return None
    note = _journal_folder[0] / new_temporary_name()
    for _ in range(_ATTEMPTS):
        try:
            os.symlink(path, note)  # noqa: PTH211
        except FileNotFoundError:  # not created yet, or just removed by the process that created it
            if not _make_journal_folder(_journal_folder[0]):
                break
        except OSError:
            break
        else:
            return note
    return None  # the state folder is not writable: the name alone has to do


def _make_journal_folder(folder: Path) -> bool:
    """Like `mkdir -p`. Removed with the last entry, so that read-only use leaves no state folder behind."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    with _journal_lock:
        for one in reversed(missing):
            try:
                one.mkdir(mode=0o700)
            except FileExistsError:
                continue
            except OSError:
                return False
            _made_folders.append(one)
    return True


def _remove_entry(note: Path | None) -> None:
    if note is None:
        return
    with suppress(OSError), _journal_lock:
        os.unlink(note)  # noqa: PTH108
        while _made_folders:
            with suppress(FileNotFoundError):
                _made_folders[-1].rmdir()  # fails while the folder is not empty
            _made_folders.pop()


def make_temporary_folder(kind: str, inside: Path | None = None) -> Path:
    """Create a private folder; remove it with `remove_temporary_folder`."""
    # Not `tempfile`, which creates a probe file.
    given = os.environ.get("TMPDIR", "")
    everybody = given if given.startswith(os.sep) and os.access(given, os.W_OK) else "/tmp"  # noqa: S108
    folder = Path(os.path.realpath(inside or everybody), f"{new_temporary_name()}.{kind}")
    _folder_entries[folder] = _add_entry(str(folder))
    folder.mkdir(mode=0o700)
    return folder


def remove_temporary_folder(folder: Path) -> None:
    """Remove a folder tree of any mode. Idempotent."""
    with suppress(OSError):
        remove_tree(folder)
    _remove_entry(_folder_entries.pop(folder, None))


def process_start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks; None if it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[_START_FIELD])


@cache
def pid_namespace() -> tuple[str, int]:
    """Return the boot id and the PID namespace, within which a pid is meaningful."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes().decode().strip()
        return boot, os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        return "", 0


@cache
def _name_scope() -> str:
    boot, container = pid_namespace()
    return f"{boot[:8]:0<8}-{container & 0xFFFFFFFF:08x}"
