"""Files and folders opened beneath a root by descriptors, so that no link on the way is ever followed.

A path that was checked is never trusted again: every step starts at a descriptor, and what was opened is looked at
with `fstat`. docs/design/fs.md says which race each function closes.
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
"""Opens names, one inside the other, starting at a folder's descriptor."""

# O_NOFOLLOW: a link put in the place of the last name is an error, not a way out.
# O_CLOEXEC: a command that another thread starts meanwhile inherits nothing.
_SAFE_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | _SAFE_FLAGS
# O_NONBLOCK: a pipe put in the place of a file does not block; O_NOCTTY: a terminal does not become ours.
FILE_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | _SAFE_FLAGS
# O_PATH opens only the name: no device acts on it, and the mode does not matter.
HANDLE_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | _SAFE_FLAGS
# O_EXCL: never a file or a link that is there already.
NEW_FILE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE_FLAGS
# What the user named may be a link of the user's own.
USER_FOLDER_FLAGS: Final = FOLDER_FLAGS & ~os.O_NOFOLLOW
USER_FILE_FLAGS: Final = FILE_FLAGS & ~os.O_NOFOLLOW
_STEP_FLAGS: Final = HANDLE_FLAGS | os.O_DIRECTORY

_OPENAT2: Final = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_MAX_OPEN_DEPTH: Final = 64
"""Deeper folders are opened from there each time: a hostile tree must not use up the descriptors."""
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
"""It vanished, or something else is in its place."""


class NotRegular(OSError):
    """There is something other than a file; the message says what."""

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
    """A descriptor of a real path below a real root. A link anywhere in between is an error, and so is `..`."""
    names = path.relative_to(root).parts
    if ".." in names:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
    with open_descriptor(root, _STEP_FLAGS) as top:
        return select_opener()(top, names, flags)


@contextlib.contextmanager
def open_folder(root: Path, path: Path, *, create: bool = False, flags: int = FOLDER_FLAGS) -> Generator[int]:
    """A folder beneath a root, made first with all that leads to it if asked."""
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
    """A file beneath a root, opened for reading; `NotRegular` for anything that is not one."""
    if path == root:
        raise NotRegular(_A_FOLDER)
    with open_folder(root, path.parent, flags=_STEP_FLAGS) as parent:  # which need not be readable
        descriptor = open_regular(path.name, parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(name: str | Path, at: int | None = None, *, follow: bool = False) -> int:
    """A file opened for reading; `NotRegular` for anything that is not one. `follow`: the user may name a link."""
    # Before it is opened, too: some devices act on that.
    check_regular(os.stat(name, dir_fd=at, follow_symlinks=follow).st_mode)
    descriptor = os.open(name, USER_FILE_FLAGS if follow else FILE_FLAGS, dir_fd=at)
    try:
        check_regular(os.fstat(descriptor).st_mode)  # another may have taken the name since; only this one counts
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
    """`openat2` where the kernel has it and no filter forbids it, else one name at a time."""
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
    """The kernel resolves the whole path in one call, and refuses links, `..` and the magic links of /proc itself."""
    import ctypes  # which takes longer to load than all of this

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
    """Also of what is only opened by name, which `fchmod` refuses; /proc leads to what is open, not to its name."""
    if hasattr(os, "O_PATH"):
        os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101
    else:
        os.fchmod(descriptor, mode)


def change_mode(name: str | Path, change: Callable[[int], int], at: int | None = None) -> int:
    """Set the mode of what has this name, never of what a link leads to; gives the mode it had."""
    with open_descriptor(name, HANDLE_FLAGS, at) as handle:
        facts = os.fstat(handle)
        if stat.S_ISLNK(facts.st_mode):
            raise OSError(errno.ELOOP, "It is a symlink by now", str(name))
        mode = stat.S_IMODE(facts.st_mode)
        if (wanted := change(mode)) != mode:
            set_mode(handle, wanted)
        return mode


def with_owner_access(mode: int) -> int:
    """A mode in which the owner can work in a folder."""
    return mode | stat.S_IRWXU


class WalkEntry(NamedTuple):
    """An entry that a walk met; `open_regular(entry.name, folder)` opens a file."""

    path: str
    """Below the root."""
    entry: os.DirEntry[str]
    folder: int
    """The folder it lies in, open until the walk goes on."""


def _raise_unless_gone(path: str, error: OSError) -> None:
    if error.errno not in GONE_ERRNOS:
        raise error


class FolderTree:
    """Folders below a root by their paths (the root is the empty one), opened one name at a time.

    The descriptors of the last path stay open, so that a walk opens each folder once. With `loosen` a folder of this
    user's own that shuts its owner out is opened up, and gets its mode back at the end.
    """

    def __init__(self, root: str | Path, path: Path | None = None, *, loosen: bool = False) -> None:
        """`path`: begin at this folder beneath the root."""
        self.root = str(root)
        self._loosens = loosen
        self._loosened: dict[str, tuple[os.stat_result, int]] = {}
        self._way: list[tuple[str, int]] = []
        self._deep = -1
        self.top = self._enter(None, self.root, "") if path is None else open_beneath(Path(root), path, FOLDER_FLAGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.restore_modes()
        finally:
            self._forget(0)
            os.close(self.top)

    def open(self, path: str, *, make: bool = False) -> int:
        """A folder; its descriptor is good until another one is asked for."""
        names = path.split("/") if path else []
        common = 0
        while common < min(len(names), len(self._way)) and self._way[common][0] == names[common]:
            common += 1
        self._forget(common)
        here = self._way[-1][1] if self._way else self.top
        for number in range(common, len(names)):
            name = names[number]
            if name == "..":
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
            if make:
                self._let_in(here, "/".join(names[:number]))
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            here = self._enter(here, name, "/".join(names[: number + 1]))
            if number < _MAX_OPEN_DEPTH:
                self._way.append((name, here))
            else:
                self._close_deep()
                self._deep = here
        return here

    def parent(self, path: str, *, writable: bool = False, make: bool = False) -> tuple[int, str]:
        """The folder a path lies in, and its name there. `writable`: its owner can work in it."""
        above, _, name = path.rpartition("/")
        here = self.open(above, make=make)
        if writable:
            self._let_in(here, above)
        return here, name

    def walk(
        self,
        scope: str = "",
        *,
        enter: Callable[[str], bool] | None = None,
        failed: Callable[[str, OSError], None] = _raise_unless_gone,
    ) -> Iterator[WalkEntry]:
        """Everything below a folder, each folder before what is in it. No link is entered, nor what `enter` refuses.

        Nothing is read ahead: who takes a bounded number of entries does bounded work.
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
        """For good."""
        self._loosened.pop(path, None)
        if path:
            here, name = self.parent(path)
            change_mode(name, lambda _: mode, here)
        else:
            set_mode(self.top, mode)

    def restore_modes(self) -> None:
        """Give the folders that were opened up their modes back, the deepest first."""
        for path in sorted(self._loosened, reverse=True):
            known, mode = self._loosened[path]
            with contextlib.suppress(OSError):  # it is gone, or another is in its place
                here, name = self.parent(path) if path else (None, self.root)
                with open_descriptor(name, _STEP_FLAGS, here) as handle:
                    if os.path.samestat(known, os.fstat(handle)):
                        set_mode(handle, mode)
        self._loosened.clear()

    def forget(self, path: str) -> None:
        """Let go of a folder that is about to be removed."""
        depth = path.count("/")
        if [name for name, _ in self._way[: depth + 1]] == path.split("/"):
            self._forget(depth)
        self._loosened.pop(path, None)

    def _enter(self, here: int | None, name: str, path: str) -> int:
        try:
            return os.open(name, FOLDER_FLAGS, dir_fd=here)
        except PermissionError:
            if not self._loosens:
                raise
        if here is not None:
            self._let_in(here, path.rpartition("/")[0])  # who may not search a folder cannot even look at what is in it
        with open_descriptor(name, _STEP_FLAGS, here) as handle:
            self._let_in(handle, path)
        return os.open(name, FOLDER_FLAGS, dir_fd=here)

    def _let_in(self, descriptor: int, path: str) -> None:
        facts = os.fstat(descriptor)
        mode = stat.S_IMODE(facts.st_mode)
        if self._loosens and with_owner_access(mode) != mode and facts.st_uid == os.geteuid() != 0:
            self._loosened.setdefault(path, (facts, mode))
            set_mode(descriptor, with_owner_access(mode))

    def _forget(self, keep: int) -> None:
        self._close_deep()
        while len(self._way) > keep:
            os.close(self._way.pop()[1])

    def _close_deep(self) -> None:
        if self._deep >= 0:
            os.close(self._deep)
            self._deep = -1


def remove_tree(name: str | Path, at: int | None = None) -> None:
    """Remove a file, or a folder with all that is in it, whatever modes that has and however deep it is.

    Folders are moved up before they are emptied, so that neither paths nor calls get too long. Again is harmless.
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
    """Unlink the files in an open folder and move its folders to the top; their names there."""
    moved: list[str] = []
    with os.scandir(here) as found:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
    for name, is_folder in entries:
        if is_folder:
            change_mode(name, with_owner_access, here)  # a folder that may not be written cannot be moved
            moved.append(token_hex(8))
            os.rename(name, moved[-1], src_dir_fd=here, dst_dir_fd=top)
        else:
            os.unlink(name, dir_fd=here)
    return moved
