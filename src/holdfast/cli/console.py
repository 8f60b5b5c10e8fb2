"""Output to the terminal or a pipe: lines, prompts, progress, JSON, colours.

Text of models, tools and files is escaped, for a pipe too, so that no control character reaches a terminal. Only
`holdfast call --raw` writes it unescaped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Final, TextIO, cast

from msgspec import to_builtins

from holdfast.contract.json import encode_json
from holdfast.text.escape import clip, escape_block

_CODES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_CLEAR: Final = "\r\x1b[K"
_DEFAULT_WIDTH: Final = 80
_DEFAULT_HEIGHT: Final = 24
_MIN_WIDTH: Final = 20
_MIN_HEIGHT: Final = 6
_progress_shown: Final[list[bool]] = []
"""Not empty while a `progress` message is on the terminal."""


def can_ask() -> bool:
    """Return whether a person can be asked: prompts go to standard error, answers come from standard input."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr) and _in_foreground()


def _in_foreground() -> bool:
    """Return whether we may read from the terminal: the kernel stops a background job that does (SIGTTIN, SIGTTOU)."""
    if sys.platform == "win32":
        return True
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return True  # not our controlling terminal, so there is no job control


def stdout_is_terminal() -> bool:
    """Return whether standard output is a terminal."""
    return is_terminal(sys.stdout)


def screen_width(stream: TextIO | None = None) -> int:
    """Return the width of the stream, standard output by default.

    `COLUMNS` can make a terminal narrower, but not wider: the terminal would wrap a longer line, and quoted text could
    start a line of the screen, where only our own text may.
    """
    variable = os.environ.get("COLUMNS", "")
    wanted = int(variable) if variable.isascii() and variable.isdecimal() else 0
    actual = _terminal_size(sys.stdout if stream is None else stream)[0]
    return max(_MIN_WIDTH, min(wanted or actual, actual) if actual else wanted or _DEFAULT_WIDTH)


def screen_height(stream: TextIO) -> int:
    """Return the height of the terminal in lines."""
    return max(_MIN_HEIGHT, _terminal_size(stream)[1] or _DEFAULT_HEIGHT)


def _terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return columns and lines; 0 each without a terminal, or if it does not know."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 0, 0
    return size.columns, size.lines


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """Return the text with ANSI styles, if the stream supports colour."""
    if not styles or not _has_colour(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{';'.join(_CODES[style] for style in styles)}m{text}\x1b[0m"


def print_out(line: str = "") -> None:
    """Print a line on standard output."""
    _clear_progress()
    _write(sys.stdout, f"{line}\n")


def print_err(line: str = "") -> None:
    """Print a line on standard error: everything that is not the result."""
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
    """Print a line on standard output or standard error."""
    (print_err if stream is sys.stderr else print_out)(line)


def show_prompt(text: str) -> None:
    """Print a question on standard error, without a newline."""
    _clear_progress()
    _write(sys.stderr, text)
    sys.stderr.flush()


def write_chunk(text: str, stream: TextIO) -> None:
    """Write a part of a longer text, which the caller has escaped."""
    other = sys.stderr if stream is sys.stdout else sys.stdout
    other.flush()
    _write(stream, text)
    stream.flush()


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """Give a function that shows a progress message; each replaces the one before, and the last is removed.

    Without a terminal nothing is shown.
    """
    visible = is_terminal(sys.stderr) and os.environ.get("TERM") != "dumb"

    def update(message: str) -> None:
        if visible:
            show_prompt(clip(message, screen_width(sys.stderr) - 1))
            _progress_shown.append(True)

    try:
        yield update
    finally:
        _clear_progress()


def _clear_progress() -> None:
    """Remove the progress message, so that the next output takes its line."""
    if _progress_shown:
        _progress_shown.clear()
        _write(sys.stderr, _CLEAR)
        sys.stderr.flush()


def print_output(text: str, *, raw: bool = False) -> None:
    """Print a tool's output, escaped even for a pipe, which may lead to a terminal; with `raw`, unescaped."""
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    elif text:
        safe = escape_block(text)
        _write(sys.stdout, safe if safe.endswith("\n") else f"{safe}\n")


unreported_warnings: Final[list[str]] = []
"""Warnings that were printed on standard error and are not yet part of a JSON object."""


def print_json(value: object, *, with_warnings: bool = True) -> None:
    """Print one JSON value on one line, with control characters escaped.

    The first object after a warning carries it in its field `warnings`.
    """
    if unreported_warnings and with_warnings:
        shape = to_builtins(value)
        if isinstance(shape, dict) and "warnings" not in shape:
            value = {**cast(dict[str, object], shape), "warnings": tuple(unreported_warnings)}
            unreported_warnings.clear()
    try:
        text = encode_json(value).decode()
    except UnicodeEncodeError:
        text = encode_json(_without_surrogates(to_builtins(value))).decode()
    _write(sys.stdout, f"{text if text.isprintable() else ''.join(map(_json_escape, text))}\n")


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _without_surrogates(value: object) -> object:
    """Replace lone surrogates (undecodable bytes of file names) in every string by an escape: JSON cannot hold them."""
    if isinstance(value, str):
        return "".join(map(_escape_surrogate, value))
    if isinstance(value, dict):
        items = cast(dict[object, object], value).items()
        return {_without_surrogates(key): _without_surrogates(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in cast(list[object], value)]
    return value


def _escape_surrogate(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("utf-8", "backslashreplace").decode()


def _json_escape(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def terminal() -> TextIO | None:
    """The stream that reaches the user's terminal, if one does."""
    return next((stream for stream in (sys.stderr, sys.stdout) if is_terminal(stream)), None)


def _has_colour(stream: TextIO) -> bool:
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
