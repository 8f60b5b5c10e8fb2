"""Indented JSON for people, for values of any depth and size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, cast

_MAX_INDENT: Final = 12
"""Levels that are indented further. Without a limit the indentation of nested lists takes quadratic space."""


def pretty_json(value: object) -> str:
    """Return the value as indented JSON. Unlike `json.dumps` it does not recurse and never fails."""
    return "".join(_pieces(value))


def _pieces(value: object) -> Iterator[str]:
    todo: list[str | tuple[object, int]] = [(value, 0)]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            yield item
            continue
        value, level = item
        inner = _children(value)
        if not inner:
            yield _scalar(value)
            continue
        ends = "{}" if isinstance(value, Mapping) else "[]"
        yield ends[0]
        todo.append(f"{_newline(level)}{ends[1]}")
        for index in range(len(inner) - 1, -1, -1):
            before, child = inner[index]
            todo.append((child, level + 1))
            todo.append(f"{',' if index else ''}{_newline(level + 1)}{before}")


def _children(value: object) -> list[tuple[str, object]]:
    """The entries of a container, each with what precedes it."""
    if isinstance(value, Mapping):
        entries = cast(Mapping[object, object], value).items()
        return [(f"{_scalar(str(key))}: ", child) for key, child in entries]
    if isinstance(value, list | tuple):
        return [("", child) for child in cast(list[object], value)]
    return []


def _newline(level: int) -> str:
    return "\n" + "  " * min(level, _MAX_INDENT)


def _scalar(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        return hex(cast(int, value))  # Python refuses to write an integer of thousands of digits in decimal
