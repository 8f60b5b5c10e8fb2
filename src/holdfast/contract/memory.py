"""Memory: items that outlive the conversation, their namespaces, and the protocol for the tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Protocol

from msgspec import Struct

from holdfast.contract.context import Context
from holdfast.contract.errors import MemoryRefused

MAX_NAMESPACE: Final = 200
MAX_PARTS: Final = 8
MAX_QUERY: Final = 2_000
_PART: Final = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,62}[a-z0-9])?", re.ASCII)


class Provenance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an item came from. The runtime writes it; no argument of a call can set it."""

    interface: str = ""
    agent: str | None = None
    provider: str | None = None
    skill: str | None = None
    session: str | None = None
    document: str | None = None
    call: str = ""
    parent: str | None = None
    """The call whose tool made this call."""

    def __str__(self) -> str:
        names = (self.interface, self.agent, self.provider)
        return f"{'/'.join(name for name in names if name) or 'unknown'}, call {self.call or 'unknown'}"


class MemoryItem(Struct, frozen=True, kw_only=True):
    id: str
    namespace: str
    content: str
    created: float
    """Seconds since 1970."""
    updated: float
    """When its state last changed: written, or superseded."""
    provenance: Provenance
    supersedes: str | None = None
    superseded_by: str | None = None
    expires: float | None = None
    """After this time the item is removed."""
    shared: bool = False
    """Whether all projects of the user see it."""

    @property
    def digest(self) -> str:
        """Digest of the state that a proposal was based on."""
        parts = (self.id, self.namespace, self.content, self.superseded_by or "", str(self.expires or ""))
        return sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


class NewItem(Struct, frozen=True, kw_only=True):
    """An item to write."""

    namespace: str
    content: str
    supersedes: str | None = None
    seen: str | None = None
    """Digest of the superseded item as it was proposed."""
    expires: float | None = None


class MemoryHit(Struct, frozen=True, kw_only=True):
    """A search result. Score, keyword and meaning are between 0 and 1."""

    item: MemoryItem
    score: float
    keyword: float
    """The share of the best keyword score."""
    meaning: float | None
    """Where its similarity lies between the least and the most similar item; None without an embedder."""
    similarity: float | None = None
    """The similarity itself, from -1 to 1; None if it was not compared by meaning."""


class MemorySearch(Struct, frozen=True, kw_only=True):
    hits: tuple[MemoryHit, ...]
    embedder: str
    """The name of the embedder that ranked by meaning; `none` if keywords alone did."""
    notes: tuple[str, ...] = ()
    """Sentences about the search itself, such as that vectors are still missing."""


class NamespaceSummary(Struct, frozen=True, kw_only=True):
    namespace: str
    items: int
    """Without superseded ones."""
    updated: float
    shared: bool = False


class MemoryPage(Struct, frozen=True, kw_only=True):
    """Items of a namespace, newest first."""

    items: tuple[MemoryItem, ...]
    total: int


class Memory(Protocol):
    """What the caller of a context may remember. Raises `MemoryRefused` or `MemoryUnavailable`."""

    def check(self, ctx: Context, new: NewItem) -> None:
        """Raise `MemoryRefused` if the item could not be written: namespace, size."""
        ...

    def get(self, ctx: Context, item_id: str) -> MemoryItem:
        """Return an item. Raises `MemoryRefused` if it does not exist or is in a namespace that is not allowed."""
        ...

    def find_same(self, ctx: Context, namespace: str, content: str) -> MemoryItem | None:
        """Return the current item of the namespace with exactly this content."""
        ...

    def write(self, ctx: Context, new: NewItem) -> MemoryItem: ...
    def forget(self, ctx: Context, item_id: str, seen: str) -> bool:
        """Delete an item; return whether its text is also gone from the database's log."""
        ...

    def namespaces(self, ctx: Context, within: str | None = None) -> Sequence[NamespaceSummary]: ...
    def page(
        self, ctx: Context, namespace: str, *, offset: int, limit: int, history: bool, below: bool = False
    ) -> MemoryPage:
        """Return items of a namespace; with `history` superseded ones too, with `below` those of its sub-namespaces."""
        ...

    def search(
        self, ctx: Context, query: str, *, namespace: str | None, limit: int, keyword_only: bool
    ) -> MemorySearch: ...


def check_namespace(given: str) -> str:
    """Return the namespace. Raises `MemoryRefused` unless it matches the grammar.

    A namespace is never part of a path on disk, but it is shown, matched by patterns and exported to files.
    """
    if len(given) <= MAX_NAMESPACE:
        parts = given.split("/")
        if len(parts) <= MAX_PARTS and all(_PART.fullmatch(part) and ".." not in part for part in parts):
            return given
    raise MemoryRefused(
        f"{given[:80]!a}{'…' if len(given) > 80 else ''} is not a namespace. Use lower-case letters, digits, '_', '.' "
        f"and '-' in parts joined by '/', such as 'project/decisions' (at most {MAX_PARTS} parts and {MAX_NAMESPACE} "
        "characters)."
    )


def matches_namespace(namespace: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns matches; `*` stands for any characters."""
    return any(_compiled(pattern).fullmatch(namespace) for pattern in patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))))
