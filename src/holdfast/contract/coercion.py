"""JSON values: checks, conversion of Python objects, sanitizing, and coercion of near-miss arguments ("5" to 5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from math import isfinite
from typing import Any, Final, cast

import jsonschema_rs

from holdfast.contract.errors import BadJson
from holdfast.contract.json import Args, Json, parse_json

MAX_DEPTH: Final = 200
"""Same as the JSON parser's limit, so that text and Python objects are treated alike."""
_INTEGER_BOUND: Final = 10**4300
_LOWEST: Final = -_INTEGER_BOUND
_MAX_STEP: Final = 80

JsonPath = tuple[str | int, ...]


def is_json_value(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Whether a value is plain JSON: exact built-in types (no subclasses), finite, valid Unicode, not too deep."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is dict:
        sound = all(type(key) is str and _is_valid_unicode(key) for key in value)
        return depth > 0 and sound and all(is_json_value(item, depth - 1) for item in value.values())
    if kind is list:
        return depth > 0 and all(is_json_value(item, depth - 1) for item in value)
    if kind is str:
        return _is_valid_unicode(value)
    if kind is int:
        return _LOWEST < value < _INTEGER_BOUND
    return value is None or kind is bool or (kind is float and isfinite(value))


def to_json_value(value: Any, at: JsonPath = ()) -> Any:
    """Return a plain JSON copy (tuples become lists, enums their values). Raises `ValueError` with the path."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return to_json_value(value.value, at)
    if isinstance(value, str):
        return _json_text(value, at)
    if isinstance(value, int):
        if not _LOWEST < value < _INTEGER_BOUND:
            raise ValueError(f"{_subject(at)} a number with more than 4,300 digits")
        return int(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{_subject(at)} {float(value)}, which JSON cannot represent")
        return float(value)
    if len(at) >= MAX_DEPTH:
        raise ValueError(f"{json_path(at[:3])}… is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {_json_key(key, at): to_json_value(item, (*at, key)) for key, item in items}
    if isinstance(value, list | tuple):
        return [to_json_value(item, (*at, index)) for index, item in enumerate(cast(list[Any], value))]
    raise ValueError(f"{_subject(at)} a Python {type(value).__name__}, which JSON cannot represent")


class JsonSanitizer:
    """Replaces values that JSON cannot represent and records what it replaced."""

    def __init__(self) -> None:
        self.unicode = False
        self.numbers = False

    def text(self, value: str) -> str:
        if _is_valid_unicode(value):
            return value
        self.unicode = True
        # UTF-16 joins surrogate pairs that are stored as two code points; lone surrogates become U+FFFD.
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def value(self, value: Any) -> Any:
        """Return a copy with lone surrogates as U+FFFD, NaN and infinity as null, tuples as lists."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, float) and not isfinite(value):
            self.numbers = True
            return None
        if isinstance(value, dict):
            items = cast(dict[Any, Any], value).items()
            return {self.text(key) if isinstance(key, str) else key: self.value(item) for key, item in items}
        return [self.value(item) for item in cast(list[Any], value)] if isinstance(value, list | tuple) else value

    @property
    def notes(self) -> list[str]:
        """One sentence per kind of replacement made so far."""
        unicode = ["Text that is not valid Unicode was replaced by \ufffd."] if self.unicode else []
        return [*unicode, "NaN or infinity was replaced by null."] if self.numbers else unicode


def json_path(steps: Sequence[str | int]) -> str:
    """Format a path: `edits[0].text`. Names that are not identifiers are quoted."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "").replace("-", "").isalnum():
            text += f".{step[:_MAX_STEP]}" if text else step[:_MAX_STEP]
        else:
            text += f"[{step[:_MAX_STEP]!r}]"
    return text


def _is_valid_unicode(value: str) -> bool:
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _json_text(value: str, at: JsonPath) -> str:
    plain = str.__str__(value)
    if not _is_valid_unicode(plain):
        raise ValueError(f"{_subject(at)} text with a lone surrogate; send valid Unicode")
    return plain


def _json_key(key: object, at: JsonPath) -> str:
    if isinstance(key, str) and _is_valid_unicode(key):
        return str.__str__(key)
    raise ValueError(f"{_subject(at)} an object with a key that is not a valid string")


def _subject(at: JsonPath) -> str:
    return f"{json_path(at)} is" if at else "the whole value is"


_INTEGER: Final = r"-?(?:0|[1-9][0-9]{0,17})"
_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?"


def coerce_invalid_values(root: Args, errors: Iterable[jsonschema_rs.ValidationError]) -> bool:
    """Coerce invalid strings in place to the expected types. Returns whether anything changed."""
    changed = False
    for error in errors:
        path = error.instance_path
        wanted = _expected_types(error)
        if not wanted or not path:
            continue
        holder: Any = root
        for step in path[:-1]:
            holder = holder[step]
        value = holder[path[-1]]
        better = coerce(value, wanted) if isinstance(value, str) else value
        if better is not value:
            holder[path[-1]] = better
            changed = True
    return changed


def fill_nullable(value: Any, schema: Mapping[str, Any]) -> None:
    """Set omitted properties that are required and nullable to null, in place and at any depth."""
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, Mapping):
            for item in cast(list[Any], value):
                fill_nullable(item, cast(Mapping[str, Any], items))
    elif isinstance(value, dict):
        holder = cast(dict[str, Any], value)
        parts = cast(Mapping[str, Any], schema.get("properties") or {})
        for name in cast(list[str], schema.get("required") or ()):
            if name not in holder and is_nullable(parts.get(name)):
                holder[name] = None
        for name, part in parts.items():
            if name in holder and isinstance(part, Mapping):
                fill_nullable(holder[name], cast(Mapping[str, Any], part))


def list_pairs(value: Any, schema: Mapping[str, Any]) -> None:
    """Turn objects into lists of `{name, value}` where those are expected, in place and at any depth.

    Strict schemas have no open objects: headers, variables and the like are lists there, but many callers send objects.
    """
    if not isinstance(value, dict):
        return
    holder = cast(dict[str, Any], value)
    for name, part in cast(Mapping[str, Any], schema.get("properties") or {}).items():
        found = holder.get(name)
        if not isinstance(found, dict) or not isinstance(part, Mapping):
            continue
        items = cast(Mapping[str, Any], part).get("items")
        named = cast(Mapping[str, Any], items).get("properties") if isinstance(items, Mapping) else None
        if isinstance(named, Mapping) and set(cast(Mapping[str, Any], named)) == {"name", "value"}:
            holder[name] = [{"name": key, "value": item} for key, item in cast(dict[str, Any], found).items()]
        else:
            list_pairs(found, cast(Mapping[str, Any], part))


def is_nullable(part: object) -> bool:
    """Whether a property's schema allows null."""
    if not isinstance(part, Mapping):
        return False
    schema = cast(Mapping[str, Any], part)
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    return any(is_nullable(option) for key in ("anyOf", "oneOf") for option in schema.get(key) or ())


def coerce(text: str, wanted: Set[str]) -> Json:
    """Return the value that the text spells if it has one of the wanted types, else the text itself."""
    stripped = text.strip()
    if wanted & {"integer", "number"} and re.fullmatch(_INTEGER, stripped):
        return int(stripped)
    if "number" in wanted and re.fullmatch(_NUMBER, stripped):
        return float(stripped)
    if "boolean" in wanted and stripped in ("true", "false"):
        return stripped == "true"
    if "null" in wanted and stripped == "null":
        return None
    if ("object" in wanted and stripped.startswith("{")) or ("array" in wanted and stripped.startswith("[")):
        try:
            return parse_json(stripped)
        except BadJson:
            return text
    return text


def _expected_types(error: jsonschema_rs.ValidationError) -> set[str]:
    kind = error.kind
    if kind.name == "type":
        return set(cast(list[str], kind.as_dict()["types"]))
    if kind.name not in ("anyOf", "oneOf"):
        return set()
    branches = cast(list[list[jsonschema_rs.ValidationError]], kind.as_dict()["context"])
    return {
        wanted
        for branch in branches
        for inner in branch
        if inner.kind.name == "type" and inner.instance_path == error.instance_path
        for wanted in cast(list[str], inner.kind.as_dict()["types"])
    }
