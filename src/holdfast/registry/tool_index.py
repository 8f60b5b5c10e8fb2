"""Full-text search over tools, ranked by BM25."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from math import log
from operator import attrgetter
from typing import Any, Final, cast

from holdfast.contract.tool import Tool
from holdfast.contract.tool_finder import schema_properties

K1: Final = 1.2
B: Final = 0.75
NAME_WEIGHT: Final = 3
MAX_TEXT: Final = 2000
"""Characters of a description or a query that are indexed, so that a long one does not slow down the search."""
MAX_PARAMETERS: Final = 32
MAX_PARAMETER: Final = 200
"""Characters of a parameter's name and description that are indexed."""
MAX_WORDS: Final = 64
"""Words of a query that are searched."""

_CHUNK: Final = re.compile(r"[^\W_]+")
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STOP_WORDS: Final = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does", "for", "from", "has", "have",
    "if", "in", "into", "is", "it", "its", "not", "of", "on", "or", "so", "such", "than", "that", "the", "their",
    "them", "then", "there", "these", "this", "those", "to", "was", "were", "when", "where", "which", "will", "with",
    "you", "your",
})  # fmt: skip


class ToolIndex:
    """An immutable BM25 index over the names, descriptions and parameters of tools."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Final = tuple(sorted(tools, key=attrgetter("name")))
        self._named: dict[str, list[int]] = defaultdict(list)
        """Positions in `tools` by case-folded name."""
        self._counts: dict[str, dict[int, int]] = defaultdict(dict)
        """By word: position of a tool to the number of occurrences."""
        lengths: list[int] = []
        split: dict[str, tuple[str, ...]] = {}
        for place, tool in enumerate(self.tools):
            for name in {name.casefold() for name in (*tool.names, tool.api_name)}:
                self._named[name].append(place)
            chunks = _CHUNK.findall(" ".join(tool.names)) * NAME_WEIGHT + _CHUNK.findall(_text(tool))
            lengths.append(len(chunks))
            for chunk, count in Counter(chunks).items():
                if chunk not in split:
                    split[chunk] = _words_of(chunk)
                for word in split[chunk]:
                    counts = self._counts[word]
                    counts[place] = counts.get(place, 0) + count
        average = sum(lengths) / max(len(lengths), 1) or 1.0
        self._norms = [K1 * (1 - B + B * length / average) for length in lengths]

    def mask(self, tools: Iterable[Tool]) -> bytes:
        """Return a mask that restricts `search` to these tools."""
        wanted = set(tools)
        return bytes(tool in wanted for tool in self.tools)

    def search(self, query: str, limit: int, mask: bytes | None = None) -> list[Tool]:
        """Return the best matches: the exact name, the name in another case, then by score and name."""
        query = query[:MAX_TEXT]
        name = query.strip()
        mask = mask or b"\1" * len(self.tools)
        named = [self.tools[place] for place in self._named.get(name.casefold(), ()) if mask[place]]
        named.sort(key=lambda tool: name not in (*tool.names, tool.api_name))
        ranked = nsmallest(limit, ((-score, place) for place, score in self._scores(query).items() if mask[place]))
        return list(dict.fromkeys((*named, *(self.tools[place] for _, place in ranked))))[:limit]

    def _scores(self, query: str) -> dict[int, float]:
        """Return the BM25 score by position, for tools that contain any of the words."""
        words = islice(dict.fromkeys(word for chunk in _CHUNK.findall(query) for word in _words_of(chunk)), MAX_WORDS)
        scores: dict[int, float] = defaultdict(float)
        for counts in sorted((self._counts[word] for word in words if word in self._counts), key=len):
            gain = (K1 + 1) * log(1 + (len(self.tools) - len(counts) + 0.5) / (len(counts) + 0.5))
            for place, count in counts.items():
                scores[place] += gain * count / (count + self._norms[place])
        return scores


def _words_of(chunk: str) -> tuple[str, ...]:
    """Split camel case into normalised words: `createIssues` gives create, issue and createissue."""
    if chunk.isdigit() or (chunk.isalpha() and chunk.islower()) or not chunk.isascii():
        pieces = [chunk]
    elif len(pieces := _PIECE.findall(chunk)) > 1:
        pieces.append(chunk)
    return tuple(word for piece in pieces if (word := _singular(piece.casefold())) not in _STOP_WORDS)


def _singular(word: str) -> str:
    if len(word) < 4 or word[-1] != "s" or word[-2] in "sui":
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]


def _text(tool: Tool) -> str:
    texts = [tool.description[:MAX_TEXT]]
    for name, schema in islice(schema_properties(tool).items(), MAX_PARAMETERS):
        description = cast(dict[str, Any], schema).get("description") if isinstance(schema, dict) else None
        texts.append((f"{name} {description}" if isinstance(description, str) else name)[:MAX_PARAMETER])
    return " ".join(texts)
