"""The hash chain over the entries: each hash covers the entry and the hash before it."""

from __future__ import annotations

from hashlib import sha256

from msgspec import Struct

from holdfast.contract.values import Json


class Entry(Struct, frozen=True, kw_only=True):
    """One line of the ledger."""

    id: int
    call: str
    """Empty for entries that belong to no call, for example a grant."""
    kind: str
    at: float
    hash: str
    body: Json


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


def link(previous: bytes, call: str, kind: str, at: float, body: str) -> bytes:
    """The length in front keeps a call id from reaching into the body; kinds and numbers hold no space."""
    return sha256(b"%b%b" % (previous, f"{kind} {at!r} {len(call)} {call}{body}".encode())).digest()
