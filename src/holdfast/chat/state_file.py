"""The lock and the stored state of a document: its calls in the ledger, usage, and what is known of attachments.

One file per document in the user's state folder, never in the project.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes, urlsplit

import msgspec
from msgspec import Struct, structs

from holdfast.agent.conversation import LedgerCall
from holdfast.chat.attachment_files import AttachmentFiles, RemovedFiles
from holdfast.chat.document_file import DocumentError
from holdfast.contract.call import ProcessIdentity
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Attachment
from holdfast.fs.own_paths import register_document
from holdfast.fs.replace import open_lock, try_lock, write_private
from holdfast.models.port import Usage
from holdfast.store.process_identity import is_alive, this_process

_POLL_SECONDS: Final = 0.01
_owner: Final = msgspec.json.Decoder(ProcessIdentity)


class DocumentBusy(DocumentError):
    """Another process, or another part of this one, has locked the document."""

    def __init__(self, path: Path, owner: ProcessIdentity | None) -> None:
        self.owner = owner
        who = f"process {owner.pid}" if owner else "another process"
        super().__init__(f"{path} is in use by {who}. Wait for it, or stop it with `holdfast chat cancel {path.name}`.")


def document_key(path: Path) -> str:
    """The name of a document in the state folder, the same for every path to the same file."""
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:40]


class DocumentLock:
    """A reentrant `flock`. The kernel releases it however the process ends."""

    def __init__(self, path: Path, state: Path) -> None:
        self._path = path
        self._file = _lock_file(path, state)
        self._descriptor = -1
        self._depth = 0

    @contextmanager
    def acquire(self, wait: float = 0.0) -> Generator[None]:
        """Raises `DocumentBusy` if another process holds the lock for longer than `wait` seconds."""
        if self._depth == 0:
            self._take(wait)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._release()

    def _take(self, wait: float) -> None:
        end = time.monotonic() + wait
        try:
            self._descriptor = open_lock(self._file)
            while not try_lock(self._descriptor):
                if time.monotonic() >= end:
                    raise DocumentBusy(self._path, _read_owner(self._file))
                time.sleep(_POLL_SECONDS)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, msgspec.json.encode(this_process()), 0)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise DocumentError(
                    f"Cannot lock {self._path} with {self._file} ({error.strerror}). "
                    "Check the disk and the permissions of that folder."
                ) from None
            raise

    def _release(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_owner(path: Path, state: Path) -> ProcessIdentity | None:
    """The running process that has locked a document."""
    owner = _read_owner(_lock_file(path, state))
    return owner if owner is not None and is_alive(owner) else None


def _lock_file(path: Path, state: Path) -> Path:
    return state / f"{document_key(path)}.lock"


def _read_owner(file: Path) -> ProcessIdentity | None:
    try:
        return _owner.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return None


class CallKey(Struct, frozen=True, rename={"digest": "call"}):
    """Identifies one call of a document."""

    turn: int
    id: str
    digest: str
    """Of id, name and arguments."""


class StoredCall(Struct, frozen=True, rename={"call": "open"}):
    key: CallKey
    call: LedgerCall


class CallLookup:
    """Finds the ledger's calls for the calls of a turn, each at most once.

    If a person removed an earlier reply, a call has a lower turn number than when it was stored, and is still found.
    """

    def __init__(self, stored: Sequence[StoredCall], turn: int) -> None:
        self._exact = {item.key: item.call for item in stored if item.key.turn == turn}
        self._moved = {(item.key.id, item.key.digest): item.call for item in stored if item.key.turn > turn}

    def take(self, key: CallKey) -> LedgerCall | None:
        return self._exact.pop(key, None) or self._moved.pop((key.id, key.digest), None)


class StoredAttachment(Struct, frozen=True):
    """What the link to an attachment does not say: its exact name, type and address, and the whole digest."""

    call: str
    """The digest of the call, as in `CallKey`."""
    target: str
    """The target of the link: a file name without its folder, or an address."""
    attachment: Attachment
    """Without its bytes, which are in the file."""
    place: int = 0
    """Tells links of one result with the same target apart."""


class DocumentState(
    Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"calls": "open", "attachments": "files"}
):
    version: int = 1
    uri: str
    calls: tuple[StoredCall, ...] = ()
    attachments: tuple[StoredAttachment, ...] = ()
    usage: Usage = Usage()
    replies: int = 0

    @property
    def path(self) -> Path:
        return Path(os.fsdecode(unquote_to_bytes(urlsplit(self.uri).path)))


_decoder: Final = msgspec.json.Decoder(DocumentState)


def call_key(turn: int, use: ToolUse) -> CallKey:
    parts = "".join(f"{len(part)}:{part}" for part in (use.id, use.name, use.arguments))
    digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()
    return CallKey(turn, _valid_utf8(use.id) or "", digest)


class StateFile:
    """The state file of one document. Read again when it changes; written only under the document's lock."""

    def __init__(self, path: Path, state: Path) -> None:
        self._file = state / f"{document_key(path)}.json"
        self._empty = DocumentState(uri=Path(os.path.realpath(path)).as_uri())
        self._seen: tuple[tuple[int, ...], DocumentState] | None = None

    def read(self) -> DocumentState:
        try:
            identity = _identity(self._file)
            if self._seen is not None and self._seen[0] == identity:
                return self._seen[1]
            found = _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return self._empty
        except (OSError, msgspec.MsgspecError) as error:
            raise DocumentError(
                f"Cannot read the stored state of {self._empty.path} ({error}). "
                f"Check with `holdfast ledger` which of its calls have run, then remove {self._file}."
            ) from None
        if found.uri != self._empty.uri:
            return self._empty
        with suppress(OSError):  # for a state file written before documents had these links
            register_document(self._empty.path)
        self._seen = (identity, found)
        return found

    def set_calls(self, opened: Sequence[tuple[CallKey, LedgerCall | None]]) -> None:
        """Store calls, or forget them with None."""
        found = self.read()
        again = {one.call_id for _, one in opened if one is not None}
        new = {item.key: item for item in found.calls if item.call.call_id not in again}
        for call, one in opened:
            new.pop(call, None)
            if one is not None:
                new[call] = StoredCall(call, one)
        self._write(structs.replace(found, calls=tuple(new.values())), found)

    def forget_calls(self, call_ids: Collection[str]) -> None:
        found = self.read()
        left = tuple(item for item in found.calls if item.call.call_id not in call_ids)
        self._write(structs.replace(found, calls=left), found)

    def store_attachments(self, stored: Sequence[StoredAttachment]) -> None:
        """Store what is known of attachments whose files are written."""
        found = self.read()
        new = {(item.call, item.target, item.place): item for item in (*found.attachments, *stored)}
        self._write(structs.replace(found, attachments=tuple(new.values())), found)

    def add_usage(self, usage: Usage, *, first: bool) -> None:
        """Add the usage of a reply; the first reply of a document resets it."""
        found = self.read()
        before = self._empty if first else found
        self._write(structs.replace(found, usage=before.usage + usage, replies=before.replies + 1), found)

    def _write(self, new: DocumentState, old: DocumentState) -> None:
        if new == old:
            return
        try:
            register_document(self._empty.path)  # first: a document with stored state must be protected
            write_private(self._file, msgspec.json.encode(new), sync=True)
            self._seen = (_identity(self._file), new)
        except OSError as error:
            raise DocumentError(
                f"Cannot write {self._file} ({error.strerror}). Check the disk and the permissions of the folder."
            ) from None


def _identity(file: Path) -> tuple[int, ...]:
    """Changes with every write: each one creates a new file and takes longer than a clock tick."""
    found = file.stat()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def document_states(state: Path) -> Sequence[DocumentState]:
    """The stored states of all documents, for example to find one by a call id; unreadable ones are left out."""
    found: list[DocumentState] = []
    for file in sorted(state.glob("*.json")):
        try:
            stored = _decoder.decode(file.read_bytes())
        except (OSError, msgspec.MsgspecError):
            continue
        if f"{document_key(stored.path)}.json" == file.name:
            found.append(stored)
    return found


def remove_state(path: Path, state: Path) -> RemovedFiles:
    """Remove the stored state of a document and the files of its attachments, under its lock."""
    file = state / f"{document_key(path)}.json"
    try:
        found = _decoder.decode(file.read_bytes())
    except (OSError, msgspec.MsgspecError):
        found = DocumentState(uri=path.as_uri())
    made = {item.target: item.attachment.digest for item in found.attachments if item.attachment.digest}
    removed = AttachmentFiles(path).remove(made)
    file.unlink(missing_ok=True)  # last: it names the files
    return removed


def storable(attachment: Attachment) -> Attachment:
    """The attachment without its bytes, with text that JSON can hold."""
    return structs.replace(
        attachment,
        data=b"",
        path=None,
        mime_type=_valid_utf8(attachment.mime_type) or "",
        name=_valid_utf8(attachment.name),
        uri=_valid_utf8(attachment.uri),
    )


def _valid_utf8(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode()
