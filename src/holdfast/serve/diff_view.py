"""Unified diffs as HTML, unified and side by side from the same markup.

The lines of a change are one block. The style sheet shows the block as a list, or as a grid with the removed lines in
the left column and the added ones in the right. A context line has a second copy, shown only side by side. Line numbers
are attributes that the style sheet displays, so that copied text is the diff.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from markupsafe import Markup

from holdfast.serve.text_view import escapes_html, visible_line
from holdfast.text.diff_lines import DiffLine, DiffLineKind, diff_lines
from holdfast.text.quote import EscapeLine
from holdfast.text.word_diff import Range, WordDiff

FOLDED_RUN: Final = 12
"""Equal lines in a row from which the middle can be folded."""
_AROUND: Final = 3
"""Equal lines that stay beside a change."""
_CHANGED: Final = frozenset[DiffLineKind](("removed", "added"))
_CLASSES: Final[dict[DiffLineKind, str]] = {
    "file": "file", "hunk": "hunk", "hidden": "hidden", "other": "other", "no-newline": "eof",
}  # fmt: skip
_SWITCH: Final = '<label class="split-switch"><input type="checkbox"> Side by side</label>'


def diff_html(text: str, *, show: EscapeLine | None = None) -> Markup:
    """Return a diff as HTML. Every line is shown, also of a text that is no diff; `show` escapes a line if given."""
    blocks = _Blocks(show)
    rows = "".join(blocks.html(list(diff_lines(text))))
    switch = _SWITCH if blocks.has_changes else ""
    return Markup(f'<div class="diff" dir="ltr" translate="no">{switch}<div class="rows">{rows}</div></div>')  # noqa: S704 - every line is escaped


def _block_of(line: DiffLine) -> str:
    return "changed" if line.kind in _CHANGED else line.kind


class _Blocks:
    """Turns the lines of one diff into blocks of rows."""

    def __init__(self, show: EscapeLine | None) -> None:
        self._show = show
        self._words = WordDiff()
        self.has_changes = False

    def html(self, lines: Sequence[DiffLine]) -> Iterator[str]:
        at = 0
        for kind, group in groupby(_with_sides(lines), key=lambda item: item[0]):
            count = sum(1 for _ in group)
            block = lines[at : at + count]
            at += count
            if kind == "changed":
                self.has_changes = True
                yield f'<div class="b">{"".join(self._changed(block))}</div>'
            elif kind == "same":
                yield from self._same(block)
            else:
                yield from (self._row(_CLASSES[line.kind], line, "span") for line in block)

    def _same(self, block: Sequence[DiffLine]) -> Iterator[str]:
        rows = [self._context(line) for line in block]
        if len(rows) < FOLDED_RUN:
            yield f'<div class="b">{"".join(rows)}</div>'
            return
        inner = rows[_AROUND:-_AROUND]
        yield f'<div class="b">{"".join(rows[:_AROUND])}</div>'
        yield f'<details class="same" data-fold="same" open><summary>{len(inner):,} equal lines</summary>'
        yield f'<div class="b">{"".join(inner)}</div></details>'
        yield f'<div class="b">{"".join(rows[-_AROUND:])}</div>'

    def _context(self, line: DiffLine) -> str:
        shown = escapes_html(visible_line(line.text, self._show))
        if line.kind == "no-newline":
            return (
                f'<div class="r eof o"><span>{shown}\n</span></div>'
                f'<div class="r eof n copy" aria-hidden="true"><span>{shown}\n</span></div>'
            )
        old, new = _number("o", line.old), _number("n", line.new)
        return (
            f'<div class="r c o"{old}{new}><span>{shown}\n</span></div>'
            f'<div class="r c n copy"{new} aria-hidden="true"><span>{shown}\n</span></div>'
        )

    def _changed(self, block: Sequence[DiffLine]) -> Iterator[str]:
        shown = [visible_line(line.text, self._show) for line in block]
        removed = [index for index, line in enumerate(block) if line.kind == "removed"]
        added = [index for index, line in enumerate(block) if line.kind == "added"]
        marks: dict[int, list[Range]] = {}
        for old, new in zip(removed, added, strict=False):
            found = self._words.changed(shown[old][1:], shown[new][1:])
            if found is not None:
                marks[old], marks[new] = found
        side = "o"
        for index, line in enumerate(block):
            if line.kind == "removed":
                side = "o"
                body = _marked(shown[index], marks.get(index))
                yield f'<div class="r d o"{_number("o", line.old)}><del>{body}\n</del></div>'
            elif line.kind == "added":
                side = "n"
                body = _with_trailing_space(shown[index], marks.get(index))
                yield f'<div class="r a n"{_number("n", line.new)}><ins>{body}\n</ins></div>'
            else:
                yield f'<div class="r eof {side}"><span>{escapes_html(shown[index])}\n</span></div>'

    def _row(self, name: str, line: DiffLine, element: str) -> str:
        shown = escapes_html(visible_line(line.text, self._show))
        return f'<div class="r {name}"><{element}>{shown}\n</{element}></div>'


def _with_sides(lines: Sequence[DiffLine]) -> Iterator[tuple[str, DiffLine]]:
    """Yield each line with the kind of its block. The note that a line has no newline belongs to the line before it."""
    block = ""
    for line in lines:
        if line.kind != "no-newline" or block not in ("changed", "same"):
            block = _block_of(line)
        yield block, line


def _number(side: str, number: int) -> str:
    return f' data-{side}="{number}"' if number else ""


def _marked(shown: str, ranges: list[Range] | None) -> str:
    """Return the line, sign included, with marks on the ranges of the text after the sign."""
    if not ranges:
        return escapes_html(shown)
    parts: list[str] = []
    at = 0
    for low, high in ranges:
        if low + 1 >= len(shown):
            break  # in the white space at the end, which has its own mark
        parts.append(escapes_html(shown[at : low + 1]))
        parts.append(f'<mark class="w">{escapes_html(shown[low + 1 : high + 1])}</mark>')
        at = high + 1
    parts.append(escapes_html(shown[at:]))
    return "".join(parts)


def _with_trailing_space(shown: str, ranges: list[Range] | None) -> str:
    """Return an added line with white space at its end marked."""
    body = shown[0] + shown[1:].rstrip(" \t")
    if len(body) == len(shown):
        return _marked(shown, ranges)
    return f'{_marked(body, ranges)}<span class="ws">{escapes_html(shown[len(body) :])}</span>'
