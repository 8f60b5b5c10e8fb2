"""Writing to the terminal or into a pipe. Nothing that is shown here can act on a terminal.

Text of models, tools and files is made visible first. Only the output of a tool on a pipe is left as it is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO, cast

from holdfast.contract.values import encode_json
from holdfast.text.visible import visible, visible_block
from holdfast.text.width import clip, text_width

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_CLEAR: Final = "\r\x1b[K"
_GAP: Final = "  "
_DEFAULT_WIDTH: Final = 80
_ESCAPE: Final = r"(‹\\(?:[tr]|x[0-9a-f]{2}|u\{[0-9a-f]{1,6}\})(?:×[0-9]+)?›|↵|‹↩›)"
"""What stands for something that cannot be seen, and for the end of a line that goes on."""
_NARROW: Final = 70
"""Columns below which a table is not shown as one."""
_standing: Final[list[bool]] = []
"""Not empty while words of `progress` stand on the terminal."""


def can_ask() -> bool:
    """Whether a person is there: what we ask goes to standard error, what they answer comes from standard input."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def on_terminal() -> bool:
    """Whether standard output is looked at by a person."""
    return is_terminal(sys.stdout)


def screen_width() -> int:
    """The columns there are; `COLUMNS` overrides."""
    import shutil

    return max(20, shutil.get_terminal_size((_DEFAULT_WIDTH, 24)).columns)


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text in a style, on terminals that want colour."""
    if not styles or not _has_colour(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def shown(text: str) -> str:
    """One line that cannot act; what in it has been made visible before stays as it is."""
    return text if text.isascii() and text.isprintable() else _once(text, visible)


def shown_block(text: str) -> str:
    """Lines that cannot act; what in them has been made visible before stays as it is."""
    return _once(text, visible_block)


def _once(text: str, show: Callable[[str], str]) -> str:
    """A text that others have put together may have been made visible in parts."""
    return "".join(part if place % 2 else show(part) for place, part in enumerate(re.split(_ESCAPE, text)))


def say(line: str = "") -> None:
    """One line of ours on standard output."""
    _make_room()
    _write(sys.stdout, f"{line}\n")


def note(line: str = "") -> None:
    """One line of ours on standard error: what is not the result."""
    sys.stdout.flush()
    _make_room()
    _write(sys.stderr, f"{line}\n")
    sys.stderr.flush()


def prompt(text: str) -> None:
    """A question on standard error, the cursor behind it."""
    _make_room()
    _write(sys.stderr, text)
    sys.stderr.flush()


def put_piece(text: str, stream: TextIO) -> None:
    """A piece of a text that goes on; whoever gives it has made it visible."""
    other = sys.stderr if stream is sys.stdout else sys.stdout
    other.flush()
    _write(stream, text)
    stream.flush()


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """For work that takes a while: what is said replaces what was said before, and in the end nothing is left of it.

    Only a person at a terminal sees it.
    """
    seen = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"

    def tell(words: str) -> None:
        if seen:
            prompt(clip(words, screen_width() - 1))
            _standing.append(True)

    try:
        yield tell
    finally:
        _make_room()


def _make_room() -> None:
    """Whatever is said takes the line of what was only said in passing."""
    if _standing:
        _standing.clear()
        _write(sys.stderr, _CLEAR)
        sys.stderr.flush()


def put_output(text: str) -> None:
    """What a tool returned: as it is into a pipe, made visible on a terminal."""
    if not text:
        return
    safe = visible_block(text) if on_terminal() else text
    _write(sys.stdout, safe if safe.endswith("\n") else f"{safe}\n")


def put_json(value: object) -> None:
    """One JSON value on one line; on a terminal with every character that could act written as an escape."""
    try:
        text = encode_json(value).decode()
    except UnicodeEncodeError:
        from msgspec import to_builtins

        text = encode_json(_without_surrogates(to_builtins(value))).decode()
    _write(sys.stdout, f"{''.join(map(_json_safe, text)) if on_terminal() else text}\n")


def put_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under headings. On a terminal they are folded to its width; in a pipe nothing is cut."""
    cells = [[shown(cell) for cell in row] for row in rows]
    if on_terminal() and screen_width() < _NARROW:
        _put_stacked(columns, cells)
        return
    if on_terminal():
        _put_folded(columns, cells)
        return
    widths = [max(map(text_width, column)) for column in zip(columns, *cells, strict=True)]
    for row in (columns, *cells):
        padded = [cell + " " * (width - text_width(cell)) for cell, width in zip(row, widths, strict=True)]
        say(_GAP.join(padded).rstrip())


def _put_stacked(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One cell below the other, where columns would leave too little room for each."""
    import textwrap

    for row in rows:
        say(paint(clip(" ".join(row[:1]), screen_width()), "bold"))
        for name, cell in zip(columns[1:], row[1:], strict=True):
            text = f"{name}: {cell}" if cell else ""
            for line in textwrap.wrap(text, screen_width() - 1, initial_indent="  ", subsequent_indent="    "):
                say(line)


def _put_folded(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    for place, name in enumerate(columns):
        last = place == len(columns) - 1
        table.add_column(name, overflow="fold", no_wrap=place == 0, ratio=1 if last else None)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False, width=screen_width()).print(table)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _without_surrogates(value: object) -> object:
    """Bytes that are not UTF-8, as in the names of files, written out in every text: they have no form in JSON."""
    if isinstance(value, str):
        return "".join(map(_written_out, value))
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        return {_without_surrogates(key): _without_surrogates(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in cast(list[object], value)]
    return value


def _written_out(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("utf-8", "backslashreplace").decode()


def _json_safe(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person is at the other end of it."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _has_colour(stream: TextIO) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
