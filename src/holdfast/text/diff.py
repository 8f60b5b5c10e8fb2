"""Unified diffs with bounded time and size for any input (a patience diff with a step limit).

Common prefixes and suffixes are trimmed, lines that occur once on both sides split the rest into small regions, and
only those are compared line by line. A region that is too expensive is shown as replaced: longer, but correct.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import AnyStr, Final, NamedTuple

from holdfast.text.escape import clip_middle

MAX_DIFF_LINES: Final = 2000
MAX_DIFF_LINE_CHARS: Final = 1000
_REGION_STEPS: Final = 1_000_000
_ALL_STEPS: Final = 4_000_000
"""Step limits for one region and for one diff; four million steps take less than a second."""
_MAX_DEPTH: Final = 8
_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_NEEDS_QUOTES: Final = re.compile(r'[\x00-\x1f\x7f"\\]')


class Span(NamedTuple):
    """Lines `a1:a2` of the old side correspond to lines `b1:b2` of the new side."""

    a1: int
    a2: int
    b1: int
    b2: int


def unified_diff(
    before: str | None, after: str | None, path: str, context: int = 3, max_lines: int | None = MAX_DIFF_LINES
) -> str:
    """Return the diff from `before` to `after`, `""` if they are equal. None means that the file does not exist.

    A diff of more than `max_lines` lines has its middle replaced by a line in brackets with the number of hidden lines.
    With None the diff is complete and can be applied.
    """
    if before == after:
        return ""
    old, new = split_lines(before or ""), split_lines(after or "")
    spans = changed_spans(old, new)
    lines = list(_hunks(old, new, spans, max(0, context)))
    header = f"--- {_name(before, path)}\n+++ {_name(after, path)}\n"
    if max_lines is not None:
        lines = _bounded(lines, max(2, max_lines), spans)
    return header + "".join(lines)


def _name(content: str | None, path: str) -> str:
    if content is None:
        return "/dev/null"
    if not _NEEDS_QUOTES.search(path):
        return path
    return '"' + _NEEDS_QUOTES.sub(_quote, path) + '"'


def _quote(found: re.Match[str]) -> str:
    char = found[0]
    return f"\\{char}" if char in '"\\' else f"\\{ord(char):03o}"


def split_lines(text: str) -> list[str]:
    """Split into lines with their newlines."""
    return _LINE.findall(text)


def common_ends(old: AnyStr, new: AnyStr) -> tuple[int, int]:
    """Return the lengths of the common prefix and of the common suffix, which do not overlap."""
    most = min(len(old), len(new))
    start = _common_length(lambda low, high: old[low:high] == new[low:high], most)
    a, b = len(old), len(new)
    return start, _common_length(lambda low, high: old[a - high : a - low] == new[b - high : b - low], most - start)


def _common_length(agree: Callable[[int, int], bool], most: int) -> int:
    """Return the length of the common part, by binary search: slices compare at C speed."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if agree(least, middle):
            least = middle
        else:
            most = middle - 1
    return least


def changed_spans(old: list[str], new: list[str]) -> list[Span]:
    """Return the changed spans in order, in bounded time."""
    budget = [_ALL_STEPS]
    return list(_compare(old, new, Span(0, len(old), 0, len(new)), budget, 0))


def _compare(old: list[str], new: list[str], whole: Span, budget: list[int], depth: int) -> Iterator[Span]:
    span = _trimmed(old, new, whole)
    if span.a1 == span.a2 or span.b1 == span.b2:
        if span.a1 != span.a2 or span.b1 != span.b2:
            yield span
        return
    a, b = old[span.a1 : span.a2], new[span.b1 : span.b2]
    steps = _steps(a, b)
    if steps <= min(_REGION_STEPS, budget[0]):
        budget[0] -= steps
        yield from _line_by_line(a, b, span)
        return
    anchors = _anchors(a, b) if depth < _MAX_DEPTH else []
    if not anchors:
        yield span
        return
    a1, b1 = span.a1, span.b1
    for i, j in [*anchors, (len(a), len(b))]:
        yield from _compare(old, new, Span(a1, span.a1 + i, b1, span.b1 + j), budget, depth + 1)
        a1, b1 = span.a1 + i + 1, span.b1 + j + 1


def _trimmed(old: list[str], new: list[str], span: Span) -> Span:
    a1, a2, b1, b2 = span
    while a1 < a2 and b1 < b2 and old[a1] == new[b1]:
        a1, b1 = a1 + 1, b1 + 1
    while a1 < a2 and b1 < b2 and old[a2 - 1] == new[b2 - 1]:
        a2, b2 = a2 - 1, b2 - 1
    return Span(a1, a2, b1, b2)


def _steps(a: list[str], b: list[str]) -> int:
    """Return difflib's worst case: every pair of equal lines, once for each matching block."""
    in_b = Counter(b)
    return sum(in_b[line] for line in a) * min(len(a), len(b))


def _line_by_line(a: list[str], b: list[str], at: Span) -> Iterator[Span]:
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Span(at.a1 + i1, at.a1 + i2, at.b1 + j1, at.b1 + j2)


def _anchors(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    """Return the lines that occur once on each side, as their longest common subsequence."""
    once_a, once_b = Counter(a), Counter(b)
    place = {line: j for j, line in enumerate(b) if once_b[line] == 1}
    pairs = [(i, place[line]) for i, line in enumerate(a) if once_a[line] == 1 and line in place]
    ends: list[int] = []
    last: list[int] = []
    came_from: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        came_from.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [index]
    series: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        series.append(pairs[index])
        index = came_from[index]
    return series[::-1]


def _hunks(old: list[str], new: list[str], spans: list[Span], context: int) -> Iterator[str]:
    for group in grouped_spans(spans, context):
        a1, a2 = max(0, group[0].a1 - context), min(len(old), group[-1].a2 + context)
        b1, b2 = max(0, group[0].b1 - context), min(len(new), group[-1].b2 + context)
        yield f"@@ -{_range(a1, a2)} +{_range(b1, b2)} @@\n"
        at = a1
        for span in group:
            yield from _marked(" ", old[at : span.a1])
            yield from _marked("-", old[span.a1 : span.a2])
            yield from _marked("+", new[span.b1 : span.b2])
            at = span.a2
        yield from _marked(" ", old[at:a2])


def grouped_spans(spans: list[Span], context: int) -> Iterator[list[Span]]:
    """Group the spans whose context lines touch or overlap."""
    group: list[Span] = []
    for span in spans:
        if group and span.a1 - group[-1].a2 > 2 * context:
            yield group
            group = []
        group.append(span)
    if group:
        yield group


def _range(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def _bounded(lines: list[str], max_lines: int, spans: Sequence[Span]) -> list[str]:
    """Keep the beginning and the end. The note between them starts with `[`, which no diff line does."""
    hidden = len(lines) - max_lines
    if hidden > 0:
        tail = max_lines // 4
        added, removed = sum(span.b2 - span.b1 for span in spans), sum(span.a2 - span.a1 for span in spans)
        note = f"[{hidden:,} lines of the diff hidden; in all {added:,} added, {removed:,} removed]\n"
        lines = [*lines[: max_lines - tail], note, *(lines[-tail:] if tail else [])]
    return [line if len(line) <= MAX_DIFF_LINE_CHARS else _short(line) for line in lines]


def _short(line: str) -> str:
    body, newline, rest = line.partition("\n")
    return clip_middle(body, MAX_DIFF_LINE_CHARS) + newline + rest
