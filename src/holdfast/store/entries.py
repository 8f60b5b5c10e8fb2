"""The entries of the ledger: what each kind holds, how it is encoded, and how they are chained."""

from __future__ import annotations

from binascii import b2a_base64
from hashlib import sha256
from typing import Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from holdfast.contract.call import Answer, Call, Decision, PendingCall
from holdfast.contract.errors import LedgerCorrupt, LedgerUnavailable
from holdfast.contract.json import Args, Identifier, Json
from holdfast.contract.result import Result
from holdfast.store.blobs import Blobs
from holdfast.store.redact import Redactor, redact_struct

B = TypeVar("B", bound=Struct)
Scope = Literal["once", "session", "project", "user"]


class CallRecorded(Struct, frozen=True):
    """A call that is over when it is first written."""

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
    """The end of the call, when the answer is one."""


class CallBegun(Struct, frozen=True):
    decision: Decision
    definition_digest: Identifier
    mutates: bool
    pid: int
    pid_start: str
    digest: Identifier | None = None
    call: Call | None = None
    """None if the call was held: what was shown then is what runs."""


class CallEnded(Struct, frozen=True):
    result: Result


class BeforeImage(Struct, frozen=True):
    """What a path held before the call changed it."""

    path: str
    blob: Identifier | None
    """None if there was nothing."""
    mode: int | None = None
    size: int = 0


class Grant(Struct, frozen=True, kw_only=True):
    """A remembered, scoped yes."""

    id: Identifier
    tool: str
    pattern: Args
    """What the arguments must be."""
    scope: Scope
    by: str
    created: float
    session: str | None = None
    expires: float | None = None
    uses: int | None = None
    """How often it can still be used; None for any number of times."""


class GrantAdded(Struct, frozen=True):
    grant: Grant


class GrantRevoked(Struct, frozen=True):
    id: Identifier
    by: str


class GrantUsed(Struct, frozen=True):
    id: Identifier
    for_call: str


class TrustedContent(Struct, frozen=True, kw_only=True):
    """A person trusted a file with exactly this content."""

    path: str
    digest: Identifier
    by: str
    at: float


class TrustRevoked(Struct, frozen=True):
    path: str
    by: str


class ToolPinned(Struct, frozen=True):
    """From now on this is how the tool of an MCP server is known."""

    server: str
    tool: str
    digest: Identifier
    before: str | None = None
    """The digest of the definition it replaces, which a person accepted it for."""


class ServerUnpinned(Struct, frozen=True):
    server: str


class EntriesPruned(Struct, frozen=True, kw_only=True):
    """What was removed because it was old, or more than may be kept."""

    ranges: tuple[tuple[int, int, str], ...] = ()
    """The entries from one number to another that are gone, and the hash of the last of them."""
    calls: int = 0
    older_than: float | None = None
    """A time of the clock."""
    blobs: int = 0
    freed: int = 0
    by: str = ""


class BodyInBlob(Struct, frozen=True):
    """Stands in for a body that is too large for a row."""

    blob: Identifier
    size: int


_ELSEWHERE: Final = '{"blob":"'
"""How such a body begins, and no other."""


class BodyReader:
    """Turns the text of a row back into what was written."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def text(self, body: str) -> str | bytes:
        """Raises `LedgerError` where there is none, and `ValueError` where it is not text."""
        if type(body) is not str:  # SQLite keeps anything in any column
            raise LedgerCorrupt(f"An entry of the ledger holds {type(body).__name__} in place of text.")
        if not body.startswith(_ELSEWHERE):
            return body
        return self._blobs.read(decoder_of(BodyInBlob).decode(body).blob)

    def __call__(self, body: str, kind: type[B]) -> B:
        try:
            return decoder_of(kind).decode(self.text(body))
        except (ValueError, RecursionError) as error:  # of JSON, of text that is no text, of what is nested too deeply
            raise LedgerCorrupt(
                f"An entry of the ledger cannot be read ({error}); run `holdfast ledger verify` to find it."
            ) from error


_decoders: Final[dict[type[Struct], msgspec.json.Decoder[Any]]] = {}


def decoder_of(kind: type[B]) -> msgspec.json.Decoder[B]:
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]


MAX_INLINE: Final = 1024 * 1024
_MAX_DEPTH: Final = 100
_PLACEHOLDER: Final = b"[an attachment that held a secret]"


class BodyEncoder:
    """Turns bodies into text without secrets; the only way into the ledger. What could not be read back later is
    refused here: no caller, tool or hook can make an entry that nobody can read."""

    def __init__(self, redactor: Redactor, blobs: Blobs) -> None:
        self._redactor = redactor
        self._blobs = blobs
        self._encode = msgspec.json.Encoder(enc_hook=repr).encode

    def __call__(self, body: Struct) -> str:
        try:
            text = self._encode(body).decode()
        except (UnicodeEncodeError, RecursionError, TypeError, ValueError, OverflowError):
            text = self._encode(_plain(body)).decode()
        try:
            read = decoder_of(type(body)).decode(text)
            if self._redactor.finds(text):
                text = self._encode(redact_struct(read, self._redactor, self._attachment)).decode()
                decoder_of(type(body)).decode(text)
        except msgspec.DecodeError as error:
            raise LedgerUnavailable(f"It cannot be recorded, because it could not be read back: {error}.") from None
        if len(text) > MAX_INLINE:
            raw = text.encode()
            text = self._encode(BodyInBlob(self._blobs.put(raw), len(raw))).decode()
        return text

    def _attachment(self, data: bytes) -> bytes:
        """Content in which a secret is found, as text or as base64, is not kept at all."""
        shown = (b2a_base64(data, newline=False).decode(), data.decode("utf-8", "replace"))
        return _PLACEHOLDER if any(map(self._redactor.finds, shown)) else data


def _plain(value: object, depth: int = 0) -> object:
    """The value as far as JSON can carry it: broken Unicode, cycles and strange objects become text."""
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
        return tag | {name: _plain(item, depth + 1) for name, item in fields.items()}
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        return {str(_plain(str(name))): _plain(item, depth + 1) for name, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in cast(list[object], value)]
    return _plain(repr(value))


class LedgerEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the ledger."""

    id: int
    call: str
    """Empty for entries that belong to no call, for example a grant."""
    kind: str
    at: float
    hash: str
    body: Json
    problem: str = ""
    """Why it cannot be read; the body is null then."""


class UnreadableEntry(Struct, frozen=True, kw_only=True):
    """An entry that is as it was written, and still cannot be read."""

    entry: int
    call: str
    kind: str
    problem: str


class VerifyReport(Struct, frozen=True, kw_only=True):
    """What reading the whole ledger showed."""

    ok: bool
    entries: int
    head: str
    """The last hash. Kept elsewhere and given to `verify` later, it proves that nothing before it was rewritten."""
    first_bad: int | None = None
    """The first entry that is not as it was written, if it is an entry."""
    problem: str | None = None
    pruned: int = 0
    """How many entries were removed by pruning; the ledger itself says which, and the chain goes on behind them."""
    unreadable: tuple[UnreadableEntry, ...] = ()
    """Entries nobody can read, though nobody changed them."""


def chain_hash(previous: bytes, call: str, kind: str, at: float, body: str) -> bytes:
    """The length in front keeps a call id from reaching into the body; kinds and numbers hold no space."""
    return sha256(b"%b%b" % (previous, f"{kind} {at!r} {len(call)} {call}{body}".encode())).digest()


def matches_chain(digest: object, previous: bytes, call: object, kind: object, at: object, body: object) -> bool:
    """Whether a row is what was written there, whatever its columns hold by now."""
    if not (isinstance(call, str) and isinstance(kind, str) and isinstance(at, float) and isinstance(body, str)):
        return False
    try:
        return chain_hash(previous, call, kind, at, body) == digest
    except UnicodeEncodeError:
        return False
