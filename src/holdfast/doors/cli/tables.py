"""Rows under headings: folded to the width of a terminal, one cell below the other on a narrow one, whole in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from holdfast.doors.cli.folding import quoted_field
from holdfast.doors.cli.screen import on_terminal, paint, say, screen_width, shown
from holdfast.text.quote import GUTTER, wrapped
from holdfast.text.visible import text_width

_GAP: Final = "  "
_INDENT: Final = "  "
_NARROW: Final = 70
"""Columns below which a table is not shown as one."""

Cells = Sequence[str]


def put_table(columns: Cells, rows: Sequence[Cells]) -> None:
    """The first column holds words of ours, an id or a name: text of others never begins a line."""
    cells = [[shown(cell) for cell in row] for row in rows]
    if on_terminal() and screen_width() < _NARROW:
        _put_stacked(columns, cells)
        return
    widths = [max(map(text_width, column)) for column in zip(columns, *cells, strict=True)]
    if not on_terminal():
        for row in (columns, *cells):
            say(_padded(row, widths))
        return
    widths = _fitted(widths, screen_width() - 1 - len(_INDENT) - len(_GAP) * (len(columns) - 1))
    for number, row in enumerate((columns, *cells)):
        for line, text in enumerate(_lines(row, widths)):
            say(f"{GUTTER if line and number else _INDENT}{text if number else paint(text, 'bold')}")


def _put_stacked(columns: Cells, rows: Sequence[Cells]) -> None:
    """Where columns would leave too little room for each."""
    width = max(map(text_width, columns[1:]))
    for row in rows:
        for line, text in enumerate(wrapped(row[0], screen_width() - len(GUTTER))):
            say(f"{GUTTER if line else ''}{paint(text, 'bold')}")
        for name, cell in zip(columns[1:], row[1:], strict=True):
            for text in quoted_field(name, cell, sys.stdout, width=width, show=shown) if cell else ():
                say(text)


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """What each column gets: what it needs, and of the widest ones as much as is there."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > 1:
        widest = max(fitted)
        others = max((width for width in fitted if width < widest), default=1)
        many = fitted.count(widest)
        less = max(others, widest - -(-(sum(fitted) - room) // many))
        fitted = [less if width == widest else width for width in fitted]
    return fitted


def _lines(row: Cells, widths: Sequence[int]) -> list[str]:
    pieces = [list(wrapped(cell, width)) for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, pieces))
    return [_padded([cell[at] if at < len(cell) else "" for cell in pieces], widths) for at in range(height)]


def _padded(cells: Cells, widths: Sequence[int]) -> str:
    padded = (cell + " " * (width - text_width(cell)) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()
