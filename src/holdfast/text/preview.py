"""One-line previews and summaries of calls: `name: body`, clipped to the terminal width."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, cast

from holdfast.text.escape import ELLIPSIS, clip, escape, text_width

FormatPreview = Callable[[Any, int], object]
"""The type of `Tool.format_preview(args, width)`. Its return value is checked before use."""

DEFAULT_WIDTH: Final = 80
_KEYS_SHOWN: Final = 2
_SHORT: Final = 200
_RUN: Final = 20
_READ_PER_COLUMN: Final = 8
"""Characters escaped per column, so that a long argument is not escaped in full to show its beginning."""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_PLAIN_KEY: Final = re.compile(r"[\w.$@/-]+")
_BACKSLASHES_BEFORE_QUOTE: Final = re.compile(r'\\+(?="|\Z)')


def preview(
    name: str, args: Mapping[str, object], width: int = DEFAULT_WIDTH, format_preview: FormatPreview | None = None
) -> str:
    """Return `name: body` in at most `width` columns; only `name` (as the model wrote it) if the body is empty."""
    shown_name = _escape_start(name, width)
    room = max(0, width - text_width(shown_name) - len(": "))
    body = None if format_preview is None else _custom_body(format_preview, args, room)
    if body is None:
        told = args if format_preview is None else {key: value for key, value in args.items() if value is not None}
        body = arguments_preview(told, width)
    return clip(f"{shown_name}: {body}" if body else shown_name, width)


def arguments_preview(args: Mapping[str, object], width: int = DEFAULT_WIDTH) -> str:
    """Return `a="text", n=3, list=[2 items], map={x, y}`: scalars first, then containers, each sorted by name."""
    body = ""
    for key in sorted(args, key=lambda name: (_is_container(args[name]), name)):
        item = f"{_key(key, width)}={_value(args[key], width)}"
        body = f"{body}, {item}" if body else item
        if text_width(body) > width:
            break
    return clip(body, width)


def format_arguments(args: Mapping[str, object]) -> str:
    """Format all arguments as `name: value` lines. Multi-line values are indented below the name, so that none of their
    lines looks like an argument. Strings that read as JSON (`5`, `null`) are quoted. Long values come last, so that
    truncation affects only them."""
    texts = [_argument(name, value) for name, value in args.items()]
    return "\n".join(sorted(texts, key=lambda text: len(text) > _SHORT or "\n" in text)) or "(no arguments)"


def _argument(name: str, value: object) -> str:
    shown = name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    is_plain = isinstance(value, str) and not _reads_as_json(value)
    text = str(value) if is_plain else json.dumps(value, ensure_ascii=False, default=str)
    return f"{shown}: {text}" if "\n" not in text else f"{shown}:\n  " + text.replace("\n", "\n  ")


def _reads_as_json(text: str) -> bool:
    """Whether a string is blank or reads as another JSON value: `5`, `null`, `[]`. A multi-line value is always a
    string."""
    if not text.strip():
        return True
    if "\n" in text:
        return False
    try:
        json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


def with_label(body: str, args: Mapping[str, object]) -> str:
    """Append the `label` argument, the model's reason for the call, to a preview body."""
    label = args.get("label")
    return f"{body}  # {label}" if isinstance(label, str) and label.strip() else body


def _custom_body(format_preview: FormatPreview, args: Mapping[str, object], room: int) -> str | None:
    try:
        body = format_preview(deepcopy(dict(args)), room)
    except Exception:
        return None
    return _escape_start(body, room) if isinstance(body, str) and body.strip() else None


def _escape_start(text: str, width: int, write: Callable[[str], str] = str) -> str:
    """Escape the text to one line after applying `write`; only the beginning, followed by `…`, if it is too long."""
    limit = max(1, width) * _READ_PER_COLUMN
    while True:
        start = _start_of_run(text, limit)
        shown = escape(write(start))
        if len(start) == len(text):
            return shown
        if text_width(shown) > width:
            return shown + ELLIPSIS
        limit = 2 * len(start)  # escaped runs are short, so there is room for more


def _start_of_run(text: str, limit: int) -> str:
    """Return the first `limit` characters, extended to the end of a run that is escaped as one."""
    start, rest = text[:limit], text[limit:]
    run = start[-1:] * _RUN
    return start if escape(run) == run else start + rest[: len(rest) - len(rest.lstrip(start[-1]))]


def _value(value: object, width: int) -> str:
    if isinstance(value, str):
        return f'"{_escape_start(value, width, _quoted)}"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(_some_keys(cast(Mapping[object, object], value), width)) + "}"
    if isinstance(value, list | tuple):
        count = len(cast(list[object], value))
        return f"[{count} item]" if count == 1 else f"[{count} items]"
    return _escape_start(f"<{type(value).__name__}>", width)


def _number(value: float) -> str:
    try:
        return str(value)
    except ValueError:
        return f"<a number of {int(value).bit_length():,} bits>"


def _some_keys(value: Mapping[object, object], width: int) -> Iterator[str]:
    keys = sorted(map(str, value))
    for key in keys[:_KEYS_SHOWN]:
        yield _key(key, width)
    if len(keys) > _KEYS_SHOWN:
        yield f"+{len(keys) - _KEYS_SHOWN} more"


def _key(key: str, width: int) -> str:
    """Return the key, quoted unless it reads as a single key."""
    start = key[: width * _READ_PER_COLUMN + 1]
    return _escape_start(key, width) if _PLAIN_KEY.fullmatch(start) else f'"{_escape_start(key, width, _quoted)}"'


def _quoted(text: str) -> str:
    """Escape inner quotes; double a backslash only where it would appear to escape a quote."""
    doubled = _BACKSLASHES_BEFORE_QUOTE.sub(lambda found: found[0] * 2, text)
    return doubled.replace('"', '\\"')


def _is_container(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple)


_FIELDS: Final = ("command", "file_path", "notebook_path", "path", "url", "query", "name", "id")
_PATHS: Final = frozenset({"file_path", "notebook_path", "path"})


def default_summary(args: Mapping[str, object] | None, cwd: str | None = None, home: str | None = None) -> str:
    """Return the number of questions, else the pattern and its path, else the first of some well-known arguments.

    The text comes from the arguments: `escape` it for display.
    """
    args = args or {}
    questions = args.get("questions")
    if isinstance(questions, list | tuple) and questions:
        count = len(cast(list[object], questions))
        return f"{count} question" if count == 1 else f"{count} questions"
    pattern, path = _text(args, "pattern"), _text(args, "path")
    if pattern:
        return f"{pattern} in {display_path(path, cwd, home)}" if path not in ("", ".") else pattern
    for field in _FIELDS:
        if value := _text(args, field):
            return display_path(value, cwd, home) if field in _PATHS else value
    return ""


def call_summary(
    args: Mapping[str, object], own: Callable[[Any], object] | None, cwd: str | None = None, home: str | None = None
) -> str:
    """Return the tool's own summary if it returns one, else the default summary."""
    if own is not None:
        try:
            said = own(deepcopy(dict(args)))
        except Exception:
            said = None
        if isinstance(said, str) and said.strip():
            return said
    return default_summary(args, cwd, home)


def display_path(path: str, cwd: str | None = None, home: str | None = None) -> str:
    """Return the path relative to `cwd` if it is inside, else with `~` for `home`, else unchanged."""
    if (inside := _inside(path, cwd)) is not None:
        return inside or "."
    if (inside := _inside(path, home)) is not None:
        return f"~/{inside}" if inside else "~"
    return path


def _text(args: Mapping[str, object], field: str) -> str:
    value = args.get(field)
    return value if isinstance(value, str) else ""


def _inside(path: str, folder: str | None) -> str | None:
    base = (folder or "").rstrip("/")
    if not base:
        return None
    if path.rstrip("/") == base:
        return ""
    return path[len(base) + 1 :].lstrip("/") if path.startswith(f"{base}/") else None
