"""Search over many tools: an index of their names, descriptions and parameters, ranked by BM25."""

from __future__ import annotations

import re
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from itertools import chain, islice, repeat
from math import log
from operator import attrgetter
from typing import Any, Final, cast

from holdfast.contract.tool import Tool

K1: Final = 1.2
B: Final = 0.75
NAME_WEIGHT: Final = 3
MAX_TEXT: Final = 2000
"""Characters of a description or a query that count: whoever writes more does not slow the others down."""
MAX_PARAMETERS: Final = 32
MAX_PARAMETER: Final = 200
"""Characters of a parameter's name and description that count."""
_MAX_POSTINGS: Final = 20_000
"""What one query looks at, the rarest words first: a word that nearly every tool has says little about any."""

_CHUNK: Final = re.compile(r"[^\W_]+")
_BLANKS: Final = bytes(code if chr(code).isalnum() else 32 for code in range(256))
"""What `_CHUNK` does, several times as fast; for ASCII."""
_PIECE: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SILENT: Final = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "do", "does", "for", "from", "has", "have",
    "if", "in", "into", "is", "it", "its", "not", "of", "on", "or", "so", "such", "than", "that", "the", "their",
    "them", "then", "there", "these", "this", "those", "to", "was", "were", "when", "where", "which", "will", "with",
    "you", "your",
})  # fmt: skip
_append = cast("Callable[[array[int], int], None]", array.append)  # pyright: ignore[reportUnknownMemberType]


class ToolIndex:
    """Made once for a set of tools; searching changes nothing in it."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: Final = tuple(sorted(tools, key=attrgetter("name")))
        self._named: dict[str, int] = {}
        self._places = _Places()
        lengths = array("I")
        chunks = _Chunks(self._places)
        for place, tool in enumerate(self.tools):
            for name in (*tool.names, tool.api_name):
                self._named[name.casefold()] = place
            lengths.append(chunks.add(place, [*_split(" ".join(tool.names)) * NAME_WEIGHT, *_split(_text(tool))]))
        average = sum(lengths) / len(lengths) if lengths else 0.0
        self._norms = array("d", [K1 * (1 - B + B * length / average) if average else K1 for length in lengths])

    def mask(self, tools: Iterable[Tool]) -> bytes:
        """Which of the indexed tools are these, for `search`."""
        wanted = set(tools)
        return bytes(tool in wanted for tool in self.tools)

    def search(self, query: str, limit: int, mask: bytes | None = None) -> list[Tool]:
        """The tools that fit best: one of exactly that name, then by score, then by name."""
        query = query[:MAX_TEXT]
        mask = mask or b"\1" * len(self.tools)
        named = self._named.get(query.strip().casefold())
        scores = self._scores(query)
        places = [place for place, score in enumerate(scores) if score and mask[place]]
        if len(places) > limit:
            least = nlargest(limit, map(scores.__getitem__, places))[-1]
            places = [place for place in places if scores[place] >= least]
        places.sort(key=lambda place: (-scores[place], place))
        if named is not None and mask[named]:
            places = [named, *(place for place in places if place != named)]
        return [self.tools[place] for place in places[:limit]]

    def _scores(self, query: str) -> list[float]:
        scores, norms, total = [0.0] * len(self.tools), self._norms, len(self.tools)
        words = dict.fromkeys(word for chunk in _split(query) for word in _words_of(chunk))
        known = [found for word in words if (found := self._places.get(word))]
        known.sort(key=len)
        seen = 0
        for places in known:
            seen += len(places)
            if seen > _MAX_POSTINGS and places is not known[0]:
                break
            counts = Counter(places)
            gain = (K1 + 1) * log(1 + (total - len(counts) + 0.5) / (len(counts) + 0.5))
            for place, count in counts.items():
                scores[place] += gain * count / (count + norms[place])
        return scores


class _Places(dict[str, "array[int]"]):
    """By word: the places of the tools that have it, once for each time it counts."""

    def __missing__(self, word: str) -> array[int]:
        made = self[word] = array("I")
        return made


class _Chunks(dict[str, "tuple[array[int], ...]"]):
    """By what stands between blanks: where its words are noted. The same few come again and again."""

    def __init__(self, places: _Places) -> None:
        super().__init__()
        self._places = places

    def __missing__(self, chunk: str) -> tuple[array[int], ...]:
        made = self[chunk] = tuple(self._places[word] for word in _words_of(chunk))
        return made

    def add(self, place: int, chunks: Iterable[str]) -> int:
        """Note all their words for the tool at that place; how many there were."""
        found = list(chain.from_iterable(map(self.__getitem__, chunks)))
        deque(map(_append, found, repeat(place)), maxlen=0)
        return len(found)


def _split(text: str) -> list[str]:
    return text.encode().translate(_BLANKS).decode().split() if text.isascii() else _CHUNK.findall(text)


def _words_of(chunk: str) -> tuple[str, ...]:
    """`createIssues` is create, issue and createissue: what is written in one may be asked for in two."""
    if chunk.isdigit() or (chunk.isalpha() and chunk.islower()) or not chunk.isascii():
        pieces = [chunk]
    elif len(pieces := _PIECE.findall(chunk)) > 1:
        pieces.append(chunk)
    return tuple(word for piece in pieces if (word := _singular(piece.casefold())) not in _SILENT)


def _singular(word: str) -> str:
    if len(word) < 4 or word[-1] != "s" or word[-2] in "sui":
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes", "ches", "shes")) else word[:-1]


def _text(tool: Tool) -> str:
    texts = [tool.description[:MAX_TEXT]]
    for name, schema in islice(parameters_of(tool).items(), MAX_PARAMETERS):
        said = cast(dict[str, Any], schema).get("description") if isinstance(schema, dict) else None
        texts.append((f"{name} {said}" if isinstance(said, str) else name)[:MAX_PARAMETER])
    return " ".join(texts)


def parameters_of(tool: Tool) -> Mapping[str, Any]:
    """The parameters at the top of a tool's schema."""
    properties = tool.input_schema.get("properties")
    return cast(dict[str, Any], properties) if isinstance(properties, dict) else {}
