"""What goes on in a further line: sentences of ours are folded at spaces, text of others is quoted behind the gutter.

Lines of ours begin in the first column (sentences), with two spaces (a label and what it says) or with four and more
(what goes on). Text of others stands behind a label in one line, or in lines that begin with the gutter.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TextIO

from holdfast.doors.cli import screen
from holdfast.text.quote import Show, both_ends, rows_of
from holdfast.text.visible import fingerprint, text_width, visible

_WORDS: Final = re.compile(r"(?:`[^`]*`|[^\s`]|`)+")
"""What is between backticks is to be copied, so it counts as one word."""
HANG: Final = 4
"""How far further lines of a sentence stand in: further than anything that begins a line of ours."""
_LABEL: Final = 7
_NARROW: Final = 40
Style = Callable[[str, int], tuple[str, ...]]
"""How a line of a text is painted, from the line and its number."""


class Quote(NamedTuple):
    """Text of others as it is printed."""

    lines: list[str]
    hidden: int
    """How many more lines it would have."""


def folded(text: str, stream: TextIO, *, first: int = 0, hang: int = HANG) -> Iterator[str]:
    """The lines of a sentence, without an indent: `first` columns are left for the first, `hang` for the others.

    In a pipe it stays whole. A word that does not fit in a line is broken: the terminal would begin the next line with
    the rest of it, in the first column.
    """
    if not stream.isatty():
        yield text
        return
    room = screen.screen_width(stream) - 1
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
    """How many characters fit, at least one."""
    used = 0
    for at, char in enumerate(text):
        used += text_width(char)
        if used > width:
            return max(1, at)
    return len(text)


def sentence(text: str, stream: TextIO, *styles: str, first: int = 0) -> Iterator[str]:
    """The lines of a sentence that begins in the first column, or behind `first` columns that somebody else fills.

    What others say in it is escaped here, if that has not been done before.
    """
    for number, line in enumerate(folded(screen.shown(text), stream, first=first)):
        yield f"{' ' * HANG if number else ''}{screen.paint(line, *styles, stream=stream)}"


def note_folded(text: str, label: str = "", *styles: str) -> None:
    """A sentence on standard error behind a label. Whatever follows it in further lines is quoted."""
    head = f"{screen.paint(label, *styles, stream=sys.stderr)} " if label else ""
    words, newline, rest = text.rstrip("\n").partition("\n")
    screen.note(head + "\n".join(sentence(words, sys.stderr, first=len(label) + 1 if head else 0)))
    for line in quote(rest, sys.stderr, show=screen.shown).lines if newline else ():
        screen.note(line)


def note_quoted(text: str, label: str, *styles: str) -> None:
    """What others say, on standard error: behind a label of ours where it fits in that line, otherwise below it."""
    shown, head = screen.shown(text), screen.paint(label, *styles, stream=sys.stderr)
    fits = not sys.stderr.isatty() or len(label) + 1 + text_width(shown) < screen.screen_width(sys.stderr)
    if "\n" not in text and fits:
        screen.note(f"{head} {shown}")
        return
    for line in (head, *quote(text, sys.stderr, show=screen.shown).lines):
        screen.note(line)


def own_field(
    label: str, text: str, stream: TextIO, *styles: str, width: int = _LABEL, colour: str = "dim"
) -> Iterator[str]:
    """`  label   words`, the words being ours. A path or a name among them is escaped here."""
    hang = width + 3 if screen.screen_width(stream) >= _NARROW else HANG
    first, *more = folded(screen.shown(text), stream, first=width + 3, hang=hang)
    yield f"{label_line(label, stream, width, colour)} {screen.paint(first, *styles, stream=stream)}".rstrip()
    yield from (f"{' ' * hang}{screen.paint(line, *styles, stream=stream)}" for line in more)


def quoted_field(
    label: str,
    text: str,
    stream: TextIO,
    limit: int | None = None,
    *,
    width: int = _LABEL,
    show: Show | None = None,
) -> Iterator[str]:
    """`  label   text`, the text being that of others: what does not fit in the line is quoted below the label."""
    shown = (show or visible)(text)
    if "\n" not in text and width + 3 + text_width(shown) < screen.screen_width(stream):
        yield f"{label_line(label, stream, width)} {shown}".rstrip()
        return
    yield label_line(label, stream)
    yield from quote(text, stream, limit, show=show).lines


def label_line(label: str, stream: TextIO, width: int = 0, colour: str = "dim") -> str:
    """A label alone, before lines of others, or as wide as other labels are."""
    return f"  {screen.paint(f'{label:<{width}}', colour, stream=stream)}"


def quote(
    text: str,
    stream: TextIO,
    limit: int | None = None,
    *,
    style: Style | None = None,
    show: Show | None = None,
    more: str = "",
    brief: bool = False,
) -> Quote:
    """Text of others, safe to print on `stream`, in `limit` lines at most. What is left out is counted between the
    beginning and the end; `more` says where all of it is. `brief`: without length and digest, for what nobody approves.
    """
    rows = list(rows_of(text, screen.screen_width(stream), show))
    head, hidden, tail = both_ends(rows, limit)
    lines = text.split("\n") if style is not None else []
    painted = [
        row.gutter + (screen.paint(row.text, *style(lines[row.line], row.line), stream=stream) if style else row.text)
        for row in (*head, *tail)
    ]
    if hidden:
        some = "1 line" if hidden == 1 else f"{hidden:,} lines"
        about = "" if brief else f"; in all {fingerprint(text)}"
        told = f"[{some} hidden{about}{more and f'; {more}'}]"
        first, *further = sentence(told, stream, first=2)
        painted[len(head) : len(head)] = [f"  {first}", *further]
    return Quote(painted, hidden)
