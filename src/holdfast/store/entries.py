"""Ledger entry types, their JSON encoding with secrets redacted, and the hash chain that links them.

Each struct is the body of one kind of entry; the kind itself is stored beside it as a short word (`call`, `pending`,
`answered`, `intent`, `ended`, …).
"""

from __future__ import annotations

from binascii import b2a_base64
from hashlib import sha256
from threading import Lock
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.contract.call import Answer, Call, Decision, PendingCall
from holdfast.contract.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from holdfast.contract.json import Args, Identifier, Json
from holdfast.contract.result import Attachment, Result
from holdfast.contract.schedules import Schedule
from holdfast.store.blobs import Blobs
from holdfast.store.redact import REMOVED_CONTENT, Redactor, redact_struct

B = TypeVar("B", bound=Struct)
Scope = Literal["once", "session", "project", "user"]


class CallRecorded(Struct, frozen=True):
    """A call recorded after it finished: one entry instead of a begin and an end."""

    call: Call
    decision: Decision
    result: Result
    original_args: Any = None


class CallPending(Struct, frozen=True):
    pending: PendingCall
    reason: str = ""
    """Why the pending call replaces an earlier version of itself, if it does."""


class CallAnswered(Struct, frozen=True):
    answer: Answer
    digest: Identifier
    result: Result | None = None
    """The call's result, if the answer ends it (reject, respond)."""


class CallBegun(Struct, frozen=True):
    """Written ahead of the run, so that a crash leaves a trace of what was about to happen."""

    decision: Decision
    definition_digest: Identifier
    mutates: bool
    pid: int
    pid_start: str
    digest: Identifier | None = None
    call: Call | None = None
    """None for a call that was pending: its pending entry says what runs."""


class CallEnded(Struct, frozen=True):
    result: Result


class BeforeImage(Struct, frozen=True):
    """The content of a path before the call changed it."""

    path: str
    blob: Identifier | None
    """None if the path did not exist."""
    mode: int | None = None
    size: int = 0


class Grant(Struct, frozen=True, kw_only=True):
    """A remembered, scoped yes."""

    id: Identifier
    tool: str
    pattern: Args
    """The arguments a call must have to be covered."""
    scope: Scope
    by: str
    created: float
    session: str | None = None
    expires: float | None = None
    uses: int | None = None
    """Remaining uses; None for unlimited."""


class GrantAdded(Struct, frozen=True):
    grant: Grant


class GrantRevoked(Struct, frozen=True):
    id: Identifier
    by: str


class GrantUsed(Struct, frozen=True):
    id: Identifier
    for_call: str


class TrustedContent(Struct, frozen=True, kw_only=True):
    """A file that the user trusted with exactly this content."""

    path: str
    digest: Identifier
    by: str
    at: float


class TrustRevoked(Struct, frozen=True):
    path: str
    by: str


class ToolPinned(Struct, frozen=True):
    """The accepted definition of a tool of an MCP server."""

    server: str
    tool: str
    digest: Identifier
    before: str | None = None
    """The digest of the definition it replaces, if the user accepted a change."""


class ServerUnpinned(Struct, frozen=True):
    server: str


class ScheduleAdded(Struct, frozen=True):
    schedule: Schedule


class ScheduleRemoved(Struct, frozen=True):
    id: Identifier
    by: str
    call: str


class RunClaimed(Struct, frozen=True):
    """A process took a due run, before it began. No other process will."""

    id: Identifier
    due: float
    pid: int
    pid_start: str


class RunEnded(Struct, frozen=True):
    id: Identifier
    due: float
    state: str
    call: str | None = None
    """The call that the run made, if it made one."""
    message: str = ""


class RunsMissed(Struct, frozen=True):
    """Runs of a schedule that did not take place, and never will."""

    id: Identifier
    count: int
    first: float
    last: float
    why: str
    more: bool = False
    """There were more than were counted."""


class RemovedCall(Struct, frozen=True):
    """What is kept of a call that was deleted with its session."""

    id: str
    tool: str
    state: str
    at: float
    """When it was received."""
    decided_by: str


class EntriesPruned(Struct, frozen=True, kw_only=True):
    """A record of removed entries. It lets `verify` follow the hash chain across them."""

    ranges: tuple[tuple[int, int, str], ...] = ()
    """Removed entries as (first, last, hash of the last)."""
    calls: int = 0
    older_than: float | None = None
    """Unix time."""
    blobs: int = 0
    freed: int = 0
    by: str = ""
    session: str = ""
    """The deleted session, if that is why the entries were removed."""
    removed: tuple[RemovedCall, ...] = ()
    """The calls of the deleted session."""


class BodyInBlob(Struct, frozen=True):
    """Stands in for a body larger than `MAX_INLINE`, which is stored as a blob."""

    blob: Identifier
    size: int


_BODY_IN_BLOB: Final = '{"blob":"'
"""The start of an encoded `BodyInBlob`; no other body starts like this."""


class BodyReader:
    """Decodes the body column of an entry."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        for kind in (CallRecorded, CallPending, CallAnswered):  # with the types that other code decodes, in any thread
            decoder_of(kind)

    def text(self, body: str) -> str | bytes:
        """Return the JSON text. Raises `LedgerError` if its blob is missing, `ValueError` if that is not JSON."""
        if type(body) is not str:  # SQLite does not enforce column types
            raise LedgerCorrupt(f"A ledger entry contains {type(body).__name__} instead of text.")
        if not body.startswith(_BODY_IN_BLOB):
            return body
        return self._blobs.read(decoder_of(BodyInBlob).decode(body).blob)

    def __call__(self, body: str, kind: type[B]) -> B:
        try:
            return decoder_of(kind).decode(self.text(body))
        except (ValueError, RecursionError) as error:  # invalid JSON, lone surrogates, or too deeply nested
            raise LedgerCorrupt(
                f"A ledger entry cannot be read ({error}). Run `holdfast ledger verify` to find it."
            ) from error

    def with_bytes(self, result: Result) -> Result:
        """Load the attachments of a stored result. Those whose bytes are gone keep only their digest and size."""
        if not result.attachments:
            return result
        return replace(result, attachments=tuple(map(self._loaded, result.attachments)))

    def _loaded(self, item: Attachment) -> Attachment:
        if item.data or not item.digest:
            return item  # a link, or an entry of an older version, which contains the bytes
        try:
            return replace(item, data=self._blobs.read(item.digest))
        except LedgerError:
            return item


_decoders: Final[dict[type[Struct], msgspec.json.Decoder[Any]]] = {}
_building: Final = Lock()


def decoder_of(kind: type[B]) -> msgspec.json.Decoder[B]:
    found = _decoders.get(kind)
    if found is None:
        # One at a time: a second thread would be given types that the first has not finished, and crash the process.
        with _building:
            found = _decoders.setdefault(kind, _decoders.get(kind) or msgspec.json.Decoder(kind))
    return found


MAX_INLINE: Final = 1024 * 1024
_MAX_DEPTH: Final = 100


class BodyEncoder:
    """Encodes entry bodies and redacts secrets. Every entry goes through it.

    It decodes what it encoded, so no caller, tool or middleware can write an entry that cannot be read back.
    """

    def __init__(self, redactor: Redactor, blobs: Blobs) -> None:
        self._redactor = redactor
        self._blobs = blobs
        self._encode = msgspec.json.Encoder(enc_hook=repr).encode

    def __call__(self, body: Struct) -> str:
        result: object = getattr(body, "result", None)
        if isinstance(result, Result) and result.attachments:
            body = replace(body, result=self._with_stored_attachments(result))
        try:
            text = self._encode(body).decode()
        except (UnicodeEncodeError, RecursionError, TypeError, ValueError, OverflowError):
            text = self._encode(_to_encodable(body)).decode()
        try:
            read = decoder_of(type(body)).decode(text)
            if self._redactor.finds(text):
                text = self._encode(redact_struct(read, self._redactor, bytes)).decode()
                decoder_of(type(body)).decode(text)
        except msgspec.DecodeError as error:
            raise LedgerUnavailable(f"Not recorded, because the entry could not be read back: {error}.") from None
        if len(text) > MAX_INLINE:
            raw = text.encode()
            text = self._encode(BodyInBlob(self._blobs.put(raw), len(raw))).decode()
        return text

    def _with_stored_attachments(self, result: Result) -> Result:
        """Store the bytes as blobs, before the entry that refers to them. The entry contains only their digests."""
        return replace(result, attachments=tuple(map(self._stored, result.attachments)))

    def _stored(self, item: Attachment) -> Attachment:
        # Anything else is left to the checks below: programs can construct any value.
        if type(item) is not Attachment or type(item.data) is not bytes:
            return item
        if item.path is not None:
            item = replace(item, path=None)
        if not item.data:
            return replace(item, digest="", size=0)  # only stored bytes have a digest: nothing else may be named
        if self._has_secret(item.data):
            item = replace(item, data=REMOVED_CONTENT)
        self._blobs.put(item.data)
        return item.without_data()

    def _has_secret(self, data: bytes) -> bool:
        """Whether the content has a secret as text or as base64; then all of it is dropped."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("latin-1")
        return self._redactor.finds(text) or self._redactor.finds(b2a_base64(data, newline=False).decode())


def _to_encodable(value: object, depth: int = 0) -> object:
    """Return a value that JSON can represent: lone surrogates, cycles and unknown objects become text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if value is None or isinstance(value, bool | int | float | bytes):
        return value
    if depth > _MAX_DEPTH:
        return "[nested too deeply]"
    if isinstance(value, Struct):
        fields: dict[str, object] = {name: getattr(value, name) for name in value.__struct_fields__}
        config = value.__struct_config__
        tag = {config.tag_field: config.tag} if config.tag_field else {}
        return tag | {name: _to_encodable(item, depth + 1) for name, item in fields.items()}
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        return {str(_to_encodable(str(name))): _to_encodable(item, depth + 1) for name, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_to_encodable(item, depth + 1) for item in cast(list[object], value)]
    return _to_encodable(repr(value))


class LedgerEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the ledger."""

    id: int
    call: str
    """Empty for entries that belong to no call, for example a grant."""
    kind: str
    at: float
    hash: str
    body: Json
    problem: str = ""
    """Why the entry cannot be read; its body is null then."""


class UnreadableEntry(Struct, frozen=True, kw_only=True):
    """An entry whose hash is right but whose body does not decode."""

    entry: int
    call: str
    kind: str
    problem: str


class VerifyReport(Struct, frozen=True, kw_only=True):
    """The outcome of `Ledger.verify`."""

    ok: bool
    entries: int
    head: str
    """The last hash. Stored elsewhere and passed to `verify` later, it proves that nothing before it was rewritten."""
    first_bad: int | None = None
    """The first entry that is missing, changed or unreadable, if the problem is in an entry."""
    problem: str | None = None
    pruned: int = 0
    """How many entries pruning removed. A `pruned` entry names them, and the chain continues behind them."""
    unreadable: tuple[UnreadableEntry, ...] = ()
    """Entries that are unchanged but do not decode."""


def chain_hash(previous: bytes, call: str, kind: str, at: float, body: str) -> bytes:
    """Return the next hash of the chain."""
    # The length prefix separates the call id from the body; kinds and numbers contain no space.
    return sha256(b"%b%b" % (previous, f"{kind} {at!r} {len(call)} {call}{body}".encode())).digest()


def matches_chain(digest: object, previous: bytes, call: object, kind: object, at: object, body: object) -> bool:
    """Whether the row hashes to `digest`. The columns may hold anything, because the file may have been edited."""
    if not (isinstance(call, str) and isinstance(kind, str) and isinstance(at, float) and isinstance(body, str)):
        return False
    try:
        return chain_hash(previous, call, kind, at, body) == digest
    except UnicodeEncodeError:
        return False
