"""Quotes untrusted text behind a gutter, so that it cannot imitate holdfast's own lines (spoofing).

Every line begins with `│ `, and its continuation with `│↳`. No line of holdfast's own begins like that. Quoted text is
always wrapped here: the terminal would wrap it without a gutter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from holdfast.text.escape import char_width, escape, text_width

GUTTER: Final = "│ "
CONTINUATION: Final = "│↳"
TEXT_GUTTER: Final = "  | "
"""What stands before quoted lines in the result of a tool."""
_MARGIN: Final = max(text_width(GUTTER), text_width(CONTINUATION))
_MIN_COLUMNS: Final = 4
"""Minimum columns of text per line on a narrow terminal."""
_INDENT: Final = re.compile("[-+ ]? {9,24}(?! )")
"""Indentation at the start of a line or after a diff sign. Deeper indentation is escaped like any long run."""
_TOKEN: Final = re.compile("‹[^‹›]*›|.", re.DOTALL)
"""An escape sequence or a single character."""

EscapeLine = Callable[[str], str]
_T = TypeVar("_T")


class Row(NamedTuple):
    """One line on the terminal."""

    line: int
    """The index of the line in the text."""
    gutter: str
    text: str


def quote_rows(text: str, columns: int, show: EscapeLine | None = None) -> Iterator[Row]:
    """Yield the text escaped line by line (by `show` if given) and wrapped to `columns`."""
    room = max(_MIN_COLUMNS, columns - _MARGIN)
    for number, line in enumerate(text.split("\n")):
        gutter = GUTTER
        for piece in wrap_line(escape_line(line, show), room):
            yield Row(number, gutter, piece)
            gutter = CONTINUATION


def escape_line(line: str, show: EscapeLine | None = None) -> str:
    """Escape one line of a multi-line text (by `show` if given); its indentation stays."""
    indent = _INDENT.match(line)
    kept = "" if indent is None else indent[0]
    rest = line[len(kept) :]
    return kept + (escape(rest, newline="\n") if show is None else show(rest))


def quote_lines(text: str, columns: int, show: EscapeLine | None = None) -> list[str]:
    return [row.gutter + row.text for row in quote_rows(text, columns, show)]


def behind_gutter(text: str) -> str:
    """Return the text with every line behind `TEXT_GUTTER`, neither escaped nor wrapped: for results, which interfaces
    escape. What ends a line for any reader counts."""
    lines = text.replace("\r\n", "\n").splitlines() or [""]
    return "\n".join(f"{TEXT_GUTTER}{line}" for line in lines)


def split_ends(rows: list[_T], limit: int | None) -> tuple[list[_T], int, list[_T]]:
    """Return the first rows, the number of hidden rows, and the last rows."""
    if limit is None or len(rows) <= limit:
        return rows, 0, []
    tail = max(1, limit // 4)
    return rows[: limit - tail], len(rows) - limit, rows[-tail:]


def wrap_line(line: str, room: int) -> Iterator[str]:
    """Yield the pieces of a wrapped line, broken after a space in the second half if possible. Joined, they are the
    line."""
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
    """Yield the units that are never split: an escape that fits, or a character with its combining marks."""
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
    """Return the index after the last space, unless that leaves more than `spare` columns empty."""
    for at in range(end, start, -1):
        if units[at - 1] == " ":
            return at
        spare -= text_width(units[at - 1])
        if spare < 0:
            break
    return end
