"""Differences between two snapshots of a page, by lines."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final

from msgspec import Struct

MAX_COMPARED: Final = 1500
"""Lines on one side that are compared one by one; a larger changed region counts as replaced."""
_REMOVED_SHOWN: Final = 3


class Hunk(Struct, frozen=True):
    """Lines `at` to `at + len(removed) - 1` of the old snapshot (counted from 1) become `added`."""

    at: int
    removed: tuple[str, ...]
    added: tuple[str, ...]


def compare(old: Sequence[str], new: Sequence[str]) -> list[Hunk]:
    """Return how the old lines become the new ones."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    if not before and not after:
        return []
    if max(len(before), len(after)) > MAX_COMPARED:
        return [Hunk(start + 1, tuple(before), tuple(after))]
    return [
        Hunk(start + first + 1, tuple(before[first:last]), tuple(after[begin:until]))
        for kind, first, last, begin, until in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if kind != "equal"
    ]


def apply(old: Sequence[str], hunks: Sequence[Hunk]) -> list[str]:
    """Return the new lines."""
    lines: list[str] = []
    place = 0
    for hunk in hunks:
        lines += [*old[place : hunk.at - 1], *hunk.added]
        place = hunk.at - 1 + len(hunk.removed)
    return [*lines, *old[place:]]


def render_changes(hunks: Sequence[Hunk]) -> list[str]:
    """Return lines such as `@12`, `-e3 button "Add"` and `+e4 button "Added"`; long removals only as a number."""
    lines: list[str] = []
    for hunk in hunks:
        lines.append(f"@{hunk.at}")
        if len(hunk.removed) > _REMOVED_SHOWN:
            lines.append(f"-({len(hunk.removed)} lines)")
        else:
            lines += [f"-{line}" for line in hunk.removed]
        lines += [f"+{line}" for line in hunk.added]
    return lines
