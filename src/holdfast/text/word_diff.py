"""Finds the changed words of a changed line, in bounded time for any input."""

from __future__ import annotations

import re
from collections import Counter
from difflib import SequenceMatcher
from typing import Final, NamedTuple

MAX_CHARS: Final = 600
"""The words of longer lines are not compared."""
_PAIR_STEPS: Final = 10_000
_ALL_STEPS: Final = 60_000
"""Step limits for one pair of lines and for one diff, which take some milliseconds."""
_MIN_EQUAL: Final = 0.3
"""Lines that share less have no changed words: they are different lines."""
_TOKEN: Final = re.compile(r"‹[^‹›]*›|\w+(?:[^\w\s\x00-\x7f‹›]\w*)*|\s+|[^\w\s]")
"""An escape, a word with its combining marks, white space, or a sign."""

Range = tuple[int, int]


class ChangedWords(NamedTuple):
    """The ranges of characters that differ."""

    old: list[Range]
    new: list[Range]


class WordDiff:
    """Compares pairs of lines, within one limit for all of them."""

    def __init__(self, steps: int = _ALL_STEPS) -> None:
        self.left = steps
        """Steps that may still be spent."""

    def changed(self, old: str, new: str) -> ChangedWords | None:
        """Return the changed words, or None if the lines are too long, too different or too expensive to compare."""
        if self.left <= 0 or len(old) > MAX_CHARS or len(new) > MAX_CHARS or old == new:
            return None
        a: list[str] = _TOKEN.findall(old)
        b: list[str] = _TOKEN.findall(new)
        self.left -= len(a) + len(b)
        start, most = 0, min(len(a), len(b))
        while start < most and a[start] == b[start]:
            start += 1
        end = 0
        while end < most - start and a[-1 - end] == b[-1 - end]:
            end += 1
        blocks = self._blocks(a[start : len(a) - end], b[start : len(b) - end])
        if blocks is None:
            return None
        spans = [(start + i1, start + i2, start + j1, start + j2) for i1, i2, j1, j2 in blocks]
        found = ChangedWords(
            _ranges(a, [(i1, i2) for i1, i2, _, _ in spans]), _ranges(b, [(j1, j2) for _, _, j1, j2 in spans])
        )
        equal = len(old) - sum([high - low for low, high in found.old])
        return found if equal >= _MIN_EQUAL * max(len(old), len(new)) else None

    def _blocks(self, a: list[str], b: list[str]) -> list[tuple[int, int, int, int]] | None:
        """The spans that differ: all of the rest if it shares no word."""
        in_b = Counter(b)
        pairs = sum([in_b[word] for word in a])
        if not pairs:
            return [(0, len(a), 0, len(b))]
        steps = pairs * min(len(a), len(b))
        if steps > min(_PAIR_STEPS, self.left):
            return None
        self.left -= steps
        codes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
        return [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in codes if tag != "equal"]


def _ranges(words: list[str], spans: list[tuple[int, int]]) -> list[Range]:
    """Convert spans of words to ranges of characters, joining those with only white space between them."""
    found: list[Range] = []
    at = done = 0
    for low, high in spans:
        at += sum(map(len, words[done:low]))
        length = sum(map(len, words[low:high]))
        between = "" if not found else "".join(words[done:low])
        if found and between and between.isspace() and length:
            found[-1] = (found[-1][0], at + length)
        elif length:
            found.append((at, at + length))
        at, done = at + length, high
    return found
