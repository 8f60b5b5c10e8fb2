"""Text of others behind a gutter, so that no line of it can be taken for a line of holdfast's own.

Every line begins with `│ `; one that does not fit goes on below, behind `│↳`. No line of ours begins so, and wherever
such text is shown it is wrapped here and not by the terminal, which would begin the next line without a gutter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from holdfast.text.escape import char_width, escape, text_width

GUTTER: Final = "│ "
CONTINUATION: Final = "│↳"
_MARGIN: Final = max(text_width(GUTTER), text_width(CONTINUATION))
_MIN_COLUMNS: Final = 4
"""Columns of text in a line, however narrow the screen is."""
_INDENT: Final = re.compile("[-+ ]? {9,24}(?! )")
"""Spaces that begin a line, or follow the sign of a line of a diff; deeper ones are counted like other runs."""
_TOKEN: Final = re.compile("‹[^‹›]*›|.", re.DOTALL)
"""An escape stays in one piece."""

EscapeLine = Callable[[str], str]
_T = TypeVar("_T")


class Row(NamedTuple):
    """One line on the screen."""

    line: int
    """The line of the text it belongs to."""
    gutter: str
    text: str


def quote_rows(text: str, columns: int, show: EscapeLine | None = None) -> Iterator[Row]:
    """All of the text, made visible by `show` line by line and wrapped so that no row is wider than `columns`."""
    room = max(_MIN_COLUMNS, columns - _MARGIN)
    for number, line in enumerate(text.split("\n")):
        gutter = GUTTER
        for piece in wrap_line(escape_line(line, show), room):
            yield Row(number, gutter, piece)
            gutter = CONTINUATION


def escape_line(line: str, show: EscapeLine | None = None) -> str:
    """One line of a text of several: as `visible` shows it, or `show`, with its indentation."""
    indent = _INDENT.match(line)
    kept = "" if indent is None else indent[0]
    rest = line[len(kept) :]
    return kept + (escape(rest, newline="\n") if show is None else show(rest))


def quote_lines(text: str, columns: int, show: EscapeLine | None = None) -> list[str]:
    return [row.gutter + row.text for row in quote_rows(text, columns, show)]


def split_ends(rows: list[_T], limit: int | None) -> tuple[list[_T], int, list[_T]]:
    """The beginning, how many rows are hidden, and the end; only the number of rows decides what is hidden."""
    if limit is None or len(rows) <= limit:
        return rows, 0, []
    tail = max(1, limit // 4)
    return rows[: limit - tail], len(rows) - limit, rows[-tail:]


def wrap_line(line: str, room: int) -> Iterator[str]:
    """The pieces of a line, after a space where there is one in the second half. Put together they are the line."""
    units = line if line.isascii() else list(_units(line, room))
    start = used = 0
    for at, unit in enumerate(units):
        width = 1 if len(unit) == 1 and unit.isascii() else text_width(unit)
        while used + width > room and at > start:
            end = _break(units, start, at, room // 2)
            yield "".join(units[start:end])
            used = sum(text_width(kept) for kept in units[end:at])
            start = end
        used += width
    yield "".join(units[start:])


def _units(line: str, room: int) -> Iterator[str]:
    """What is never parted: an escape that fits, a character with the marks drawn onto it."""
    held = ""
    for token in _TOKEN.findall(line):
        if held and len(token) == 1 and char_width(token) == 0:
            held += token
            continue
        if held:
            yield held
        held = token
        if text_width(token) > room:
            yield from token[:-1]
            held = token[-1]
    if held:
        yield held


def _break(units: str | list[str], start: int, end: int, spare: int) -> int:
    """After the last space, unless that leaves more than `spare` columns empty."""
    for at in range(end, start, -1):
        if units[at - 1] == " ":
            return at
        spare -= text_width(units[at - 1])
        if spare < 0:
            break
    return end
