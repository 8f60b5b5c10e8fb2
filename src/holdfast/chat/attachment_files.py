"""The folder `NAME.chat.files` beside a document: the files of attachments, written and read without following links.

A file name starts with the digest of the content, so a file that was changed is noticed and a copy needs no index.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.chat.document_file import DocumentError
from holdfast.contract.result import Attachment
from holdfast.fs.beneath import FOLDER_FLAGS, USER_FOLDER_FLAGS, NotRegular, open_descriptor, open_regular
from holdfast.fs.document_names import ATTACHMENTS_SUFFIX, attachments_folder
from holdfast.fs.replace import new_file, sync_folder
from holdfast.text.attachments import DIGEST_CHARS, stored_name

MAX_BYTES: Final = 64 * 1024 * 1024
"""The highest `output.max_attachment_bytes`."""
_NAME: Final = re.compile(rf"[0-9a-f]{{{DIGEST_CHARS}}}-[^/]+")
_MAX_NAMES: Final = 100
LoadBytes = Callable[[str], bytes | None]
"""Loads the content with this digest from the ledger; None if that does not have it."""


class RemovedFiles(Struct, frozen=True):
    count: int = 0
    size: int = 0
    kept: tuple[str, ...] = ()
    """Files that stay, because their content changed or another document links to them."""


class UnusableFile(Exception):
    """The file of a link cannot be sent; the message is a sentence without its name."""


class AttachmentFiles:
    """The files of one document. Not thread-safe; contents are cached as long as their files do not change."""

    def __init__(self, document: Path, load: LoadBytes | None = None) -> None:
        self._parent = document.parent
        self._document = document.name
        self.folder = attachments_folder(document.name)
        self._load = load
        self._cache: dict[tuple[str, str], tuple[tuple[int, ...], bytes]] = {}

    def write(self, item: Attachment) -> str:
        """Write the content unless it is there already; return the name of the file. Raises `DocumentError`."""
        try:
            return self._write(item)
        except OSError as error:
            where = self._parent / self.folder
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise DocumentError(f"{where} is not a folder. Attachments go there: move it away.") from None
            if error.errno == errno.ENAMETOOLONG:
                raise DocumentError(
                    f"The name of {self._document} is too long: attachments go into a folder of that name with "
                    f"`{ATTACHMENTS_SUFFIX}`. Give the document a shorter name."
                ) from None
            raise DocumentError(
                f"Cannot write an attachment into {where} ({error.strerror}). Check the disk and its permissions."
            ) from None

    def _write(self, item: Attachment) -> str:
        with self._own_folder() as folder:
            for number in range(1, _MAX_NAMES):
                name = stored_name(item, number)
                if _is_same(folder, name, item):
                    return name
                with suppress(FileExistsError), new_file(folder, item.data, mode=0o600) as new:
                    new.claim(name)  # never over an existing file, which a person may have edited
                    sync_folder(folder)
                    return name
        raise OSError(errno.EEXIST, "too many files of this name")

    @contextmanager
    def _own_folder(self) -> Generator[int]:
        """Open the folder of the document, created if needed."""
        with open_descriptor(self._parent, USER_FOLDER_FLAGS) as parent:
            with suppress(FileExistsError):
                os.mkdir(self.folder, 0o700, dir_fd=parent)
            # Opened by name below the parent and without following a link: the folder cannot lead elsewhere.
            with open_descriptor(self.folder, FOLDER_FLAGS, parent) as folder:
                yield folder

    def read(self, folder: str, name: str, digest: str, room: int = MAX_BYTES) -> tuple[bytes, Path]:
        """The content and the path of a file in the document's own folder, or in the folder that its link names.

        `digest` is the whole digest, or empty if it is not known. A missing file is restored from the ledger. Raises
        `UnusableFile`, also if the content has more bytes than `room`.
        """
        # A link can encode a slash, so its name is checked after it was decoded.
        if not _NAME.fullmatch(name) or name[:DIGEST_CHARS] != (digest or name)[:DIGEST_CHARS]:
            raise UnusableFile("is not the file that the result had")
        for place in dict.fromkeys((self.folder, folder)):
            is_folder_name = place.endswith(ATTACHMENTS_SUFFIX) and os.sep not in place
            content = self._content(place, name, room) if is_folder_name else None
            if content is None:
                continue
            if not sha256(content).hexdigest().startswith(digest or name[:DIGEST_CHARS]):
                raise UnusableFile("was changed since the tool returned it")
            return content, self._parent / place / name
        return self._restored(name, digest, room), self._parent / self.folder / name

    def _content(self, folder: str, name: str, room: int) -> bytes | None:
        """The content of a regular file; None if there is none."""
        try:
            with (
                open_descriptor(self._parent, USER_FOLDER_FLAGS) as parent,
                open_descriptor(folder, FOLDER_FLAGS, parent) as opened,
                os.fdopen(open_regular(name, opened), "rb") as file,
            ):
                about = os.fstat(file.fileno())
                if about.st_size > room:
                    raise _too_large(room)
                identity = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
                known = self._cache.get((folder, name))
                if known is not None and known[0] == identity:
                    return known[1]
                content = file.read(room + 1)
        except FileNotFoundError:
            return None
        except NotRegular as error:
            raise UnusableFile(str(error)) from None
        except (OSError, ValueError) as error:
            linked = isinstance(error, OSError) and error.errno in _LINKED
            raise UnusableFile("is not read: its folder is a link" if linked else "cannot be read") from None
        if len(content) > room:
            raise _too_large(room)
        self._cache[folder, name] = (identity, content)
        return content

    def _restored(self, name: str, digest: str, room: int) -> bytes:
        content = self._load(digest) if self._load is not None and digest else None
        if content is None or sha256(content).hexdigest() != digest:
            raise UnusableFile("is missing")
        if len(content) > room:
            raise _too_large(room)
        # A folder that cannot be written is no reason to withhold the content.
        with suppress(OSError), self._own_folder() as folder, new_file(folder, content, mode=0o600) as new:
            new.claim(name)
        return content

    def find(self, item: Attachment) -> Path | None:
        """The file that has the content of an attachment that was written."""
        with (
            suppress(OSError),
            open_descriptor(self._parent, USER_FOLDER_FLAGS) as parent,
            open_descriptor(self.folder, FOLDER_FLAGS, parent) as folder,
        ):
            for number in range(1, _MAX_NAMES):
                name = stored_name(item, number)
                if _is_same(folder, name, item):
                    return self._parent / self.folder / name
                os.stat(name, dir_fd=folder, follow_symlinks=False)  # no name of a higher number without this one
        return None

    def remove(self, made: Mapping[str, str]) -> RemovedFiles:
        """Remove the files that still have the content that was written, by name and digest; then an empty folder.

        A file that another document beside this one links to, such as a copy of it, stays.
        """
        count = size = 0
        kept: list[str] = []
        with suppress(OSError), open_descriptor(self._parent, USER_FOLDER_FLAGS) as parent:
            with open_descriptor(self.folder, FOLDER_FLAGS, parent) as folder:
                linked = self._linked_elsewhere(parent, made)
                for name, digest in made.items():
                    removed = None if name in linked else _remove(folder, name, digest)
                    if removed is None:
                        kept.append(f"{self.folder}/{name}")
                    elif removed >= 0:
                        count, size = count + 1, size + removed
            os.rmdir(self.folder, dir_fd=parent)
        return RemovedFiles(count, size, tuple(kept))

    def _linked_elsewhere(self, parent: int, names: Collection[str]) -> Collection[str]:
        """The names that occur in other documents; all of them if a document cannot be read."""
        found: set[str] = set()
        others = (name for name in os.listdir(parent) if name.endswith(".chat") and name != self._document)
        for other in others:
            try:
                with os.fdopen(open_regular(other, parent), "rb") as file:
                    text = file.read(MAX_BYTES + 1)
            except (FileNotFoundError, NotRegular):
                continue
            except OSError:
                return names
            if len(text) > MAX_BYTES:
                return names
            found.update(name for name in names if os.fsencode(name) in text)
        return found


_LINKED: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


def _too_large(room: int) -> UnusableFile:
    return UnusableFile(f"has more than the {room:,} bytes that a result has room for (output.max_attachment_bytes)")


def _is_same(folder: int, name: str, item: Attachment) -> bool:
    try:
        with os.fdopen(open_regular(name, folder), "rb") as file:
            return os.fstat(file.fileno()).st_size == item.size and file.read(item.size + 1) == item.data
    except (FileNotFoundError, NotRegular):
        return False


def _remove(folder: int, name: str, digest: str) -> int | None:
    """The size of the removed file; -1 if it was gone, None if it stays because it is not the one that was written."""
    if os.sep in name:
        return None
    try:
        with os.fdopen(open_regular(name, folder), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return -1
    except OSError:
        return None
    if sha256(content).hexdigest() != digest:
        return None
    os.unlink(name, dir_fd=folder)
    return len(content)
