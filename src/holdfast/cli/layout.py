"""Line layout: wrapped sentences, labelled fields, quoted blocks and tables.

The layout separates our own text from untrusted text (of models, tools and files). Our lines start in the first column
(sentences), after two spaces (labels) or after four and more (continuation lines). Untrusted text stands after a label
on the same line, or in lines that start with the gutter, so that it cannot imitate a line of ours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from holdfast.cli import console
from holdfast.cli.console import paint, print_out, print_out_lines, screen_width, stdout_is_terminal
from holdfast.contract.event import ServerLogged
from holdfast.text.escape import clip_middle, escape, escape_once, fingerprint, text_width
from holdfast.text.quote import GUTTER, EscapeLine, quote_rows, split_ends, wrap_line

if TYPE_CHECKING:
    from holdfast.contract.event import Event

_WORDS: Final = re.compile(r"(?:`[^`]*`|[^\s`]|`)+")
"""Text in backticks is meant to be copied, so it is one word and is not wrapped."""
HANGING_INDENT: Final = 4
"""The indent of continuation lines: more than that of any line that starts a sentence or a field."""
_LABEL: Final = 7
_MIN_ROOM: Final = 28
"""Columns that the text of a field needs, to be aligned below itself rather than at the hanging indent."""
Style = Callable[[str, int], tuple[str, ...]]
"""Returns the styles of a line, from its text and its number."""


class Quote(NamedTuple):
    """Untrusted text, ready to print."""

    lines: list[str]
    hidden: int
    """The number of lines left out."""


def wrap_words(text: str, stream: TextIO, *, first: int = 0, hang: int = HANGING_INDENT) -> Iterator[str]:
    """Yield the lines of a sentence, unindented: the first leaves `first` columns free, the others `hang`.

    In a pipe it is not wrapped. A word that is longer than a line is broken here: the terminal would put the rest of it
    into the first column.
    """
    if not stream.isatty():
        yield text
        return
    room = console.screen_width(stream) - 1
    line, left = "", max(1, room - first)
    for word in _WORDS.findall(text):
        if line and text_width(line) + 1 + text_width(word) > left:
            yield line
            line, left = "", room - hang
        line = f"{line} {word}" if line else word
        while text_width(line) > left:
            fits = _fitting(line, left)
            yield line[:fits]
            line, left = line[fits:], room - hang
    yield line


def _fitting(text: str, width: int) -> int:
    """Return how many characters fit, at least one."""
    used = 0
    for at, char in enumerate(text):
        used += text_width(char)
        if used > width:
            return max(1, at)
    return len(text)


def wrap_sentence(text: str, stream: TextIO, *styles: str, first: int = 0) -> Iterator[str]:
    """Yield the lines of a sentence that starts in the first column, or after `first` columns that the caller fills.

    Untrusted text in it is escaped, unless that was done before.
    """
    for number, line in enumerate(wrap_words(escape_once(text), stream, first=first)):
        yield f"{' ' * HANGING_INDENT if number else ''}{console.paint(line, *styles, stream=stream)}"


def print_message(text: str, label: str = "", *styles: str) -> None:
    """Print a message on standard error after a label. Lines after the first are quoted."""
    head = f"{console.paint(label, *styles, stream=sys.stderr)} " if label else ""
    words, newline, rest = text.rstrip("\n").partition("\n")
    console.print_err(head + "\n".join(wrap_sentence(words, sys.stderr, first=len(label) + 1 if head else 0)))
    console.print_err_lines(quote(rest, sys.stderr, show=escape_once).lines if newline else ())


def print_quoted(text: str, label: str, *styles: str) -> None:
    """Print untrusted text on standard error: after the label if it fits on that line, otherwise quoted below."""
    shown, head = escape_once(text), console.paint(label, *styles, stream=sys.stderr)
    fits = not sys.stderr.isatty() or len(label) + 1 + text_width(shown) < console.screen_width(sys.stderr)
    if "\n" not in text and fits:
        console.print_err(f"{head} {shown}")
        return
    console.print_err_lines((head, *quote(text, sys.stderr, show=escape_once).lines))


def field_lines(
    label: str, text: str, stream: TextIO, *styles: str, width: int = _LABEL, colour: str = "dim"
) -> Iterator[str]:
    """Yield `  label   text` with text of our own; a path or a name in it is escaped."""
    hang = width + 3 if console.screen_width(stream) - width - 3 >= _MIN_ROOM else HANGING_INDENT
    first, *more = wrap_words(escape_once(text), stream, first=width + 3, hang=hang)
    yield f"{label_line(label, stream, width, colour)} {console.paint(first, *styles, stream=stream)}".rstrip()
    yield from (f"{' ' * hang}{console.paint(line, *styles, stream=stream)}" for line in more)


def quoted_field_lines(
    label: str,
    text: str,
    stream: TextIO,
    limit: int | None = None,
    *,
    width: int = _LABEL,
    show: EscapeLine | None = None,
) -> Iterator[str]:
    """Yield `  label   text` with untrusted text; if it does not fit on the line, it is quoted below the label."""
    shown = (show or escape)(text)
    if "\n" not in text and width + 3 + text_width(shown) < console.screen_width(stream):
        yield f"{label_line(label, stream, width)} {shown}".rstrip()
        return
    yield label_line(label, stream)
    yield from quote(text, stream, limit, show=show).lines


def label_line(label: str, stream: TextIO, width: int = 0, colour: str = "dim") -> str:
    """Return a label, padded to `width`."""
    return f"  {console.paint(f'{label:<{width}}', colour, stream=stream)}"


def quote(
    text: str,
    stream: TextIO,
    limit: int | None = None,
    *,
    style: Style | None = None,
    show: EscapeLine | None = None,
    more: str = "",
    brief: bool = False,
) -> Quote:
    """Return untrusted text as lines that are safe to print on `stream`.

    Of more than `limit` lines the middle is hidden, and a line says how many; `more` says where to see all. `brief`
    leaves out the length and the digest of the text, which matter only for what a person approves.
    """
    rows = list(quote_rows(text, console.screen_width(stream), show))
    head, hidden, tail = split_ends(rows, limit)
    lines = text.split("\n") if style is not None else []
    painted = [
        row.gutter + (console.paint(row.text, *style(lines[row.line], row.line), stream=stream) if style else row.text)
        for row in (*head, *tail)
    ]
    if hidden:
        some = "1 line" if hidden == 1 else f"{hidden:,} lines"
        about = "" if brief else f"; in all {fingerprint(text)}"
        notice = f"[{some} hidden{about}{more and f'; {more}'}]"
        first, *further = wrap_sentence(notice, stream, first=2)
        painted[len(head) : len(head)] = [f"  {first}", *further]
    return Quote(painted, hidden)


_GAP: Final = "  "
_INDENT: Final = "  "
_TABLE: Final = 70
"""The narrowest terminal that gets columns; below it each row is a list of fields."""

Cells = Sequence[str]


def print_table(columns: Cells, rows: Sequence[Cells]) -> None:
    """Print a table. The first column must be our own text, an id or a name: untrusted text never starts a line."""
    cells = [[escape_once(cell) for cell in row] for row in rows]
    if stdout_is_terminal() and screen_width() < _TABLE:
        _print_stacked(columns, cells)
        return
    widths = [max(map(text_width, column)) for column in zip(columns, *cells, strict=True)]
    if not stdout_is_terminal():
        for row in (columns, *cells):
            print_out(_pad_cells(row, widths))
        return
    widths = _fit_columns(widths, screen_width() - 1 - len(_INDENT) - len(_GAP) * (len(columns) - 1))
    for number, row in enumerate((columns, *cells)):
        for line, text in enumerate(_row_lines(row, widths)):
            print_out(f"{GUTTER if line and number else _INDENT}{text if number else paint(text, 'bold')}")


def _print_stacked(columns: Cells, rows: Sequence[Cells]) -> None:
    """Print each row as fields, for narrow terminals."""
    width = max(map(text_width, columns[1:]))
    for row in rows:
        for line, text in enumerate(wrap_line(row[0], screen_width() - len(GUTTER))):
            print_out(f"{GUTTER if line else ''}{paint(text, 'bold')}")
        for name, cell in zip(columns[1:], row[1:], strict=True):
            print_out_lines(quoted_field_lines(name, cell, sys.stdout, width=width, show=escape_once) if cell else ())


def _fit_columns(widths: Sequence[int], room: int) -> list[int]:
    """Return the column widths, with the widest ones reduced until the sum fits into `room`."""
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > 1:
        widest = max(fitted)
        others = max((width for width in fitted if width < widest), default=1)
        many = fitted.count(widest)
        less = max(others, widest - -(-(sum(fitted) - room) // many))
        fitted = [less if width == widest else width for width in fitted]
    return fitted


def _row_lines(row: Cells, widths: Sequence[int]) -> list[str]:
    pieces = [list(wrap_line(cell, width)) for cell, width in zip(row, widths, strict=True)]
    height = max(map(len, pieces))
    return [_pad_cells([cell[at] if at < len(cell) else "" for cell in pieces], widths) for at in range(height)]


def _pad_cells(cells: Cells, widths: Sequence[int]) -> str:
    padded = (cell + " " * (width - text_width(cell)) for cell, width in zip(cells, widths, strict=True))
    return _GAP.join(padded).rstrip()


_PRINTED_LEVELS: Final = frozenset(("warning", "error", "critical", "alert", "emergency"))
_MAX_CHARS: Final = 500


def format_log_event(event: ServerLogged) -> str | None:
    """Return the line to print, or None if the level is below a warning."""
    if event.level not in _PRINTED_LEVELS:
        return None
    return escape(clip_middle(f"{event.source} {event.level}: {event.message}", _MAX_CHARS))


def print_log_event(event: Event) -> None:
    line = format_log_event(event) if isinstance(event, ServerLogged) else None
    if line is not None:
        print_log_line(line)


def print_log_line(line: str) -> None:
    console.print_err_lines(wrap_sentence(line, sys.stderr, "dim"))
