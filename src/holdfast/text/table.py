"""Aligned tables of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.text.escape import clip, escape, text_width

MAX_CELL: Final = 80
_GAP: Final = "  "


def render_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, max_cell: int = MAX_CELL) -> list[str]:
    """Return the lines of a table. Each cell is escaped and clipped, so that it stays on its line and in its column."""
    cells = [tuple(header), *(tuple(clip(escape(cell), max_cell) or "-" for cell in row) for row in rows)]
    widths = [max(text_width(row[at]) for row in cells) for at in range(len(header))]
    return [
        _GAP.join(f"{cell}{' ' * (width - text_width(cell))}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
