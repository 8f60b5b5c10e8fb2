"""Schemas in a few words a small model can follow: one line, of bounded length and work, whoever wrote the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from holdfast.models.text_protocol.grammar import ANY_FRAME, ANY_TAG

_DEEPEST: Final = 4
_MOST: Final = 100
"""How many schemas are looked at, in all."""
_LONGEST: Final = 60
_NAMES: Final = {"string": "text"}
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_CALLING: Final = re.compile(rf"{ANY_TAG}|{ANY_FRAME}")

Schema = Mapping[str, Any]


def shape(schema: Schema) -> str:
    return _Shaper(schema).whole(schema)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


class _Shaper:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MOST

    def whole(self, schema: Schema) -> str:
        """Arguments always are an object."""
        shown = self._shape(schema, _DEEPEST)
        return shown if shown.startswith("{") else "{}"

    def _shape(self, schema: Schema, depth: int) -> str:
        self._left -= 1
        if self._left < 0:
            return "…"
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(values := schema.get("enum"), list):
            return self._either(_literal(value) for value in cast(list[Any], values) if value is not None)
        choices = self._choices(schema)
        if choices and "properties" not in schema:
            return self._either(self._shape(each, depth - 1) for each in choices) if depth > 0 else "any"
        if depth > 0 and "allOf" in schema:
            return self._shape(self._merged(schema, depth), depth - 1)
        if depth > 0 and isinstance(schema.get("properties"), Mapping):
            return self._object(schema, depth)
        if depth > 0 and isinstance(others := schema.get("additionalProperties"), Mapping):
            return "{NAME: " + self._shape(self._resolved(cast(Schema, others)), depth - 1) + ", …}"
        if depth > 0 and isinstance(schema.get("items"), Mapping):
            return f"[{self._shape(self._resolved(schema['items']), depth - 1)}, …]"
        return self._either(_NAMES.get(name, name) for name in self._types(schema, depth))

    def _object(self, schema: Schema, depth: int) -> str:
        required = _list(schema, "required")
        written: list[str] = []
        for name, part in cast(Schema, schema["properties"]).items():
            if self._left <= 0:
                written.append("…")
                break
            resolved = self._resolved(part)
            optional = name not in required or "null" in self._types(resolved, depth)
            if optional and name == "label":
                # Every tool of the house takes one, and a small model has better things to write.
                continue
            written.append(f"{_literal(name)}{'?' if optional else ''}: {self._shape(resolved, depth - 1)}")
        return "{" + ", ".join(written) + "}"

    def _choices(self, schema: Schema) -> list[Schema]:
        """Of what it may be, all but nothing; choices among choices are choices."""
        pending, seen = list(_options(schema)), {id(schema)}
        found: list[Schema] = []
        for each in pending:
            resolved = self._resolved(each)
            if id(resolved) in seen or resolved.get("type") == "null":
                continue
            seen.add(id(resolved))
            options = _options(resolved)
            if options and "properties" not in resolved and len(pending) < _MOST:
                pending += options
            else:
                found.append(resolved)
        return found

    def _merged(self, schema: Schema, depth: int) -> Schema:
        """All that must hold, as one schema: what says it first wins."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _list(schema, "allOf")[:_MOST]:
            self._left -= 1
            if self._left < 0:
                break
            resolved = self._resolved(part)
            if depth > 0 and "allOf" in resolved:
                resolved = self._merged(resolved, depth - 1)
            properties = {**_mapping(merged, "properties"), **_mapping(resolved, "properties")}
            required = [*_list(merged, "required"), *_list(resolved, "required")]
            merged = {**resolved, **merged}
            if properties:
                merged |= {"properties": properties, "required": required}
        return merged

    def _types(self, schema: Schema, depth: int) -> list[str]:
        named = schema.get("type")
        if isinstance(named, str | list):
            names = [named] if isinstance(named, str) else cast(list[Any], named)
            return [name for name in names if name in _TYPES]
        resolved = (self._resolved(each) for each in _options(schema)) if depth > 0 else ()
        return [name for each in resolved for name in self._types(each, 0)]

    def _either(self, shapes: Iterable[str]) -> str:
        shown: dict[str, None] = {}
        for each in shapes:
            if each != "null":
                shown[each] = None
            if self._left <= 0 or len(shown) > _LONGEST:
                shown["…"] = None
                break
        return " or ".join(shown) or "any"

    def _resolved(self, part: object) -> Schema:
        """What a reference inside the schema leads to; anything else that is no object says nothing."""
        for _ in range(_DEEPEST):
            if not isinstance(part, Mapping):
                return {}
            found = cast(Schema, part)
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return found
            part = self._at(reference)
        return {}

    def _at(self, reference: str) -> object:
        part: object = self._root if reference.startswith("#/") else None
        for step in reference.removeprefix("#/").split("/"):
            if not isinstance(part, Mapping):
                return None
            inside: Mapping[str, object] = part  # pyright: ignore[reportUnknownVariableType]
            part = inside.get(unquote(step).replace("~1", "/").replace("~0", "~"))
        return part


def _options(schema: Schema) -> list[Any]:
    return (_list(schema, "anyOf") or _list(schema, "oneOf"))[:_MOST]


def _mapping(schema: Schema, key: str) -> Schema:
    found = schema.get(key)
    return cast(Schema, found) if isinstance(found, Mapping) else {}


def _list(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return cast(list[Any], found) if isinstance(found, list) else []


def _literal(value: object) -> str:
    """A name or a value as JSON, in which nothing is a tag, a frame or the end of a line."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "any"
    if not shown.isprintable():
        shown = json.dumps(value)
    if _CALLING.search(shown):
        shown = shown.replace("[", "\\u005b").replace("===", "==\\u003d")
    return shorten(shown, _LONGEST)
