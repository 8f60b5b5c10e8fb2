"""Writing to the terminal or into a pipe. Nothing that is shown here can act on a terminal.

Text of models, tools and files is made visible, for a pipe as well. Only `holdfast call --raw` leaves it as it is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final, TextIO, cast

from holdfast.contract.json import encode_json
from holdfast.text.escape import clip, escape_block, escape_block_once, escape_once

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_CLEAR: Final = "\r\x1b[K"
_DEFAULT_WIDTH: Final = 80
_DEFAULT_HEIGHT: Final = 24
_LEAST_WIDTH: Final = 20
_LEAST_HEIGHT: Final = 6
shown: Final = escape_once
shown_block: Final = escape_block_once
_progress_shown: Final[list[bool]] = []
"""Not empty while words of `progress` stand on the terminal."""


def can_ask() -> bool:
    """Whether a person is there: what we ask goes to standard error, what they answer comes from standard input."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def stdout_is_terminal() -> bool:
    """Whether standard output is looked at by a person."""
    return is_terminal(sys.stdout)


def screen_width(stream: TextIO | None = None) -> int:
    """The columns there are, on standard output unless another stream is named.

    Of a terminal `COLUMNS` can take some away and add none: the terminal wraps what is wider, and its next line begins
    with whatever the text says there.
    """
    told = os.environ.get("COLUMNS", "")
    wanted = int(told) if told.isascii() and told.isdecimal() else 0
    there = _terminal_size(sys.stdout if stream is None else stream)[0]
    return max(_LEAST_WIDTH, min(wanted or there, there) if there else wanted or _DEFAULT_WIDTH)


def screen_height(stream: TextIO) -> int:
    """The lines of the terminal."""
    return max(_LEAST_HEIGHT, _terminal_size(stream)[1] or _DEFAULT_HEIGHT)


def _terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines; 0 where there is no terminal, or it does not know."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 0, 0
    return size.columns, size.lines


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """The text in a style, on terminals that want colour."""
    if not styles or not _has_colour(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def print_out(line: str = "") -> None:
    """One line of ours on standard output."""
    _clear_progress()
    _write(sys.stdout, f"{line}\n")


def print_err(line: str = "") -> None:
    """One line of ours on standard error: what is not the result."""
    sys.stdout.flush()
    _clear_progress()
    _write(sys.stderr, f"{line}\n")
    sys.stderr.flush()


def print_out_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print_out(line)


def print_err_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print_err(line)


def print_line(line: str, stream: TextIO) -> None:
    """One line of ours on either of the two."""
    (print_err if stream is sys.stderr else print_out)(line)


def show_prompt(text: str) -> None:
    """A question on standard error, the cursor behind it."""
    _clear_progress()
    _write(sys.stderr, text)
    sys.stderr.flush()


def write_chunk(text: str, stream: TextIO) -> None:
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
            show_prompt(clip(words, screen_width(sys.stderr) - 1))
            _progress_shown.append(True)

    try:
        yield tell
    finally:
        _clear_progress()


def _clear_progress() -> None:
    """Whatever is said takes the line of what was only said in passing."""
    if _progress_shown:
        _progress_shown.clear()
        _write(sys.stderr, _CLEAR)
        sys.stderr.flush()


def print_output(text: str, *, raw: bool = False) -> None:
    """What a tool returned, made visible: what a pipe leads to may be a terminal. With `raw`, byte by byte."""
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    elif text:
        safe = escape_block(text)
        _write(sys.stdout, safe if safe.endswith("\n") else f"{safe}\n")


unreported_warnings: Final[list[str]] = []
"""Said on standard error, and not yet part of a JSON object."""


def print_json(value: object, *, with_warnings: bool = True) -> None:
    """One JSON value on one line, with every character that could act on a terminal written as an escape.

    An object that is written after a warning has it in its field `warnings`.
    """
    if unreported_warnings and with_warnings:
        from msgspec import to_builtins

        shape = to_builtins(value)
        if isinstance(shape, dict) and "warnings" not in shape:
            value = {**cast(dict[str, object], shape), "warnings": tuple(unreported_warnings)}
            unreported_warnings.clear()
    try:
        text = encode_json(value).decode()
    except UnicodeEncodeError:
        from msgspec import to_builtins

        text = encode_json(_without_surrogates(to_builtins(value))).decode()
    _write(sys.stdout, f"{text if text.isprintable() else ''.join(map(_json_safe, text))}\n")


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
