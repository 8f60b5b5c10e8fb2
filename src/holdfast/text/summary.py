"""The one field of a call's arguments that says most, for headers and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final, cast

_FIELDS: Final = ("command", "file_path", "notebook_path", "path", "url", "query", "name", "id")
_PATHS: Final = frozenset({"file_path", "notebook_path", "path"})


def default_summary(args: Mapping[str, object], cwd: str | None = None, home: str | None = None) -> str:
    """How many questions, else the pattern and where, else the first field of a fixed order; else nothing.

    The text is the argument's own: show it through `visible`.
    """
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


def summary_of(
    args: Mapping[str, object], own: Callable[[Any], object] | None, cwd: str | None = None, home: str | None = None
) -> str:
    """The tool's own summary of a call, if it has one that works; else the default one."""
    if own is not None:
        try:
            said = own(deepcopy(dict(args)))
        except Exception:
            said = None
        if isinstance(said, str) and said.strip():
            return said
    return default_summary(args, cwd, home)


def display_path(path: str, cwd: str | None = None, home: str | None = None) -> str:
    """Relative to `cwd` if it lies there, else with `~` for `home`, else as given."""
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
