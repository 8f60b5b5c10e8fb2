"""Which Python values are JSON as they stand, and a plain copy of those that nearly are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from math import isfinite
from typing import Any, Final, cast

MAX_DEPTH: Final = 200
"""The parser's own bound, so that a value is treated alike as text and as objects."""
_HIGHEST: Final = 10**4300
_LOWEST: Final = -_HIGHEST
_MAX_STEP: Final = 80

Steps = tuple[str | int, ...]


def is_plain(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether a value is JSON: built-in types and nothing derived from them, finite, well-formed, not too deep."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:
        sound = all(type(key) is str and _is_text(key) for key in value)
        return depth > 0 and sound and all(is_plain(item, depth - 1) for item in value.values())
    if kind is list:
        return depth > 0 and all(is_plain(item, depth - 1) for item in value)
    if kind is str:
        return _is_text(value)
    if kind is int:
        return _LOWEST < value < _HIGHEST
    return value is None or kind is bool or (kind is float and isfinite(value))


def plain_copy(value: Any, at: Steps = ()) -> Any:
    """A plain copy (tuples as lists, enums as their values), or `ValueError` naming what JSON cannot carry."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain_copy(value.value, at)
    if isinstance(value, str):
        return _text(value, at)
    if isinstance(value, int):
        if not _LOWEST < value < _HIGHEST:
            raise ValueError(f"{_subject(at)} a number of more than 4,300 digits")
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{_subject(at)} {float(value)}, which JSON cannot carry")
        return float(value)
    if len(at) >= MAX_DEPTH:
        raise ValueError(f"{path_of(at[:3])}… is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {_key(key, at): plain_copy(item, (*at, key)) for key, item in items}
    if isinstance(value, list | tuple):
        return [plain_copy(item, (*at, index)) for index, item in enumerate(cast(list[Any], value))]
    raise ValueError(f"{_subject(at)} a Python {type(value).__name__}, which JSON cannot carry")


def path_of(steps: Sequence[str | int]) -> str:
    """A path as people write it: `edits[0].text`; odd names are quoted."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            text += f".{step[:_MAX_STEP]}" if text else step[:_MAX_STEP]
        else:
            text += f"[{step[:_MAX_STEP]!r}]"
    return text


def _is_text(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _text(value: str, at: Steps) -> str:
    plain = str.__str__(value)
    if not _is_text(plain):
        raise ValueError(f"{_subject(at)} text with half of a surrogate pair; send well-formed Unicode")
    return plain


def _key(key: object, at: Steps) -> str:
    if isinstance(key, str) and _is_text(key):
        return str.__str__(key)
    raise ValueError(f"{_subject(at)} an object with a key that is not well-formed text, which JSON cannot carry")


def _subject(at: Steps) -> str:
    return f"{path_of(at)} is" if at else "the whole value is"
