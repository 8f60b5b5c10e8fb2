"""The hash chain over the entries: each hash covers the entry and the hash before it."""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct

from holdfast.contract.values import Json


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Unreadable(Struct, frozen=True, kw_only=True):
    """An entry that is as it was written, and still cannot be read."""

    entry: int
    call: str
    kind: str
    problem: str


class Verification(Struct, frozen=True, kw_only=True):
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
    unreadable: tuple[Unreadable, ...] = ()
    """Entries nobody can read, though nobody changed them."""


def link(previous: bytes, call: str, kind: str, at: float, body: str) -> bytes:
    """The length in front keeps a call id from reaching into the body; kinds and numbers hold no space."""
    return sha256(b"%b%b" % (previous, f"{kind} {at!r} {len(call)} {call}{body}".encode())).digest()


def is_linked(digest: object, previous: bytes, call: object, kind: object, at: object, body: object) -> bool:
    """Whether a row is what was written there, whatever its columns hold by now."""
    if not (isinstance(call, str) and isinstance(kind, str) and isinstance(at, float) and isinstance(body, str)):
        return False
    try:
        return link(previous, call, kind, at, body) == digest
    except UnicodeEncodeError:
        return False
