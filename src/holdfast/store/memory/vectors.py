"""Vectors of items: passages to embed, and one matrix in memory that follows the database."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from holdfast.store.memory.fusion import Similarities

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PASSAGE_CHARS: Final = 800
"""About 200 tokens, which an embedder reads as a whole."""
MAX_PASSAGES: Final = 32
"""A longer item is found by the meaning of its beginning, and by every keyword."""
_FIRST_ROWS: Final = 256
_BREAKS: Final = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"[.!?]\s+|[。！？]", r"\s+")))


def passages(content: str) -> list[str]:
    """Split a text into parts that an embedder reads as a whole: at paragraphs, lines, sentences, or words."""
    parts: list[str] = []
    rest = content.strip()
    while len(rest) > PASSAGE_CHARS and len(parts) < MAX_PASSAGES - 1:
        at = _best_break(rest[:PASSAGE_CHARS])
        parts.append(rest[:at].strip())
        rest = rest[at:].strip()
    return [*parts, rest[:PASSAGE_CHARS]]


def _best_break(text: str) -> int:
    """Return the end of the last paragraph in the second half; else of the last line, sentence or word."""
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(text, len(text) // 2)]
        if ends:
            return ends[-1]
    return len(text)


class VectorMatrix:
    """The vectors of one embedder, one row per passage. Rows of removed items are overwritten by later ones."""

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self.dimension = dimension
        self._rows: NDArray[np.float32] = np.zeros((_FIRST_ROWS, dimension), np.float32)
        self._items: NDArray[np.int64] = np.zeros(_FIRST_ROWS, np.int64)
        """The item of each row; 0 for a free row."""
        self._scopes: NDArray[np.int64] = np.zeros(_FIRST_ROWS, np.int64)
        """The namespace of each row's item."""
        self._used = 0
        self._free: list[int] = []
        self._rows_of: dict[int, list[int]] = {}

    def __len__(self) -> int:
        """The number of items."""
        return len(self._rows_of)

    def __contains__(self, item: int) -> bool:
        return item in self._rows_of

    def add(self, items: Sequence[int], scopes: Sequence[int], data: Sequence[bytes]) -> list[int]:
        """Add passages. Returns the items whose vector is damaged: of another size, not finite or not of length 1."""
        import numpy as np

        size = 4 * self.dimension
        good = [at for at, blob in enumerate(data) if len(blob) == size]
        rows = np.frombuffer(b"".join(data[at] for at in good), np.float32).reshape(len(good), self.dimension)
        lengths = np.einsum("ij,ij->i", rows, rows)
        sound: NDArray[Any] = np.abs(lengths - 1) < 1e-2  # NaN and infinity compare as false
        accepted = {at for at, is_sound in zip(good, sound.tolist(), strict=True) if is_sound}
        damaged = {items[at] for at in range(len(items)) if at not in accepted}
        places: list[int] = []
        kept: list[int] = []
        for row, at in enumerate(good):
            if items[at] not in damaged:
                place = self._take_row()
                self._items[place], self._scopes[place] = items[at], scopes[at]
                self._rows_of.setdefault(items[at], []).append(place)
                places.append(place)
                kept.append(row)
        self._rows[places] = rows[kept]
        return sorted(damaged)

    def remove(self, item: int) -> None:
        for place in self._rows_of.pop(item, ()):
            self._items[place] = self._scopes[place] = 0
            self._rows[place] = 0
            self._free.append(place)

    def similarities(
        self, query: NDArray[np.float32], scopes: Collection[int] | None, wanted: Collection[int], limit: int
    ) -> Similarities[int] | None:
        """Compare with every item of these namespaces (None: all); None if there is no item.

        Returns the `limit` most similar items and the `wanted` ones. An item is as similar as its closest passage.
        """
        import numpy as np

        items = self._items[: self._used]
        if scopes is None and not self._free:
            places, compared = None, self._rows[: self._used] @ query
        else:
            inside = items > 0 if scopes is None else np.isin(self._scopes[: self._used], list(scopes))
            places = np.flatnonzero(inside)
            # Copying the rows of a large part costs more than comparing all of them.
            every = 2 * len(places) > self._used
            compared = (self._rows[: self._used] @ query)[places] if every else self._rows[places] @ query
        if not len(compared):
            return None
        count = min(limit, len(compared))
        top = np.argpartition(-compared, count - 1)[:count] if count < len(compared) else np.arange(count)
        found: dict[int, float] = {}
        for at, cosine in zip(top.tolist(), compared[top].tolist(), strict=True):
            item = int(items[at if places is None else places[at]])
            found[item] = max(cosine, found.get(item, -1.0))
        others = [(item, row) for item in wanted if item not in found for row in self._rows_of.get(item, ())]
        cosines = self._rows[[row for _, row in others]] @ query if others else ()
        for (item, _), cosine in zip(others, cosines, strict=True):
            found[item] = max(float(cosine), found.get(item, -1.0))
        return Similarities(found, float(compared.min()), float(compared.max()))

    def _take_row(self) -> int:
        import numpy as np

        if self._free:
            return self._free.pop()
        if self._used == len(self._items):
            more = max(_FIRST_ROWS, self._used // 2)
            self._rows = np.concatenate([self._rows, np.zeros((more, self.dimension), np.float32)])
            self._items = np.concatenate([self._items, np.zeros(more, np.int64)])
            self._scopes = np.concatenate([self._scopes, np.zeros(more, np.int64)])
        self._used += 1
        return self._used - 1


def batches(items: Mapping[int, Sequence[str]], size: int) -> Iterator[list[tuple[int, str]]]:
    """Group the passages of items into batches of about `size`; the passages of an item stay together."""
    batch: list[tuple[int, str]] = []
    for item, parts in items.items():
        batch += [(item, part) for part in parts]
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch
