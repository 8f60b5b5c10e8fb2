"""What is known of a document and is not in it: which calls of the ledger stand for its calls, what it cost, what
its results carry beside text. One file per document in the user's state folder, never in the project."""

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
from holdfast.chat.document_file import DocumentError
from holdfast.contract.call import ProcessIdentity
from holdfast.contract.errors import LedgerError
from holdfast.contract.message import ToolUse
from holdfast.contract.result import Attachment
from holdfast.fs.own_paths import register_document
from holdfast.fs.replace import open_lock, try_lock, write_private
from holdfast.models.port import Usage
from holdfast.store.blobs import Blobs
from holdfast.store.process_identity import is_alive, this_process
from holdfast.store.redact import Redactor

_PAUSE: Final = 0.01
_owner: Final = msgspec.json.Decoder(ProcessIdentity)


class DocumentBusy(DocumentError):
    """Another process, or another part of this one, drives the document."""

    def __init__(self, path: Path, owner: ProcessIdentity | None) -> None:
        self.owner = owner
        who = f"process {owner.pid}" if owner else "another process"
        super().__init__(
            f"{path} is being driven by {who}; wait for it, or stop it with `holdfast chat cancel {path.name}`."
        )


def document_key(path: Path) -> str:
    """The name of a document in the state folder: the same for every way to name the same file."""
    return hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:40]


class DocumentLock:
    """May be taken again by its holder. The system gives it back when the process ends, however it ends."""

    def __init__(self, path: Path, state: Path) -> None:
        self._path = path
        self._file = _lock_file(path, state)
        self._descriptor = -1
        self._depth = 0

    @contextmanager
    def acquire(self, wait: float = 0.0) -> Generator[None]:
        """Raises `DocumentBusy` when others hold it for longer than `wait` seconds."""
        if self._depth == 0:
            self._take(wait)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._give_back()

    def _take(self, wait: float) -> None:
        end = time.monotonic() + wait
        try:
            self._descriptor = open_lock(self._file)
            while not try_lock(self._descriptor):
                if time.monotonic() >= end:
                    raise DocumentBusy(self._path, _read_owner(self._file))
                time.sleep(_PAUSE)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, msgspec.json.encode(this_process()), 0)
        except BaseException as error:
            self._close()
            if isinstance(error, OSError):
                raise DocumentError(
                    f"{self._path} cannot be locked with {self._file} ({error.strerror}); "
                    "check the disk and permissions of that folder."
                ) from None
            raise

    def _give_back(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lock_owner(path: Path, state: Path) -> ProcessIdentity | None:
    """The process that drives a document now."""
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
    """Exactly one call of a document."""

    turn: int
    id: str
    digest: str
    """Of its id, name and arguments."""


class StoredCall(Struct, frozen=True, rename={"call": "open"}):
    key: CallKey
    call: LedgerCall


class CallLookup:
    """Finds the calls of a turn among those remembered, each once.

    Where a person removed an earlier reply the same call has a lower turn than it had, and is still found.
    """

    def __init__(self, remembered: Sequence[StoredCall], turn: int) -> None:
        self._exact = {item.key: item.call for item in remembered if item.key.turn == turn}
        self._moved = {(item.key.id, item.key.digest): item.call for item in remembered if item.key.turn > turn}

    def take(self, key: CallKey) -> LedgerCall | None:
        return self._exact.pop(key, None) or self._moved.pop((key.id, key.digest), None)


class _Kept(Struct, frozen=True):
    """Attachments whose bytes are in a blob."""

    key: CallKey
    attachments: tuple[tuple[Attachment, str], ...]


class DocumentState(
    Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"calls": "open", "attachments": "kept"}
):
    version: int = 1
    uri: str
    calls: tuple[StoredCall, ...] = ()
    attachments: tuple[_Kept, ...] = ()
    usage: Usage = Usage()
    replies: int = 0

    @property
    def path(self) -> Path:
        return Path(os.fsdecode(unquote_to_bytes(urlsplit(self.uri).path)))


_decoder: Final = msgspec.json.Decoder(DocumentState)


def call_key(turn: int, use: ToolUse) -> CallKey:
    parts = "".join(f"{len(part)}:{part}" for part in (use.id, use.name, use.arguments))
    digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()
    return CallKey(turn, _writable(use.id) or "", digest)


class StateFile:
    """Read again when the file has changed, because other processes write it as well; written only by who holds the
    document's lock."""

    def __init__(self, path: Path, state: Path) -> None:
        self._file = state / f"{document_key(path)}.json"
        self._blobs = Blobs(state / "attachments", Redactor(), sync=True)
        self._nothing = DocumentState(uri=Path(os.path.realpath(path)).as_uri())
        self._seen: tuple[tuple[int, ...], DocumentState] | None = None

    def read(self) -> DocumentState:
        try:
            identity = _identity(self._file)
            if self._seen is not None and self._seen[0] == identity:
                return self._seen[1]
            found = _decoder.decode(self._file.read_bytes())
        except FileNotFoundError:
            return self._nothing
        except (OSError, msgspec.MsgspecError) as error:
            raise DocumentError(
                f"What is remembered of {self._nothing.path} cannot be read ({error}); check which of its calls have "
                f"run with `holdfast ledger`, then remove {self._file}."
            ) from None
        if found.uri != self._nothing.uri:
            return self._nothing
        with suppress(OSError):  # one that is remembered since before documents were protected by that
            register_document(self._nothing.path)
        self._seen = (identity, found)
        return found

    def set_calls(self, opened: Sequence[tuple[CallKey, LedgerCall | None]]) -> None:
        """Remember open calls, or forget them."""
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

    def store_attachments(self, results: Sequence[tuple[CallKey, Sequence[Attachment]]]) -> None:
        """Keep what results carry beside their text; nothing for nothing."""
        found = self.read()
        new = {item.key: item for item in found.attachments}
        for call, attachments in results:
            new.pop(call, None)
            if attachments:
                new[call] = _Kept(call, self._put(attachments))
        self._write(structs.replace(found, attachments=tuple(new.values())), found)

    def load_attachments(self, found: DocumentState) -> dict[CallKey, tuple[Attachment, ...]]:
        """What results carry; an attachment whose bytes are gone is left out."""
        return {item.key: tuple(self._loaded(item.attachments)) for item in found.attachments}

    def add_usage(self, usage: Usage, *, first: bool) -> None:
        """Add what a reply cost; the first reply of a document counts from nothing."""
        found = self.read()
        before = self._nothing if first else found
        self._write(structs.replace(found, usage=before.usage + usage, replies=before.replies + 1), found)

    def _put(self, attachments: Sequence[Attachment]) -> tuple[tuple[Attachment, str], ...]:
        try:
            return tuple((_described(item), self._blobs.put(item.data)) for item in attachments)
        except LedgerError as error:
            raise DocumentError(str(error)) from None

    def _loaded(self, put: Sequence[tuple[Attachment, str]]) -> list[Attachment]:
        loaded: list[Attachment] = []
        for attachment, reference in put:
            try:
                loaded.append(structs.replace(attachment, data=self._blobs.read(reference)))
            except LedgerError:
                continue
        return loaded

    def _write(self, new: DocumentState, old: DocumentState) -> None:
        if new == old:
            return
        try:
            register_document(self._nothing.path)  # first: what is remembered must not be there unprotected
            write_private(self._file, msgspec.json.encode(new), sync=True)
            self._seen = (_identity(self._file), new)
        except OSError as error:
            raise DocumentError(
                f"{self._file} could not be written ({error.strerror}); check the disk and permissions of the folder."
            ) from None


def _identity(file: Path) -> tuple[int, ...]:
    """Different after every write: each makes a new file, and takes longer than a tick of the clock."""
    found = file.stat()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def document_states(state: Path) -> Sequence[DocumentState]:
    """All documents something is remembered of, to find one by the id of a call; what cannot be read is left out."""
    found: list[DocumentState] = []
    for file in sorted(state.glob("*.json")):
        try:
            remembered = _decoder.decode(file.read_bytes())
        except (OSError, msgspec.MsgspecError):
            continue
        if f"{document_key(remembered.path)}.json" == file.name:
            found.append(remembered)
    return found


def _described(attachment: Attachment) -> Attachment:
    """All but its bytes."""
    return structs.replace(attachment, data=b"", name=_writable(attachment.name), uri=_writable(attachment.uri))


def _writable(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode()
