"""Memory files for tests: an embedder that needs no package, and short ways to write items."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.contract.memory import MemoryItem, NewItem, Provenance
from holdfast.store.memory.items import MemoryStore
from holdfast.store.memory.terms import query_terms

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SYNONYMS = {"car": "vehicle", "automobile": "vehicle", "dog": "hound", "puppy": "hound", "rent": "lease"}


class WordEmbedder:
    """Adds one fixed vector per word; words in `SYNONYMS` have the vector of their meaning."""

    unrelated = 0.1

    def __init__(self, name: str = "words", dimension: int = 64) -> None:
        self.name = name
        self.dimension = dimension
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        self.embedded += texts
        rows = np.array([self._sum(text) for text in texts]).reshape(len(texts), self.dimension)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return (rows / np.maximum(lengths, 1e-9)).astype(np.float32)

    def _sum(self, text: str) -> NDArray[np.float64]:
        import numpy as np

        total = np.full(self.dimension, 1e-6)
        for word in text.lower().replace("?", "").replace(".", "").split():
            seed = hashlib.sha256(f"{self.name} {SYNONYMS.get(word, word)}".encode()).digest()[:8]
            total += np.random.default_rng(int.from_bytes(seed)).standard_normal(self.dimension)
        return total


def everything(namespace: str) -> bool:
    return True


def write(store: MemoryStore, content: str, namespace: str = "notes", **more: str | float | None) -> MemoryItem:
    new = NewItem(namespace=namespace, content=content, **more)  # pyright: ignore[reportArgumentType]
    return store.write(new, Provenance(interface="test", call="c-1"))


def found_by_keywords(store: MemoryStore, query: str) -> list[str]:
    """Return the contents of the items that match, best first."""
    hits = store.candidates(query_terms(query), store.scope(everything)).keywords
    items = store.by_number(hits)
    return [items[number].content for number in hits]


def bytes_on_disk(path: Path) -> bytes:
    """Return the content of the database with its log and shared memory."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))
