"""Reduces the schema of a tool for small models, to one line of a prompt or to a schema that servers can enforce.

Length and work are bounded, since schemas are untrusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

from holdfast.models.text_protocol.syntax import ANY_FRAME, ANY_TAG

_MAX_SIGNATURE: Final = 600
_MAX_DESCRIPTION: Final = 120
_MAX_VALUE: Final = 60
_MAX_VALUES: Final = 2000
"""The maximum length of the values of an `enum` or `const`, as JSON, that a server is to enforce."""
_MAX_DEPTH: Final = 4
_MAX_SCHEMAS: Final = 100
"""The maximum number of subschemas to visit."""
_JSON_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_TAG_OR_FRAME: Final = re.compile(rf"{ANY_TAG}|{ANY_FRAME}")
_LABEL: Final = "label"
"""Every built-in tool takes an optional label, which would only distract a small model."""

Schema = Mapping[str, Any]


def signature(schema: Schema) -> str:
    """Summarise a schema in one line: `{"command": text, "timeout"?: number}`; `?` marks optional properties."""
    shown = _SchemaSummary(schema).of(schema, _MAX_DEPTH)
    # Arguments are always an object.
    return shorten(shown if shown.startswith("{") else "{}", _MAX_SIGNATURE)


def enforced_schema(schema: Schema) -> dict[str, Any]:
    """Return a schema without references, patterns and limits that a server can enforce while decoding.

    It allows every call that a model would be meant to write: all that the original allows, except for null (an
    optional property is left out instead), labels, properties that the original does not declare, and values without
    properties where it describes properties. The pipeline validates the arguments against the original.
    """
    shape = _EnforcedSchema(schema).of(schema, _MAX_DEPTH)
    return shape if shape.get("type") == "object" else {"type": "object"}


def first_sentence(text: str) -> str:
    """Return the first sentence of a description, on one line and shortened."""
    return shorten(re.split(r"(?<=[.!?]) ", one_line(text), maxsplit=1)[0], _MAX_DESCRIPTION)


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str) -> str:
    """Collapse white space and unprintable characters to single spaces."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


class _SchemaReader:
    """Follows references, choices and `allOf` of a schema, up to a limit."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._left = _MAX_SCHEMAS
        self._is_partial = False
        """Whether a part of an `allOf` was left out."""

    def _choices(self, schema: Schema) -> list[Schema]:
        """Return the alternatives except null, flattening nested ones."""
        pending, seen = list(_options(schema)), {id(schema)}
        found: list[Schema] = []
        for each in pending:
            resolved = self._resolved(each)
            if id(resolved) in seen or resolved.get("type") == "null":
                continue
            seen.add(id(resolved))
            options = _options(resolved)
            if options and "properties" not in resolved and len(pending) < _MAX_SCHEMAS:
                pending += options
            else:
                found.append(resolved)
        return found

    def _merged(self, schema: Schema, depth: int) -> Schema:
        """Merge `allOf` into one schema; the first definition of a key wins."""
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _list(schema, "allOf")[:_MAX_SCHEMAS]:
            self._left -= 1
            if self._left < 0:
                self._is_partial = True
                break
            resolved = self._resolved(part)
            if depth > 0 and "allOf" in resolved:
                resolved = self._merged(resolved, depth - 1)
            elif "allOf" in resolved:
                self._is_partial = True
            properties = {**_mapping(merged.get("properties")), **_mapping(resolved.get("properties"))}
            required = [*_list(merged, "required"), *_list(resolved, "required")]
            merged = {**resolved, **merged}
            if properties:
                merged |= {"properties": properties, "required": required}
        return merged

    def _types(self, schema: Schema, depth: int) -> list[str]:
        named = schema.get("type")
        if isinstance(named, str | list):
            names = [named] if isinstance(named, str) else cast(list[Any], named)
            return [name for name in names if isinstance(name, str) and name in _JSON_TYPES]
        options = _options(schema) if depth > 0 else ()
        return [name for each in options for name in self._types(self._resolved(each), 0)]

    def _resolved(self, part: object) -> Schema:
        """Follow references inside the schema; anything that is not an object becomes `{}`."""
        for _ in range(_MAX_DEPTH):
            found = _mapping(part)
            reference = found.get("$ref")
            if not isinstance(reference, str):
                return found
            part = self._root if reference.startswith("#/") else None
            for step in reference.removeprefix("#/").split("/"):
                part = _mapping(part).get(unquote(step).replace("~1", "/").replace("~0", "~"))
        return {}


class _SchemaSummary(_SchemaReader):
    """Summarises a schema in words."""

    def of(self, schema: Schema, depth: int) -> str:
        self._left -= 1
        if self._left < 0:
            return "…"
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(values := schema.get("enum"), list):
            return self._either(_literal(value) for value in cast(list[Any], values) if value is not None)
        choices = self._choices(schema)
        if choices and "properties" not in schema:
            return self._either(self.of(each, depth - 1) for each in choices) if depth > 0 else "any"
        if depth > 0:
            if "allOf" in schema:
                return self.of(self._merged(schema, depth), depth - 1)
            if isinstance(schema.get("properties"), Mapping):
                return self._object(schema, depth)
            if isinstance(others := schema.get("additionalProperties"), Mapping):
                return "{NAME: " + self.of(self._resolved(cast(object, others)), depth - 1) + ", …}"
            if isinstance(items := schema.get("items"), Mapping):
                return f"[{self.of(self._resolved(cast(object, items)), depth - 1)}, …]"
        return self._either("text" if name == "string" else name for name in self._types(schema, depth))

    def _object(self, schema: Schema, depth: int) -> str:
        required = _list(schema, "required")
        written: list[str] = []
        for name, part in cast(Schema, schema["properties"]).items():
            if self._left <= 0:
                written.append("…")
                break
            resolved = self._resolved(part)
            optional = name not in required or "null" in self._types(resolved, depth)
            if not (optional and name == _LABEL):
                written.append(f"{_literal(name)}{'?' if optional else ''}: {self.of(resolved, depth - 1)}")
        return "{" + ", ".join(written) + "}"

    def _either(self, shapes: Iterable[str]) -> str:
        shown: dict[str, None] = {}
        for each in shapes:
            if each != "null":
                shown[each] = None
            if self._left <= 0 or len(shown) > _MAX_VALUE:
                shown["…"] = None
                break
        return " or ".join(shown) or "any"


class _EnforcedSchema(_SchemaReader):
    """Keeps the shape of a schema: types, properties, items and choices. Servers compile little more to a grammar.

    Where a limit is reached, or the shape is unclear, it becomes `{}`, which allows everything.
    """

    def of(self, schema: Schema, depth: int) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0 or depth < 0:
            return {}
        if "const" in schema:
            return {"const": schema["const"]} if _is_short([schema["const"]]) else {}
        if isinstance(values := schema.get("enum"), list):
            return _enforced_values(cast(list[Any], values))
        if "properties" not in schema and (_list(schema, "anyOf") or _list(schema, "oneOf")):
            return self._choice(schema, depth)
        if "allOf" in schema:
            return self._all_of(schema, depth)
        types = [name for name in self._types(schema, depth) if name != "null"]
        if isinstance(schema.get("properties"), Mapping):
            types = types or ["object"]
        shapes = [self._typed(name, schema, depth) for name in dict.fromkeys(types)]
        return shapes[0] if len(shapes) == 1 else {"anyOf": shapes} if shapes else {}

    def _choice(self, schema: Schema, depth: int) -> dict[str, Any]:
        if max(len(_list(schema, "anyOf")), len(_list(schema, "oneOf"))) > _MAX_SCHEMAS:
            return {}
        shapes = [self.of(each, depth - 1) for each in self._choices(schema)]
        if len(shapes) == 1:
            return shapes[0]
        return {"anyOf": shapes} if shapes and all(shapes) else {}

    def _all_of(self, schema: Schema, depth: int) -> dict[str, Any]:
        merged = self._merged(schema, depth)
        return {} if self._is_partial else self.of(merged, depth - 1)

    def _typed(self, name: str, schema: Schema, depth: int) -> dict[str, Any]:
        if name == "object" and isinstance(schema.get("properties"), Mapping):
            return self._object(schema, depth)
        if name != "array":
            return {"type": name}
        items = self._resolved(None if "prefixItems" in schema else schema.get("items"))
        return {"type": "array", "items": self.of(items, depth - 1)}

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        required = [name for name in _list(schema, "required") if isinstance(name, str)]
        described = cast(Schema, schema["properties"])
        declared = {**described, **dict.fromkeys(name for name in required if name not in described)}
        properties: dict[str, Any] = {}
        needed: list[str] = []
        for name, part in declared.items():
            if self._left <= 0 or not _is_short([name]):
                return {"type": "object"}
            resolved = self._resolved(part)
            optional = name not in required or "null" in self._types(resolved, depth)
            if not (optional and name == _LABEL):
                properties[name] = self.of(resolved, depth - 1)
                needed += [] if optional else [name]
        shape: dict[str, Any] = {"type": "object", "properties": properties, "required": needed}
        return shape if self._is_open(schema) else {**shape, "additionalProperties": False}

    def _is_open(self, schema: Schema) -> bool:
        """Whether the schema declares properties besides `properties`."""
        if schema.get("additionalProperties", False) is not False or not _OPENING.isdisjoint(schema):
            return True
        options = (*_list(schema, "anyOf"), *_list(schema, "oneOf"))
        return any(self._resolved(each).keys() - _OF_DECLARED for each in options[:_MAX_SCHEMAS])


_OPENING: Final = frozenset(
    ("patternProperties", "dependentSchemas", "dependencies", "if", "then", "else", "$ref", "allOf")
)
_OF_DECLARED: Final = frozenset(("required", "type", "title", "description", "not"))
"""Keys of an alternative that say nothing about other properties."""


def _enforced_values(values: list[Any]) -> dict[str, Any]:
    if len(values) > _MAX_SCHEMAS or not _is_short(values):
        return {}
    return {"enum": [value for value in values if value is not None] or [None]} if values else {}


def _is_short(values: list[Any]) -> bool:
    try:
        return len(json.dumps(values)) <= _MAX_VALUES
    except (TypeError, ValueError, RecursionError):
        return False


def _options(schema: Schema) -> list[Any]:
    return (_list(schema, "anyOf") or _list(schema, "oneOf"))[:_MAX_SCHEMAS]


def _mapping(value: object) -> Schema:
    return cast(Schema, value) if isinstance(value, Mapping) else {}


def _list(schema: Schema, key: str) -> list[Any]:
    found = schema.get(key)
    return cast(list[Any], found) if isinstance(found, list) else []


def _literal(value: object) -> str:
    """Return a name or value as JSON without tags, frames or line breaks."""
    try:
        shown = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "any"
    if not shown.isprintable():
        shown = json.dumps(value)
    if _TAG_OR_FRAME.search(shown):
        shown = shown.replace("[", "\\u005b").replace("===", "==\\u003d")
    return shorten(shown, _MAX_VALUE)
