"""The name somebody probably meant."""

from __future__ import annotations

from collections.abc import Iterable
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
        if edits is not None and (best is None or (edits, name) < best):
            best, limit = (edits, name), edits
    return best[1] if best else None


def _edits(left: str, right: str, limit: int) -> int | None:
    """The Levenshtein distance, or None as soon as it is known to be over the limit."""
    left, right = _without_common_ends(left, right)
    if min(len(left), len(right)) == 0:
        return len(left) + len(right)
    over = limit + 1
    row = [min(column, over) for column in range(len(right) + 1)]
    for line, letter in enumerate(left, 1):
        start, stop = max(1, line - limit), min(len(right), line + limit)
        above = row[start - 1]
        row[start - 1] = line if start == 1 else over
        for column in range(start, stop + 1):
            cost = above if letter == right[column - 1] else 1 + min(above, row[column - 1], row[column])
            above, row[column] = row[column], min(cost, over)
        if min(row[start - 1 : stop + 1]) > limit:
            return None
    return row[-1] if row[-1] <= limit else None


def _without_common_ends(left: str, right: str) -> tuple[str, str]:
    shorter = min(len(left), len(right))
    start = 0
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    return left[start : len(left) - end], right[start : len(right) - end]
