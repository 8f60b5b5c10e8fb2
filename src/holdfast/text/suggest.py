"""The name somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from typing import Final

MAX_EDITS: Final = 3


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known name closest to `word`, if a few edits lead to it; case does not count.

    A few is at most three and fewer than the word has letters. Of equally close names the first in order is taken.
    Give only the names the caller may see, aliases included.
    """
    wanted = word.casefold()
    limit = min(MAX_EDITS, len(wanted) - 1)
    letters = set(wanted)
    best: tuple[int, str] | None = None
    for name in known:
        folded = name.casefold()
        # Each letter the name lacks is at least one edit: a cheap way to pass over most names.
        if name == word or abs(len(folded) - len(wanted)) > limit or len(letters.difference(folded)) > limit:
            continue
        edits = _edits(wanted, folded, limit)
        if edits <= limit and (best is None or (edits, name) < best):
            best, limit = (edits, name), edits
    return best[1] if best else None


def _edits(left: str, right: str, limit: int) -> int:
    """The Levenshtein distance; where that is over the limit, some number that is over it too."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
    left, right = left[common:], right[common:]
    if not left or not right or not limit:
        return len(left) + len(right)
    ways = ((left[1:], right), (left, right[1:]), (left[1:], right[1:]))
    return 1 + min(_edits(*way, limit - 1) for way in ways)
