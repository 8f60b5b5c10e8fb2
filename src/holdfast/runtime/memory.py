"""The memory of a runtime: the project's own file and the user's shared one, as one caller may see them.

Namespaces are checked here, before every query and change: against `memory.namespaces` and against the layers of the
calling agent and provider. Which file holds a namespace follows from `memory.shared` alone. The provenance of an item
comes from the call, never from its arguments.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.config.config import PolicyLayer, ToolsConfig
from holdfast.config.tool_families import MemoryConfig
from holdfast.contract.call import Call, Caller
from holdfast.contract.context import Context
from holdfast.contract.errors import CallError, MemoryRefused
from holdfast.contract.memory import (
    MAX_QUERY,
    MemoryHit,
    MemoryItem,
    MemoryPage,
    MemorySearch,
    NamespaceSummary,
    NewItem,
    Provenance,
    check_namespace,
    matches_namespace,
)
from holdfast.runtime.context import RunContext
from holdfast.store.memory.embedders import choose_embedder
from holdfast.store.memory.fusion import Fused, Similarities, fuse
from holdfast.store.memory.items import Allows, Candidates, MemoryStore, is_within, no_such_item
from holdfast.store.memory.terms import query_terms
from holdfast.text.escape import escape
from holdfast.text.truncate import byte_size, format_size

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from holdfast.store.memory.embedders import Embedder

SUPERSEDED: Final = 0.5
"""What remains of the score of a superseded item, so that its successor comes first."""
_MAX_VERSIONS: Final = 100
KEYWORDS_ONLY: Final = (
    "Searched by keywords only (embedder: none). To search by meaning too: pip install 'holdfast[memory]'"
)
_ID: Final = re.compile(r"[a-z2-7]{12}")
_log: Final = logging.getLogger("holdfast")
Key = tuple[int, int]
"""The place of a store in the list, and the number of an item in it."""


class RuntimeMemory:
    """Satisfies `Memory`. The files and the embedder are opened on first use."""

    def __init__(
        self,
        config: MemoryConfig,
        tools: ToolsConfig,
        *,
        own: Path,
        shared: Path,
        embedder: Callable[[], Embedder | None] | None = None,
    ) -> None:
        self._config = config
        self._tools = tools
        self._own = MemoryStore(own)
        self._shared = MemoryStore(shared, shared=True)
        self._make_embedder = embedder or (lambda: choose_embedder(config.embedder))
        self._embedder: Embedder | None = None
        self._embedder_made = False
        self._embedder_problem = ""
        """Why the installed embedder cannot be used."""
        self._lock = threading.Lock()
        self._told_keywords_only = False

    def close(self) -> None:
        self._own.close()
        self._shared.close()

    # ------------------------------------------------------------------ one item

    def check(self, ctx: Context, new: NewItem) -> None:
        self._check_allowed(ctx, new.namespace)
        size, limit = byte_size(new.content), self._config.max_item_bytes
        if size > limit:
            raise MemoryRefused(
                f"The content has {format_size(size)}; an item can have {format_size(limit)} (memory.max_item_bytes). "
                "Write a summary, or several items."
            )
        if not new.content.strip():
            raise MemoryRefused("The content is empty. Write what should be remembered.")
        if new.supersedes is not None and self.get(ctx, new.supersedes).shared != self._is_shared(new.namespace):
            raise MemoryRefused(
                f"Item {new.supersedes} cannot be superseded from '{new.namespace}': one of the two is shared by all "
                "projects (memory.shared). Write the item and forget the old one."
            )

    def get(self, ctx: Context, item_id: str) -> MemoryItem:
        for store in self._stores:
            item = store.get(item_id)
            # An item of a namespace that is not allowed must not be told from one that does not exist.
            if item is not None and self._allows_in(ctx, store)(item.namespace):
                return item
        raise no_such_item(item_id)

    def find_same(self, ctx: Context, namespace: str, content: str) -> MemoryItem | None:
        self._check_allowed(ctx, namespace)
        return self._store_of(namespace).find_same(namespace, content)

    def write(self, ctx: Context, new: NewItem) -> MemoryItem:
        self.check(ctx, new)
        return self._store_of(new.namespace).write(new, _provenance(_call(ctx)))

    def forget(self, ctx: Context, item_id: str, seen: str) -> bool:
        item = self.get(ctx, item_id)
        return (self._shared if item.shared else self._own).forget(item_id, seen, ctx.call_id)

    # ------------------------------------------------------------------ many items

    def namespaces(self, ctx: Context, within: str | None = None) -> Sequence[NamespaceSummary]:
        if within is not None:
            check_namespace(within)
        return sorted(
            (each for store in self._stores for each in store.namespaces(self._allows_in(ctx, store), within)),
            key=lambda each: each.namespace,
        )

    def page(
        self, ctx: Context, namespace: str, *, offset: int, limit: int, history: bool, below: bool = False
    ) -> MemoryPage:
        self._check_allowed(ctx, namespace)
        pages = [
            store.page(
                namespace, self._allows_in(ctx, store), offset=0, limit=offset + limit, history=history, below=below
            )
            for store in self._stores
        ]
        newest_first = merge(*(page.items for page in pages), key=lambda item: -item.created)
        items = tuple(islice(newest_first, offset, offset + limit))
        return MemoryPage(items=items, total=sum(page.total for page in pages))

    def search(
        self, ctx: Context, query: str, *, namespace: str | None, limit: int, keyword_only: bool
    ) -> MemorySearch:
        if len(query) > MAX_QUERY:
            raise MemoryRefused(f"The query has {len(query):,} characters; use at most {MAX_QUERY:,}.")
        if namespace is not None:
            self._check_allowed(ctx, namespace)
        embedder, vector = (None, None) if keyword_only else self._embedded(query)
        terms = query_terms(query)
        found = [
            store.candidates(terms, store.scope(self._allows_in(ctx, store), namespace), embedder, vector, ctx.progress)
            for store in self._stores
        ]
        allows = self._allows(ctx)
        hits = self._rank(found, embedder, limit, lambda name: allows(name) and is_within(name, namespace))
        named = self._named(ctx, query, namespace)
        if named is not None:
            hits = [named, *(hit for hit in hits if hit.item.id != named.item.id)][:limit]
        notes = tuple(self._notes(found, embedder, keyword_only=keyword_only))
        return MemorySearch(hits=tuple(hits), embedder="none" if embedder is None else embedder.name, notes=notes)

    def _named(self, ctx: Context, query: str, namespace: str | None) -> MemoryHit | None:
        """Return the item whose id is the query."""
        if _ID.fullmatch(query) is None:
            return None
        try:
            item = self.get(ctx, query)
        except MemoryRefused:
            return None
        if not is_within(item.namespace, namespace):
            return None
        return MemoryHit(item=item, score=1.0, keyword=1.0, meaning=None)

    def _rank(
        self, found: Sequence[Candidates], embedder: Embedder | None, limit: int, allows: Allows
    ) -> list[MemoryHit]:
        keywords = {(at, item): score for at, each in enumerate(found) for item, score in each.keywords.items()}
        meanings = None if embedder is None else _joined([each.meanings for each in found], embedder.unrelated)
        ranked = fuse(keywords, meanings, self._config.keyword_weight)
        if embedder is not None and meanings is not None:
            similar = {key for key, cosine in meanings.found.items() if cosine >= embedder.unrelated}
            ranked = [each for each in ranked if each.keyword > 0 or (each.key in similar and each.score > 0)]
        # Superseded items lose half of their score, so twice as many candidates decide about the first ones.
        top = ranked[: 2 * limit + 20]
        items = {
            (at, number): item
            for at, store in enumerate(self._stores)
            if (numbers := [each.key[1] for each in top if each.key[0] == at])
            for number, item in store.by_number(numbers).items()
        }
        found_items = ((items[each.key], each) for each in top if each.key in items)
        # Again for each item: a namespace may have come or gone between the queries of this search.
        hits = {
            item.id: _hit(item, each, None if meanings is None else meanings.found.get(each.key))
            for item, each in found_items
            if self._is_reachable(item, allows)
        }
        for hit in [hit for hit in hits.values() if hit.item.superseded_by is not None]:
            # What replaced a match is at least as good an answer, whatever its words.
            current = self._successor(hit.item, allows)
            if current is not None:
                known = hits.get(
                    current.id, replace(hit, item=current, keyword=0.0, meaning=hit.meaning and 0.0, similarity=None)
                )
                hits[current.id] = replace(known, score=max(known.score, hit.score))
            hits[hit.item.id] = replace(hit, score=SUPERSEDED * hit.score)
        return sorted(hits.values(), key=lambda hit: (-hit.score, -hit.item.created))[:limit]

    def _is_reachable(self, item: MemoryItem, allows: Allows) -> bool:
        return self._is_shared(item.namespace) == item.shared and allows(item.namespace)

    def _successor(self, item: MemoryItem, allows: Allows) -> MemoryItem | None:
        """Return the current version of a superseded item; None if it was forgotten or is out of reach."""
        store = self._shared if item.shared else self._own
        found: MemoryItem | None = item
        for _ in range(_MAX_VERSIONS):
            if found is None or found.superseded_by is None:
                break
            found = store.get(found.superseded_by)
        return (
            found if found is not None and found.superseded_by is None and self._is_reachable(found, allows) else None
        )

    def _notes(self, found: Sequence[Candidates], embedder: Embedder | None, *, keyword_only: bool) -> Iterator[str]:
        missing = sum(each.missing for each in found)
        if missing:
            yield f"{missing:,} items are not embedded yet, so only their keywords were searched. Search again later."
        if embedder is None and not keyword_only and self._config.embedder != "none" and not self._told_keywords_only:
            self._told_keywords_only = True
            yield self._embedder_problem or KEYWORDS_ONLY

    # ------------------------------------------------------------------ namespaces

    @property
    def _stores(self) -> tuple[MemoryStore, MemoryStore]:
        return (self._own, self._shared)

    def _store_of(self, namespace: str) -> MemoryStore:
        return self._shared if self._is_shared(namespace) else self._own

    def _is_shared(self, namespace: str) -> bool:
        return matches_namespace(namespace, self._config.shared)

    def _allows(self, ctx: Context) -> Allows:
        layers = [self._config.namespaces, *(layer.namespaces for layer in self._layers(_call(ctx).caller))]
        return lambda namespace: all(matches_namespace(namespace, patterns) for patterns in layers)

    def _allows_in(self, ctx: Context, store: MemoryStore) -> Allows:
        """Whether a namespace may be used in this file: not if `memory.shared` now places it in the other one."""
        allows = self._allows(ctx)
        return lambda namespace: self._is_shared(namespace) == store.shared and allows(namespace)

    def _layers(self, caller: Caller) -> Iterator[PolicyLayer]:
        for layer in (self._tools.agents.get(caller.agent or ""), self._tools.providers.get(caller.provider or "")):
            if layer is not None:
                yield layer

    def _check_allowed(self, ctx: Context, namespace: str) -> None:
        if not self._allows(ctx)(check_namespace(namespace)):
            raise MemoryRefused(
                f"The namespace '{namespace}' is not allowed here (memory.namespaces). Use another one."
            )

    def _embedded(self, query: str) -> tuple[Embedder, NDArray[np.float32]] | tuple[None, None]:
        """Return the embedder and the vector of the query; neither if keywords alone decide."""
        embedder = self._get_embedder()
        if embedder is None:
            return None, None
        try:
            return embedder, embedder.embed([query])[0]
        except Exception as error:  # whatever a broken package or model raises: keywords still work
            _log.warning("The embedder %s of the memory cannot be used.", embedder.name, exc_info=error)
            self._embedder_problem = (
                f"Searched by keywords only: the embedder {embedder.name} cannot be used ({type(error).__name__}: "
                f"{escape(str(error)[:200])}). Install its packages again, or set memory.embedder to another one."
            )
            self._embedder = None
            return None, None

    def _get_embedder(self) -> Embedder | None:
        with self._lock:
            if not self._embedder_made:
                self._embedder = self._make_embedder()
                self._embedder_made = True
            return self._embedder


def _joined(parts: Sequence[Similarities[int] | None], unrelated: float) -> Similarities[Key] | None:
    """Join the similarities of several files: one range for all of them, which begins where similarity says nothing.

    Otherwise the less similar of two good items would be shown as the worst that there can be.
    """
    known = [(at, part) for at, part in enumerate(parts) if part is not None]
    if not known:
        return None
    found = {(at, item): cosine for at, part in known for item, cosine in part.found.items()}
    lowest = min(unrelated, *(part.lowest for _, part in known))
    return Similarities(found, lowest, max(part.highest for _, part in known))


def _hit(item: MemoryItem, fused: Fused[Key], cosine: float | None) -> MemoryHit:
    return MemoryHit(item=item, score=fused.score, keyword=fused.keyword, meaning=fused.meaning, similarity=cosine)


def _call(ctx: Context) -> Call:
    if not isinstance(ctx, RunContext):
        raise CallError("The memory works only for a runtime's call: pass the context the tool received.")
    return ctx.call_record


def _provenance(call: Call) -> Provenance:
    caller = call.caller
    return Provenance(
        interface=caller.interface,
        agent=caller.agent,
        provider=caller.provider,
        skill=caller.skill,
        session=caller.session,
        document=caller.document,
        call=call.id,
        parent=call.parent,
    )
