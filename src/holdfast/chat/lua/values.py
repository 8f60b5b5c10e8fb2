"""Values on their way to Lua and back: text as bytes, and numbers and lists as Lua has them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

Table = dict[str, Any]


class NotTheSame(Exception):
    """What a value holds that Lua has no equal of."""


def to_wire(value: Any) -> Any:
    """Text as its bytes, one letter for each, so that any bytes of a document get through."""
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape").decode("latin-1")
        except UnicodeEncodeError:
            return value.encode("utf-8", "replace").decode("latin-1")
    if isinstance(value, Mapping):
        return {to_wire(key): to_wire(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in cast("list[Any]", value)]
    return value


def from_wire(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    if isinstance(value, dict):
        return {from_wire(key): from_wire(item) for key, item in cast(Table, value).items()}
    if isinstance(value, list):
        return [from_wire(item) for item in cast("list[Any]", value)]
    return value


def in_lua(value: Any) -> Any:
    """Whole numbers beyond what Lua has become floats, as Lua's own reader would make them."""
    if is_beyond(value):
        try:
            return float(value)
        except OverflowError:
            return None
    if isinstance(value, Mapping):
        return {key: in_lua(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [in_lua(item) for item in cast("list[Any]", value)]
    return value


def has_number(value: float) -> bool:
    """Whether Lua has a number like it."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_beyond(value: object) -> bool:
    """Whether it is a whole number larger than those of Lua."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def as_it_is(value: Mapping[str, Any]) -> Table:
    """The value as Lua sees it, with nothing lost; null as the value of a key is a key that is not there."""
    try:
        return {_exact(key): _exact(item) for key, item in value.items()}
    except RecursionError:
        raise NotTheSame("its arguments are nested too deeply") from None


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_exact(key): _exact(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        if any(item is None for item in items):
            raise NotTheSame("a list in its arguments holds null, where Lua would see the list end")
        return [_exact(item) for item in items]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise NotTheSame("its arguments hold text that is not UTF-8") from None
        return value
    if is_beyond(value):
        made = in_lua(value)
        if made is None or int(made) != value:
            raise NotTheSame("its arguments hold a whole number that is too large for Lua")
        return made
    if isinstance(value, float) and not math.isfinite(value):
        raise NotTheSame("its arguments hold a number that is not finite")
    return value
