"""Opens files and folders beneath a root without following symlinks (prevents TOCTOU and symlink races).

A checked path is never used again: each step starts at a descriptor (`openat`), and the opened file is checked with
`fstat`. docs/design/fs.md lists the race that each function prevents.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Final, NamedTuple, Self

Opener = Callable[[int, Sequence[str], int], int]
"""Opens a relative path, given as names, from a folder descriptor."""

# O_NOFOLLOW: fail if the last component was replaced by a symlink.
# O_CLOEXEC: a command started by another thread must not inherit the descriptor.
_SAFE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | _SAFE_FLAGS
# O_NONBLOCK: opening a FIFO in place of a file must not block. O_NOCTTY: nor may a terminal become controlling.
FILE_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _SAFE_FLAGS
# O_PATH refers to the inode without opening it: no device side effects, and no permission on the file is needed.
HANDLE_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | _SAFE_FLAGS
# O_EXCL: fail if a file or symlink already exists.
NEW_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS
# Paths that the user chose may be symlinks.
USER_FOLDER_FLAGS: Final = FOLDER_FLAGS & ~os.O_NOFOLLOW
USER_FILE_FLAGS: Final = FILE_FLAGS & ~os.O_NOFOLLOW
_STEP_FLAGS: Final = HANDLE_FLAGS | os.O_DIRECTORY

_OPENAT2: Final = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_MAX_OPEN_DEPTH: Final = 64
"""Deeper folders are reopened from this depth each time: a hostile tree must not exhaust the descriptors."""
_A_FOLDER: Final = "a folder"
_KINDS: Final = {
    stat.S_IFDIR: _A_FOLDER,
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
GONE_ERRNOS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""The path vanished or was replaced by something else."""


class NotRegular(OSError):
    """The path is not a regular file; the message names the file type."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.folder = kind == _A_FOLDER
        super().__init__(f"is {kind}, not a regular file")


@contextlib.contextmanager
def open_descriptor(path: str | Path, flags: int, at: int | None = None) -> Generator[int]:
    descriptor = os.open(path, flags, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_beneath(root: Path, path: Path, flags: int) -> int:
    """Open a resolved path below a resolved root. Raises `OSError` for a symlink in between or for `..`."""
    names = path.relative_to(root).parts
    if ".." in names:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
    with open_descriptor(root, _STEP_FLAGS) as top:
        return select_opener()(top, names, flags)


@contextlib.contextmanager
def open_folder(root: Path, path: Path, *, create: bool = False, flags: int = FOLDER_FLAGS) -> Generator[int]:
    """Open a folder beneath a root. `create` makes it first, with missing parents."""
    if create:
        make_folders(root, path)
    descriptor = open_beneath(root, path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_folders(root: Path, path: Path) -> None:
    with FolderTree(root) as folders:
        folders.open("/".join(path.relative_to(root).parts), make=True)


@contextlib.contextmanager
def open_file_beneath(root: Path, path: Path) -> Generator[int]:
    """Open a file beneath a root for reading. Raises `NotRegular`."""
    if path == root:
        raise NotRegular(_A_FOLDER)
    with open_folder(root, path.parent, flags=_STEP_FLAGS) as parent:  # O_PATH: needs no read permission
        descriptor = open_regular(path.name, parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(name: str | Path, at: int | None = None, *, follow: bool = False) -> int:
    """Open a file for reading. Raises `NotRegular`. `follow`: the path may be a symlink, because the user chose it."""
    # Also before opening: opening some devices has side effects.
    check_regular(os.stat(name, dir_fd=at, follow_symlinks=follow).st_mode)
    descriptor = os.open(name, USER_FILE_FLAGS if follow else FILE_FLAGS, dir_fd=at)
    try:
        check_regular(os.fstat(descriptor).st_mode)  # the path may have been replaced after `stat`
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(name: str | Path, most: int, at: int | None = None, *, follow: bool = False) -> bytes:
    with os.fdopen(open_regular(name, at, follow=follow), "rb") as file:
        return file.read(most)


def check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise NotRegular(_KINDS.get(stat.S_IFMT(mode), "something else"))


@cache
def select_opener() -> Opener:
    """Return `openat2` if the kernel supports it and no seccomp filter forbids it, else `open_by_components`."""
    if sys.platform != "linux":
        return open_by_components
    with open_descriptor("/", _STEP_FLAGS) as top:
        try:
            os.close(openat2(top, (), _STEP_FLAGS))
        except (OSError, ImportError):
            return open_by_components
    return openat2


def open_by_components(start: int, names: Sequence[str], flags: int) -> int:
    here = os.dup(start)
    try:
        for name in names[:-1]:
            below = os.open(name, _STEP_FLAGS, dir_fd=here)
            os.close(here)
            here = below
        return os.open(names[-1] if names else ".", flags, dir_fd=here)
    finally:
        os.close(here)


def openat2(start: int, names: Sequence[str], flags: int) -> int:
    """Resolve the whole path in one system call. The kernel rejects symlinks, `..` and the magic links of /proc."""
    import ctypes  # slow to import

    path = os.fsencode("/".join(names) or ".")
    how = (ctypes.c_uint64 * 3)(flags, 0, _BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    while True:
        descriptor = _syscall()(_OPENAT2, start, path, how, ctypes.sizeof(how))
        if descriptor >= 0:
            return descriptor
        error = ctypes.get_errno()
        try:
            raise OSError(error, os.strerror(error), "/".join(names))
        except InterruptedError:
            continue


@cache
def _syscall() -> Callable[..., int]:
    import ctypes

    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    return function


def set_mode(descriptor: int, mode: int) -> None:
    """Set the mode, also through an O_PATH descriptor, which `fchmod` rejects; /proc/self/fd names the open inode."""
    if hasattr(os, "O_PATH"):
        os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101
    else:
        os.fchmod(descriptor, mode)


def change_mode(name: str | Path, change: Callable[[int], int], at: int | None = None) -> int:
    """Change the mode without following a symlink. Returns the old mode."""
    with open_descriptor(name, HANDLE_FLAGS, at) as handle:
        facts = os.fstat(handle)
        if stat.S_ISLNK(facts.st_mode):
            raise OSError(errno.ELOOP, "It has become a symlink", str(name))
        mode = stat.S_IMODE(facts.st_mode)
        if (wanted := change(mode)) != mode:
            set_mode(handle, wanted)
        return mode


def with_owner_access(mode: int) -> int:
    """Return the mode with read, write and search permission for the owner."""
    return mode | stat.S_IRWXU


class WalkEntry(NamedTuple):
    """An entry found by `FolderTree.walk`; `open_regular(entry.name, folder)` opens a file."""

    path: str
    """Relative to the root."""
    entry: os.DirEntry[str]
    folder: int
    """Descriptor of the containing folder, valid until the next entry."""


def _raise_unless_gone(path: str, error: OSError) -> None:
    if error.errno not in GONE_ERRNOS:
        raise error


class FolderTree:
    """Opens folders below a root by relative path (the root is the empty path), one component at a time.

    The descriptors of the current path stay open, so that a walk opens each folder once. With `loosen`, a folder whose
    mode locks out its owner is made accessible, and gets its mode back at the end.
    """

    def __init__(self, root: str | Path, path: Path | None = None, *, loosen: bool = False) -> None:
        """`path`: start at this folder beneath the root."""
        self.root = str(root)
        self._loosens = loosen
        self._loosened: dict[str, tuple[os.stat_result, int]] = {}
        self._open_path: list[tuple[str, int]] = []
        self._deepest = -1
        self.top = self._enter(None, self.root, "") if path is None else open_beneath(Path(root), path, FOLDER_FLAGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.restore_modes()
        finally:
            self._close_below(0)
            os.close(self.top)

    def open(self, path: str, *, make: bool = False) -> int:
        """Return the descriptor of a folder, valid until the next call. `make` creates missing folders."""
        names = path.split("/") if path else []
        common = 0
        while common < min(len(names), len(self._open_path)) and self._open_path[common][0] == names[common]:
            common += 1
        self._close_below(common)
        here = self._open_path[-1][1] if self._open_path else self.top
        for number in range(common, len(names)):
            name = names[number]
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            if make:
                self._grant_access(here, "/".join(names[:number]))
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            here = self._enter(here, name, "/".join(names[: number + 1]))
            if number < _MAX_OPEN_DEPTH:
                self._open_path.append((name, here))
            else:
                self._close_deep()
                self._deepest = here
        return here

    def parent(self, path: str, *, writable: bool = False, make: bool = False) -> tuple[int, str]:
        """Return the parent folder of a path, and the last name. `writable` makes the folder writable for its owner."""
        above, _, name = path.rpartition("/")
        here = self.open(above, make=make)
        if writable:
            self._grant_access(here, above)
        return here, name

    def walk(
        self,
        scope: str = "",
        *,
        enter: Callable[[str], bool] | None = None,
        failed: Callable[[str, OSError], None] = _raise_unless_gone,
    ) -> Iterator[WalkEntry]:
        """Yield everything below a folder, parents first. Does not enter symlinks, nor folders that `enter` rejects.

        Lazy: taking a bounded number of entries takes bounded work.
        """
        pending = [scope]
        while pending:
            above = pending.pop()
            prefix = f"{above}/" if above else ""
            try:
                here = self.open(above)
                entries = os.scandir(here)
            except OSError as error:
                failed(above, error)
                continue
            with entries:
                for entry in entries:
                    path = prefix + entry.name
                    yield WalkEntry(path, entry, here)
                    if entry.is_dir(follow_symlinks=False) and (enter is None or enter(path)):
                        pending.append(path)

    def set_mode(self, path: str, mode: int) -> None:
        """Set a mode that `restore_modes` keeps."""
        self._loosened.pop(path, None)
        if path:
            here, name = self.parent(path)
            change_mode(name, lambda _: mode, here)
        else:
            set_mode(self.top, mode)

    def restore_modes(self) -> None:
        """Restore the modes of folders that were made accessible, deepest first."""
        for path in sorted(self._loosened, reverse=True):
            known, mode = self._loosened[path]
            with contextlib.suppress(OSError):  # removed or replaced
                here, name = self.parent(path) if path else (None, self.root)
                with open_descriptor(name, _STEP_FLAGS, here) as handle:
                    if os.path.samestat(known, os.fstat(handle)):
                        set_mode(handle, mode)
        self._loosened.clear()

    def close_folder(self, path: str) -> None:
        """Close the descriptors of a folder that is about to be removed."""
        depth = path.count("/")
        if [name for name, _ in self._open_path[: depth + 1]] == path.split("/"):
            self._close_below(depth)
        self._loosened.pop(path, None)

    def _enter(self, here: int | None, name: str, path: str) -> int:
        try:
            return os.open(name, FOLDER_FLAGS, dir_fd=here)
        except PermissionError:
            if not self._loosens:
                raise
        if here is not None:
            self._grant_access(here, path.rpartition("/")[0])  # without search permission not even O_PATH works inside
        with open_descriptor(name, _STEP_FLAGS, here) as handle:
            self._grant_access(handle, path)
        return os.open(name, FOLDER_FLAGS, dir_fd=here)

    def _grant_access(self, descriptor: int, path: str) -> None:
        facts = os.fstat(descriptor)
        mode = stat.S_IMODE(facts.st_mode)
        if self._loosens and with_owner_access(mode) != mode and facts.st_uid == os.geteuid() != 0:
            self._loosened.setdefault(path, (facts, mode))
            set_mode(descriptor, with_owner_access(mode))

    def _close_below(self, keep: int) -> None:
        self._close_deep()
        while len(self._open_path) > keep:
            os.close(self._open_path.pop()[1])

    def _close_deep(self) -> None:
        if self._deepest >= 0:
            os.close(self._deepest)
            self._deepest = -1


def remove_tree(name: str | Path, at: int | None = None) -> None:
    """Remove a file or a folder tree of any mode and depth. Idempotent.

    Subfolders are moved to the top before they are emptied, which avoids ENAMETOOLONG and recursion.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=at)
            return
        change_mode(name, with_owner_access, at)
        with open_descriptor(name, FOLDER_FLAGS, at) as top:
            pending = _empty_folder(top, top)
            while pending:
                below = pending.pop()
                with open_descriptor(below, FOLDER_FLAGS, top) as inside:
                    pending += _empty_folder(inside, top)
                os.rmdir(below, dir_fd=top)
        os.rmdir(name, dir_fd=at)


def _empty_folder(here: int, top: int) -> list[str]:
    """Unlink the files in an open folder and move its subfolders to the top. Returns their new names."""
    moved: list[str] = []
    with os.scandir(here) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        if is_folder:
            change_mode(name, with_owner_access, here)  # moving a folder needs write permission on it
            moved.append(token_hex(8))
            os.rename(name, moved[-1], src_dir_fd=here, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=here)
    return moved
