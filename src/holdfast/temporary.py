"""Files and folders that must not outlive the process that makes them, not even where it is killed.

A file gets its name when it is whole, where the file system can do that. Whatever has to have a name earlier says in it
which process it belongs to, and is noted in the state folder for as long as it is there: the next start removes what
dead processes have left.
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
from functools import lru_cache
from pathlib import Path
from typing import Final, Self

_NAME: Final = re.compile(r"holdfast-(\d+)-(\d+)-([0-9a-f]{8})-([0-9a-f]{8})-[0-9a-f]{8}")
_START_FIELD: Final = 19
_DAY: Final = 86_400.0
"""After which what a process of another machine or container has made counts as left behind."""
_NO_NAMELESS: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.ENOSYS})
"""What file systems and kernels without nameless files answer."""
_folder: list[Path] = []
"""Where notes are kept, once that is known."""
_made: list[Path] = []
"""Folders that this process made for its notes, the innermost last."""
_making: Final = threading.Lock()
_ATTEMPTS: Final = 5
_of_folders: dict[Path, Path | None] = {}
"""The notes of folders that are there."""


def new_name() -> str:
    """A name that says which process it belongs to."""
    return f"holdfast-{os.getpid()}-{_started(os.getpid()) or 0}-{_boot()}-{_container()}-{os.urandom(4).hex()}"


def is_left(name: str, since: float | None = None) -> bool:
    """Whether a name belongs to a process that is gone; `since`: when it was given, if that is known."""
    found = _NAME.search(name)
    if found is None:
        return False
    pid, started, boot, container = found.groups()
    if (boot, container) != (_boot(), _container()):  # its numbers mean nothing here
        return since is not None and time.time() - since > _DAY
    return _started(int(pid)) != (int(started) or None)


def keep_notes(folder: Path) -> None:
    """Note in this folder what is made from now on, and remove what dead processes have noted there."""
    _folder[:] = [folder]
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        with suppress(OSError):
            if is_left(entry.name, entry.stat(follow_symlinks=False).st_mtime):
                _remove(Path(os.readlink(entry.path)), entry.name)  # noqa: PTH115
                os.unlink(entry.path)  # noqa: PTH108


def _remove(path: Path, note: str) -> None:
    """Only what is known to be ours by its name, or that nobody could miss: a socket, or an empty folder."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    ours = (found := _NAME.search(path.name)) is not None and note.startswith(found[0].rpartition("-")[0])
    if not ours and _is_mounted_on(path):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))  # a command that outlives its holdfast needs it
    if stat.S_ISDIR(mode):
        remove_folder(path) if ours else path.rmdir()
    elif ours or stat.S_ISSOCK(mode):
        path.unlink()


def _is_mounted_on(path: Path) -> bool:
    """In the namespace of any process: there an unlink would take the mount away with the name."""
    spelt = os.fsencode(path)
    for code in b"\\ \t\n":  # as the kernel writes them, the backslash first
        spelt = spelt.replace(bytes([code]), b"\\%03o" % code)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(line.split(b" ", 5)[4] == spelt for line in (process / "mountinfo").read_bytes().splitlines()):
                return True
    return False


class Notes:
    """That there will be something at some paths, until it is called."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._notes = [_note(path) for path in paths]

    def __call__(self) -> None:
        for note in self._notes:
            _forget(note)
        self._notes.clear()


@contextmanager
def noted(path: str) -> Generator[None]:
    """A path that is there, at most, as long as the block runs."""
    notes = Notes((path,))
    try:
        yield
    finally:
        notes()


def _note(path: str) -> Path | None:
    if not _folder:
        return None
    note = _folder[0] / new_name()
    for _ in range(_ATTEMPTS):
        try:
            os.symlink(path, note)  # noqa: PTH211
        except FileNotFoundError:  # not made yet, or just removed by a process that had made it
            if not _make(_folder[0]):
                break
        except OSError:
            break
        else:
            return note
    return None  # a state folder that cannot be written: the name alone has to do


def _make(folder: Path) -> bool:
    """Like `mkdir -p`. What is made here goes with the last note: who only looks leaves no state folder behind."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    with _making:
        for one in reversed(missing):
            try:
                one.mkdir(mode=0o700)
            except FileExistsError:
                continue
            except OSError:
                return False
            _made.append(one)
    return True


def _forget(note: Path | None) -> None:
    if note is None:
        return
    with suppress(OSError), _making:
        os.unlink(note)  # noqa: PTH108
        while _made:
            with suppress(FileNotFoundError):
                _made[-1].rmdir()  # fails while there is anything in it
            _made.pop()


def make_folder(kind: str, inside: Path | None = None) -> Path:
    """A private folder, to be removed with `remove_folder`."""
    # Not from `tempfile`, which makes a file of its own to see whether it can.
    given = os.environ.get("TMPDIR", "")
    everybody = given if given.startswith(os.sep) and os.access(given, os.W_OK) else "/tmp"  # noqa: S108
    folder = Path(os.path.realpath(inside or everybody), f"{new_name()}.{kind}")
    _of_folders[folder] = _note(str(folder))
    folder.mkdir(mode=0o700)
    return folder


def remove_folder(folder: Path) -> None:
    """With all that is in it, whatever modes that has; again is harmless."""
    import shutil

    def loosened(_function: object, path: str, _error: object) -> None:
        with suppress(OSError):
            Path(path).parent.chmod(stat.S_IRWXU)
            Path(path).chmod(stat.S_IRWXU)
            Path(path).rmdir() if Path(path).is_dir() else Path(path).unlink()

    shutil.rmtree(folder, onerror=loosened)
    if folder.exists():  # what was shut when it was met is open now
        shutil.rmtree(folder, ignore_errors=True)
    _forget(_of_folders.pop(folder, None))


class NewFile:
    """A file in an open folder that nobody sees before it is whole. Used as a context: what got no name is gone."""

    def __init__(self, folder: int, mode: int = 0o600) -> None:
        self._folder = folder
        self._temporary: str | None = None
        self._note: Path | None = None
        self.fd = _open_nameless(folder, mode)
        if self.fd < 0:
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self.fd = os.open(self._new_temporary(), flags, mode, dir_fd=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def link(self, name: str) -> None:
        """Give it a name that is free. Raises `FileExistsError`, or `OSError` where the file system has no links."""
        if self._temporary is None:
            os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._folder, follow_symlinks=True)
        else:
            os.link(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder, follow_symlinks=False)

    def replace(self, name: str) -> None:
        """Give it a name, in place of whatever has it."""
        os.rename(self.shown(), name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._forget_temporary()

    def shown(self) -> str:
        """The name it has for now."""
        if self._temporary is not None:
            return self._temporary
        name = self._new_temporary()  # a nameless file cannot take the place of another
        os.link(f"/proc/self/fd/{self.fd}", name, dst_dir_fd=self._folder, follow_symlinks=True)
        return name

    def _new_temporary(self) -> str:
        name = f".{new_name()}.tmp"
        self._note = _note(f"{os.path.realpath(f'/proc/self/fd/{self._folder}')}/{name}")
        self._temporary = name
        return name

    def _forget_temporary(self) -> None:
        if self._temporary is not None:
            self._temporary = None
            _forget(self._note)

    def close(self) -> None:
        """Again is harmless."""
        if self.fd < 0:
            return
        os.close(self.fd)
        self.fd = -1
        if self._temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=self._folder)
            self._forget_temporary()


def _open_nameless(folder: int, mode: int) -> int:
    """A file that can be given a name later; -1 where the system, or this file system, has none."""
    try:
        fd = os.open(".", os.O_WRONLY | os.O_CLOEXEC | os.O_TMPFILE, mode, dir_fd=folder)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_NAMELESS:
            raise
        return -1
    if os.path.exists(f"/proc/self/fd/{fd}"):  # noqa: PTH110 - by which it gets its name; /proc may be missing
        return fd
    os.close(fd)
    return -1


def _started(pid: int) -> int | None:
    """When a process began, in ticks; None for one that is gone or only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[_START_FIELD])


@lru_cache(maxsize=1)
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes()[:8].decode()
    except OSError:
        return "00000000"


@lru_cache(maxsize=1)
def _container() -> str:
    """Where a number of a process means one process."""
    try:
        return f"{os.stat('/proc/self/ns/pid').st_ino & 0xFFFFFFFF:08x}"  # noqa: PTH116
    except OSError:
        return "00000000"
