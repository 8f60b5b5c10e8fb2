"""Suggestions for misspelled names ("did you mean"), by edit distance."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

MAX_EDITS: Final = 3


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to `word`, ignoring case, or None.

    The distance is at most three edits and less than the length of the word. Ties go to the name that sorts first. Pass
    only names that the caller may see, including aliases.
    """
    wanted = word.casefold()
    limit = min(MAX_EDITS, len(wanted) - 1)
    letters = set(wanted)
    best: tuple[int, str] | None = None
    for name in known:
        folded = name.casefold()
        # Each missing letter is at least one edit: a cheap filter for most names.
        if name == word or abs(len(folded) - len(wanted)) > limit or len(letters.difference(folded)) > limit:
            continue
        edits = _edits(wanted, folded, limit)
        if edits <= limit and (best is None or (edits, name) < best):
            best, limit = (edits, name), edits
    return best[1] if best else None


def _edits(left: str, right: str, limit: int) -> int:
    """Return the Levenshtein distance, or any number above the limit if it exceeds the limit."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
    left, right = left[common:], right[common:]
    if not left or not right or not limit:
        return len(left) + len(right)
    ways = ((left[1:], right), (left, right[1:]), (left[1:], right[1:]))
    return 1 + min(_edits(*way, limit - 1) for way in ways)
