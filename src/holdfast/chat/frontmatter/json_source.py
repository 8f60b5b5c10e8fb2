"""Frontmatter in JSON: `flemma` holds the seed's options with their operators, `holdfast` holdfast's own; the rest are
variables."""

from __future__ import annotations

from typing import Any, cast

from holdfast.chat.frontmatter.draft import Draft
from holdfast.chat.frontmatter.evaluated import Base
from holdfast.chat.frontmatter.lines import Lines
from holdfast.chat.frontmatter.own_layout import OWN, take_own, where_own
from holdfast.chat.frontmatter.seed_options import PRESETS, Path, real_path
from holdfast.config.merge import OPERATIONS
from holdfast.contract.values import Json, parse_json

Table = dict[str, Any]
_KINDS = {"list": "array", "str": "string", "int": "number", "float": "number", "bool": "boolean", "NoneType": "null"}


class NotAnObject(Exception):
    """The kind that was found instead."""


def json_option(path: Path) -> str:
    return where_own(path, "holdfast.") if path[:2] in OWN else ".".join(("flemma", *path))


def run(code: str, base: Base, lines: Lines) -> tuple[Draft, Table, Table]:
    """The draft, the settings that are not part of it, and the variables. Raises `BadJson` and `NotAnObject`."""
    found = parse_json(code)
    if not isinstance(found, dict):
        raise NotAnObject(_kind(found))
    given = cast(Table, _without_null(found))
    draft = Draft(base, json_option)
    flemma, own = given.pop("flemma", {}), given.pop("holdfast", {})
    rest: Table = {}
    for name, part in (("flemma", flemma), ("holdfast", own)):
        if not isinstance(part, dict):
            draft.complain(f"'{name}' must be an object, got {_kind(part)}.", lines.of(name))
        elif name == "flemma":
            _walk(draft, (), cast(Table, part), lines)
        else:
            rest = take_own(draft, cast(Table, part), base, lines, prefix="holdfast.")
    return draft, rest, given


def _walk(draft: Draft, path: Path, node: object, lines: Lines) -> None:
    line = lines.of(path[-1]) if path else None
    if not isinstance(node, dict):
        draft.assign(path, node, line)
        return
    table = cast(Table, node)
    real = real_path(path)
    if real[:2] == PRESETS and not table:
        draft.assign(path, [], line)
    operators = {} if real == PRESETS else {key: value for key, value in table.items() if key.startswith("$")}
    for key in operators.keys() - {f"${name}" for name in OPERATIONS}:
        known = ", ".join(f"${name}" for name in OPERATIONS)
        draft.complain(f"{json_option(path)}: '{key}' is no operator; use {known}.", lines.of(key))
    for name in OPERATIONS:
        if f"${name}" not in operators:
            continue
        if name == "set":
            _walk(draft, path, operators["$set"], lines)
        else:
            draft.edit(path, name, operators[f"${name}"], line)
    for key, value in table.items():
        if key not in operators:
            _walk(draft, (*path, key), value, lines)


def _kind(value: Json) -> str:
    return _KINDS.get(type(value).__name__, type(value).__name__)


def _without_null(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_null(item) for item in value if item is not None]
    return value


def merged(one: Table, other: Table, path: Path = ()) -> tuple[Table, list[str]]:
    """Both tables, and the options that both of them hold."""
    result, twice = dict(one), list[str]()
    for key, value in other.items():
        here = (*path, key)
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key], more = merged(cast(Table, result[key]), cast(Table, value), here)
            twice += more
        elif key in result:
            twice.append(".".join(here))
        else:
            result[key] = cast(object, value)
    return result, twice
