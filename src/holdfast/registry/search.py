"""Search over many tools: an index of their names, descriptions and parameters, ranked by BM25."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, islice, repeat
from math import log
from operator import attrgetter
from typing import Any, Final, cast

from holdfast.contract.finding import parameters_of
from holdfast.contract.tool import Tool

K1: Final = 1.2
B: Final = 0.75
NAME_WEIGHT: Final = 3
MAX_TEXT: Final = 2000
"""Characters of a description or a query that count: whoever writes more does not slow the others down."""
MAX_PARAMETERS: Final = 32
MAX_PARAMETER: Final = 200
"""Characters of a parameter's name and description that count."""
MAX_WORDS: Final = 64
"""Words of a query that count."""
_MOST_WORDS: Final = 4
"""A query adds up as much as this many words take that every tool has, the rarest words first."""
_LEAST: Final = 40_000
"""Entries that are added up in any case."""
_RANKED_AGAIN: Final = 256
"""Tools for which the other words, which say little about any, are looked up after that."""

_CHUNK: Final = re.compile(r"[^\W_]+")
_BLANKS: Final = bytes(code if chr(code).isalnum() or code == 10 else 32 for code in range(256))
"""What `_CHUNK` does, several times as fast; for ASCII. Lines stay lines."""
_FEW: Final = 256
_BATCH: Final = 500
"""Tools whose texts are taken apart together."""
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
        self._named: dict[str, tuple[int, ...]] = {}
        """By spelling, blind to case."""
        for place, tool in enumerate(self.tools):
            for name in {*tool.names, tool.api_name}:
                folded = name.casefold()
                self._named[folded] = (*self._named.get(folded, ()), place)
        self._words: Final = _Words(self.tools)

    def mask(self, tools: Iterable[Tool]) -> bytes:
        """Which of the indexed tools are these, for `search`."""
        wanted = set(tools)
        return bytes(tool in wanted for tool in self.tools)

    def search(self, query: str, limit: int, mask: bytes | None = None) -> list[Tool]:
        """The tools that fit best: of exactly that name, of that name in another case, then by score, then by name."""
        query = query[:MAX_TEXT]
        mask = mask or b"\1" * len(self.tools)
        named = self._of_that_name(query.strip(), mask)
        scores, others = self._scores(query)
        places = [place for place, score in enumerate(scores) if score and mask[place]]
        if others:
            places = _highest(places, scores, max(limit, _RANKED_AGAIN))
            for word in others:
                word.add_to(scores, places)
        places = [*named, *(place for place in _highest(places, scores, limit) if place not in named)]
        return [self.tools[place] for place in places[:limit]]

    def _of_that_name(self, name: str, mask: bytes) -> list[int]:
        places = [place for place in self._named.get(name.casefold(), ()) if mask[place]]
        return sorted(places, key=lambda place: name not in (*self.tools[place].names, self.tools[place].api_name))

    def _scores(self, query: str) -> tuple[list[float], list[_Word]]:
        """By place, and the words that are not in it yet."""
        words = islice(dict.fromkeys(word for chunk in _split(query) for word in _words_of(chunk)), MAX_WORDS)
        known = [found for word in words if (found := self._words.find(word)) is not None]
        known.sort(key=lambda word: len(word.places))
        scores = [0.0] * len(self.tools)
        left = max(_LEAST, _MOST_WORDS * len(self.tools))
        for number, word in enumerate(known):
            left -= len(word.places)
            if left < 0 and number:
                return scores, known[number:]
            for place, weight in zip(word.places, word.weights, strict=True):
                scores[place] += weight
        return scores, []


class _Word:
    """The places of the tools that have it, in their order, and how much it counts for each."""

    __slots__ = ("places", "weights")

    def __init__(self, noted: Sequence[array[int]], norms: Sequence[float]) -> None:
        """`noted`: the places, once for each time it counts; those of each spelling in their order."""
        counts: Mapping[int, int] = Counter(noted[0] if len(noted) == 1 else chain.from_iterable(noted))
        if len(noted) > 1:
            counts = dict(sorted(counts.items()))
        having = len(counts)
        gain = (K1 + 1) * log(1 + (len(norms) - having + 0.5) / (having + 0.5))
        self.places = array("I", counts)
        self.weights = array("d", [gain * count / (count + norms[place]) for place, count in counts.items()])

    def add_to(self, scores: list[float], among: Iterable[int]) -> None:
        for place in among:
            at = bisect_left(self.places, place)
            if at < len(self.places) and self.places[at] == place:
                scores[place] += self.weights[at]


class _Words:
    """All words of some tools. What is in few of them is weighed when it is asked for: there are very many of those."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        chunks: dict[str, array[int]] = defaultdict(lambda: array("I"))
        lengths: list[int] = []
        for place, said in enumerate(_said(tools)):
            lengths.append(len(said))
            deque(map(_append, map(chunks.__getitem__, said), repeat(place)), maxlen=0)
        average = sum(lengths) / len(lengths) if lengths else 0.0
        self._norms = [K1 * (1 - B + B * length / average) if average else K1 for length in lengths]
        self._noted: dict[str, list[array[int]]] = defaultdict(list)
        for chunk, places in chunks.items():
            for word in _words_of(chunk):
                self._noted[word].append(places)
        often = {word: noted for word, noted in self._noted.items() if sum(map(len, noted)) > _FEW}
        self._often = {word: _Word(noted, self._norms) for word, noted in often.items()}

    def find(self, word: str) -> _Word | None:
        found = self._often.get(word)
        if found is None and (noted := self._noted.get(word)) is not None:
            return _Word(noted, self._norms)
        return found


def _said(tools: Sequence[Tool]) -> Iterator[list[str]]:
    """What each is described by, in pieces. One long text is taken apart far faster than many short ones."""
    for start in range(0, len(tools), _BATCH):
        batch = tools[start : start + _BATCH]
        texts = [_text(tool) for tool in batch]
        names = _lines([" ".join(tool.names) for tool in batch])
        lines = _lines([text if text.isascii() else "" for text in texts])
        for name, text, line in zip(names, texts, lines, strict=True):
            yield name.split() * NAME_WEIGHT + (line.split() if text.isascii() else _CHUNK.findall(text))


def _lines(texts: list[str]) -> list[str]:
    return "\n".join(texts).encode().translate(_BLANKS).decode().split("\n")


def _highest(places: list[int], scores: list[float], limit: int) -> list[int]:
    """The best of them, in their order; equal ones come by name, as places do."""
    if len(places) > limit:
        least = nlargest(limit, map(scores.__getitem__, places))[-1]
        places = [place for place in places if scores[place] >= least]
    return sorted(places, key=lambda place: (-scores[place], place))[:limit]


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
    """On one line."""
    texts = [tool.description[:MAX_TEXT]]
    for name, schema in islice(parameters_of(tool).items(), MAX_PARAMETERS):
        said = cast(dict[str, Any], schema).get("description") if isinstance(schema, dict) else None
        texts.append((f"{name} {said}" if isinstance(said, str) else name)[:MAX_PARAMETER])
    return " ".join(texts).replace("\n", " ")
