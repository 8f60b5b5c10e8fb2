"""Fusion of two rankings by normalised scores.

Ranks alone (reciprocal rank fusion) discard how much better a result is than the next. On short notes full of names,
that made the fused ranking worse than keywords alone; normalised scores are better than either (`bench/README.md`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Similarities(NamedTuple, Generic[K]):
    """Cosine similarities of the candidates, and the range of all items that were compared."""

    found: Mapping[K, float]
    lowest: float
    highest: float


class Fused(NamedTuple, Generic[K]):
    key: K
    score: float
    keyword: float
    meaning: float | None


def fuse(keywords: Mapping[K, float], meanings: Similarities[K] | None, weight: float) -> list[Fused[K]]:
    """Rank all candidates, best first: `weight` times the keyword score plus the rest for the meaning.

    A keyword score is divided by the best one; a similarity is placed between the lowest and the highest.
    """
    best = max(keywords.values(), default=0.0)
    shares = {key: score / best if best > 0 else 1.0 for key, score in keywords.items()}
    if meanings is None:
        ranked = [Fused(key, share, share, None) for key, share in shares.items()]
        return sorted(ranked, key=lambda each: -each.score)
    span = meanings.highest - meanings.lowest
    ranked = list[Fused[K]]()
    for key in dict.fromkeys((*shares, *meanings.found)):
        keyword, cosine = shares.get(key, 0.0), meanings.found.get(key)
        meaning = 0.0 if cosine is None else (cosine - meanings.lowest) / span if span > 0 else 1.0
        ranked.append(Fused(key, weight * keyword + (1 - weight) * meaning, keyword, meaning))
    return sorted(ranked, key=lambda each: -each.score)
