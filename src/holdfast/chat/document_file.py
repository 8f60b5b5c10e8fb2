"""The document on the disk: read whole, and replaced as one step or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.contract.errors import HoldfastError
from holdfast.fs.beneath import USER_FILE_FLAGS, USER_FOLDER_FLAGS, open_descriptor
from holdfast.fs.replace import exchange_files, new_file, read_metadata, sync_folder
from holdfast.fs.temporary import is_orphaned

MAX_BYTES: Final = 256 * 1024 * 1024
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAUSE: Final = 0.02
_READS: Final = 50
"""An editor that writes in place is seen half-way; this often it is looked at again until it is still."""
_YOUNG: Final = 2 * 10**9
"""A file changed this short (ns) before it was read may change again without its times telling."""


class DocumentError(HoldfastError):
    """A document cannot be read or written; nothing was changed."""


class UnreadableDocument(DocumentError):
    """It is gone, or not a file that can be read."""


class FileChanged(Exception):
    """The file is not what it was when it was read."""


class Snapshot(Struct, frozen=True):
    """A file as it was read."""

    data: bytes
    identity: tuple[int, ...]
    read_at: int
    """Nanoseconds since 1970."""

    def is_unchanged(self, path: Path) -> bool:
        """Whether the file surely has the same content, as far as that can be told without reading it."""
        try:
            found = path.stat()
        except OSError:
            return False
        return _identity(found) == self.identity and self.read_at - found.st_mtime_ns > _YOUNG


def decode(data: bytes) -> str:
    return data.decode()


def encode(text: str) -> bytes:
    return text.encode()


def replace_surrogates(text: str) -> str:
    """The text with every surrogate replaced: a document is UTF-8."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def read(path: Path) -> Snapshot:
    """Raises `Unreadable` for whatever is not a readable file of UTF-8 text and of bearable size."""
    try:
        return _utf8(path, _read(path))
    except OSError as error:
        raise UnreadableDocument(_why_unread(path, error)) from None


def read_stable(path: Path, known: Snapshot) -> Snapshot:
    """Read; what differs from what is known is read until nobody writes it any more."""
    try:
        found = _read(path)
        for _ in range(_READS):
            if found.data == known.data:
                break
            time.sleep(_PAUSE)
            again = _read(path)
            if again.identity == found.identity and again.data == found.data:
                break
            found = again
    except OSError as error:
        raise UnreadableDocument(_why_unread(path, error)) from None
    return found if found.data == known.data else _utf8(path, found)


def _utf8(path: Path, found: Snapshot) -> Snapshot:
    try:
        found.data.decode()
    except UnicodeDecodeError as error:
        line = found.data.count(b"\n", 0, error.start) + 1
        raise UnreadableDocument(
            f"{path}:{line} is not UTF-8 text (byte 0x{found.data[error.start]:02X}). Save the file as UTF-8."
        ) from None
    return found


def check_writable(path: Path) -> None:
    """Raises `DocumentError` for a document that could not be written: better known before a model is asked."""
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise DocumentError(f"{path} is read-only; make it writable and run again.")


def replace(path: Path, known: Snapshot, data: bytes) -> Snapshot:
    """Put `data` in the place of what is known. Raises `Changed` if that is not what is there."""
    if len(data) > MAX_BYTES:
        raise DocumentError(f"{path} would be longer than {MAX_BYTES:,} bytes; begin a new document.")
    try:
        check_writable(path)
        with open_descriptor(path, USER_FILE_FLAGS) as old:
            like = read_metadata(old)
        with open_descriptor(path.parent, USER_FOLDER_FLAGS) as folder:
            with new_file(folder, data, like) as new:
                _swap_in(path.with_name(new.ensure_name()), path, known.data, data)
            sync_folder(folder)
    except OSError as error:
        raise DocumentError(_why_unwritten(path, error)) from None
    return Snapshot(data, (), time.time_ns())


def write_conflict_copy(path: Path, elsewhere: Path, data: bytes) -> Path:
    """Write a version that could not be merged into a file of its own, beside the document if that is possible."""
    for folder in (path.parent, elsewhere):
        number = 0
        while number < 10_000:
            number += 1
            kept = folder / f"{path.stem}.conflict-{number}{path.suffix}"
            try:
                with open_descriptor(folder, USER_FOLDER_FLAGS) as where, new_file(where, data, mode=0o600) as new:
                    new.link(kept.name)
            except FileExistsError:
                continue
            except OSError:
                break
            return kept
    raise DocumentError(f"What was to be written to {path} could not be kept in any file; free some space.")


def remove_leftovers(path: Path) -> None:
    """Remove what a killed process left beside the document, also where it could make no note of it."""
    with suppress(OSError):
        for entry in os.scandir(path.parent):
            if entry.name.startswith(".holdfast-") and is_orphaned(entry.name, entry.stat().st_mtime):
                Path(entry.path).unlink(missing_ok=True)


def _read(path: Path) -> Snapshot:
    with open_descriptor(path, USER_FILE_FLAGS) as descriptor:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise UnreadableDocument(f"{path} is {kind}; name a .chat file.")
        if found.st_size > MAX_BYTES:
            raise UnreadableDocument(f"{path} is {found.st_size:,} bytes long; at most {MAX_BYTES:,} are read.")
        now = time.time_ns()
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            data = file.readall()
    return Snapshot(data, _identity(found), now)


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _swap_in(temporary: Path, path: Path, known: bytes, data: bytes) -> None:
    """Where the system can swap two files, what was there is in our hands, and goes back if it is a surprise."""
    if _read(path).data != known:
        raise FileChanged
    placed, expected = data, known
    while exchange_files(temporary, path):
        displaced = _read(temporary).data
        if displaced == expected:
            break
        placed, expected = displaced, placed
    else:
        temporary.replace(path)
    if placed is not data:
        raise FileChanged


def _why_unread(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"{path} does not exist; create it with `holdfast chat new {path.name}`."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{path} may not be read; check its permissions."
    return f"{path} cannot be read ({error.strerror}); check the path and the disk."


def _why_unwritten(path: Path, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"{path} cannot be replaced because its folder is not writable; check the permissions of the folder."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{path} was left as it is because there is no space for the new version; free some and run again."
    if error.errno == errno.ENOENT:
        return f"{path} is gone; put it back and run again."
    return f"{path} could not be written ({error.strerror}); check the disk and run again."
