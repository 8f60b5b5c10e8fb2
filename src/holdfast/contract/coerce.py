"""Harmless slips of models, put right on a copy: a number in a string, JSON in a string.

Only text is ever reinterpreted, only where the schema refuses text, and only into the type it asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any, Final, cast

import jsonschema_rs

from holdfast.contract.errors import BadJson
from holdfast.contract.values import Args, Json, parse_json

_INTEGER: Final = r"-?(?:0|[1-9][0-9]{0,17})"
_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?"


def coerce_errors(root: Args, errors: Iterable[jsonschema_rs.ValidationError]) -> bool:
    """Put right in place what can be; whether anything changed."""
    changed = False
    for error in errors:
        path = error.instance_path
        wanted = _wanted_types(error)
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
    """Give every omitted property that is required and may be null its null, at any depth the schema spells out."""
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


def is_nullable(part: object) -> bool:
    """Whether the schema of a property says that it may be null."""
    if not isinstance(part, Mapping):
        return False
    schema = cast(Mapping[str, Any], part)
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    return any(is_nullable(option) for key in ("anyOf", "oneOf") for option in schema.get(key) or ())


def coerce(text: str, wanted: Set[str]) -> Json:
    """The value a text stands for if one of the wanted types can take it, else the text itself."""
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


def _wanted_types(error: jsonschema_rs.ValidationError) -> set[str]:
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
