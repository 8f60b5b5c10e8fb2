"""Reads a document from disk and replaces it atomically, without losing concurrent saves."""

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
from holdfast.fs.document_names import conflict_copy
from holdfast.fs.replace import exchange_files, new_file, read_metadata, sync_folder
from holdfast.fs.temporary import is_orphaned

MAX_BYTES: Final = 256 * 1024 * 1024
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_POLL_SECONDS: Final = 0.02
_MAX_READS: Final = 50
"""How often to read again a file that changes: an editor that writes in place is seen half-way."""
_RACY_NS: Final = 2 * 10**9
"""A file modified within this time before it was read may change again with the same timestamps."""


class DocumentError(HoldfastError):
    """A document cannot be read or written; nothing was changed."""


class UnreadableDocument(DocumentError):
    """The document is missing, unreadable or not UTF-8."""


class FileChanged(Exception):
    """The file changed since it was read."""


class Snapshot(Struct, frozen=True):
    """The content of a file and its identity when it was read."""

    data: bytes
    identity: tuple[int, ...]
    read_at: int
    """Nanoseconds since 1970."""

    def is_unchanged(self, path: Path) -> bool:
        """Whether the file certainly has the same content, judged without reading it."""
        try:
            found = path.stat()
        except OSError:
            return False
        return _identity(found) == self.identity and self.read_at - found.st_mtime_ns > _RACY_NS


def decode(data: bytes) -> str:
    return data.decode()


def encode(text: str) -> bytes:
    return text.encode()


def replace_surrogates(text: str) -> str:
    """Replace surrogates, which UTF-8 cannot encode."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def read(path: Path) -> Snapshot:
    """Raises `UnreadableDocument` unless it is a readable UTF-8 file within the size limit."""
    try:
        return _utf8(path, _read(path))
    except OSError as error:
        raise UnreadableDocument(_read_error(path, error)) from None


def read_stable(path: Path, known: Snapshot) -> Snapshot:
    """Read the file; if it differs from `known`, read again until it stops changing."""
    try:
        found = _read(path)
        for _ in range(_MAX_READS):
            if found.data == known.data:
                break
            time.sleep(_POLL_SECONDS)
            again = _read(path)
            if again.identity == found.identity and again.data == found.data:
                break
            found = again
    except OSError as error:
        raise UnreadableDocument(_read_error(path, error)) from None
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
    """Raises `DocumentError` for a read-only document, before a model is asked in vain."""
    if not path.stat().st_mode & 0o222 or not os.access(path, os.W_OK):
        raise DocumentError(f"{path} is read-only. Make it writable and run again.")


def replace(path: Path, known: Snapshot, data: bytes) -> Snapshot:
    """Replace the known content with `data` atomically. Raises `FileChanged` if the file has other content."""
    if len(data) > MAX_BYTES:
        raise DocumentError(f"{path} would be longer than {MAX_BYTES:,} bytes. Start a new document.")
    try:
        check_writable(path)
        with open_descriptor(path, USER_FILE_FLAGS) as old:
            like = read_metadata(old)
        with open_descriptor(path.parent, USER_FOLDER_FLAGS) as folder:
            with new_file(folder, data, like) as new:
                _swap_in(path.with_name(new.ensure_name()), path, known.data, data)
            sync_folder(folder)
    except OSError as error:
        raise DocumentError(_write_error(path, error)) from None
    return Snapshot(data, (), time.time_ns())


def write_conflict_copy(path: Path, elsewhere: Path, data: bytes) -> Path:
    """Write an unmerged version to a new file, next to the document if possible, else in `elsewhere`."""
    for folder in (path.parent, elsewhere):
        number = 0
        while number < 10_000:
            number += 1
            kept = folder / conflict_copy(path.name, number)
            try:
                with open_descriptor(folder, USER_FOLDER_FLAGS) as where, new_file(where, data, mode=0o600) as new:
                    new.link(kept.name)
            except FileExistsError:
                continue
            except OSError:
                break
            return kept
    raise DocumentError(f"Cannot save a conflict copy of {path} anywhere. Free some disk space and run again.")


def remove_leftovers(path: Path) -> None:
    """Remove temporary files that a killed process left next to the document."""
    with suppress(OSError):
        for entry in os.scandir(path.parent):
            if entry.name.startswith(".holdfast-") and is_orphaned(entry.name, entry.stat().st_mtime):
                Path(entry.path).unlink(missing_ok=True)


def _read(path: Path) -> Snapshot:
    with open_descriptor(path, USER_FILE_FLAGS) as descriptor:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not a regular file"
            raise UnreadableDocument(f"{path} is {kind}. Use a .chat file.")
        if found.st_size > MAX_BYTES:
            raise UnreadableDocument(
                f"{path} has {found.st_size:,} bytes; the limit is {MAX_BYTES:,}. Start a new document."
            )
        now = time.time_ns()
        with open(descriptor, "rb", buffering=0, closefd=False) as file:
            data = file.readall()
    return Snapshot(data, _identity(found), now)


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _swap_in(temporary: Path, path: Path, known: bytes, data: bytes) -> None:
    """Exchange the two files atomically, and exchange them back if the old content is not the expected one."""
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


def _read_error(path: Path, error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return f"{path} does not exist. Create it with `holdfast chat new {path.name}`."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"Permission denied: cannot read {path}. Check its permissions."
    return f"Cannot read {path} ({error.strerror}). Check the path and the disk."


def _write_error(path: Path, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"Cannot replace {path}: its folder is not writable. Check the permissions of the folder."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{path} is unchanged because the disk is full. Free some space and run again."
    if error.errno == errno.ENOENT:
        return f"{path} was deleted. Restore it and run again."
    return f"Cannot write {path} ({error.strerror}). Check the disk and run again."
