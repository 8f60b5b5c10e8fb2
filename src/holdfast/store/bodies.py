"""What each kind of entry carries."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct

from holdfast.contract.call import Answer, Call, Decision, HeldCall
from holdfast.contract.errors import LedgerCorrupt
from holdfast.contract.result import Result
from holdfast.contract.values import Args
from holdfast.store.blobs import Blobs

B = TypeVar("B", bound=Struct)
Scope = Literal["once", "session", "project", "user"]


class Whole(Struct, frozen=True):
    """A call that is over when it is first written."""

    call: Call
    decision: Decision
    result: Result
    original_args: Any = None


class Held(Struct, frozen=True):
    held: HeldCall
    why: str = ""
    """Why it is held again, if it is."""


class Answered(Struct, frozen=True):
    answer: Answer
    digest: str
    result: Result | None = None
    """The end of the call, when the answer is one."""


class Intent(Struct, frozen=True):
    decision: Decision
    definition_digest: str
    mutates: bool
    pid: int
    pid_start: str
    digest: str | None = None
    call: Call | None = None
    """None if the call was held: what was shown then is what runs."""


class Ended(Struct, frozen=True):
    result: Result


class Before(Struct, frozen=True):
    """What a path held before the call changed it."""

    path: str
    blob: str | None
    """None if there was nothing."""
    mode: int | None = None
    size: int = 0


class Grant(Struct, frozen=True, kw_only=True):
    """A remembered, scoped yes."""

    id: str
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


class Granted(Struct, frozen=True):
    grant: Grant


class Revoked(Struct, frozen=True):
    id: str
    by: str


class Consumed(Struct, frozen=True):
    id: str
    for_call: str


class TrustedContent(Struct, frozen=True, kw_only=True):
    """A person trusted a file with exactly this content."""

    path: str
    digest: str
    by: str
    at: float


class Untrusted(Struct, frozen=True):
    path: str
    by: str


class Pinned(Struct, frozen=True):
    """From now on this is how the tool of an MCP server is known."""

    server: str
    tool: str
    digest: str
    before: str | None = None
    """The digest of the definition it replaces, which a person accepted it for."""


class Unpinned(Struct, frozen=True):
    server: str


class Pruned(Struct, frozen=True, kw_only=True):
    """What was removed because it was old, or more than may be kept."""

    ranges: tuple[tuple[int, int, str], ...] = ()
    """The entries from one number to another that are gone, and the hash of the last of them."""
    calls: int = 0
    older_than: float | None = None
    """A time of the clock."""
    blobs: int = 0
    freed: int = 0
    by: str = ""


class Elsewhere(Struct, frozen=True):
    """Stands in for a body that is too large for a row."""

    blob: str
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
        return self._blobs.read(decoder_of(Elsewhere).decode(body).blob)

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
