"""JSON Schema: compile once, accept or explain, repair harmless slips. Validation is jsonschema-rs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, cast

import jsonschema_rs

from holdfast.contract.errors import BadJson, InvalidArguments, InvalidSchema
from holdfast.contract.explain import explain
from holdfast.contract.values import Args, Json, encode_json, parse_json

JsonSchema = Mapping[str, Any]

MAX_SCHEMA_BYTES: Final = 1024 * 1024
_REPAIR_ROUNDS: Final = 3
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean", "null"})


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is outside the schema")


_PLAIN_JSON: Final = jsonschema_rs.validator_for(
    {
        "$ref": "#/$defs/value",
        "$defs": {
            "value": {
                "anyOf": [
                    {"type": ["string", "boolean", "null", "number"]},
                    {"type": "array", "items": {"$ref": "#/$defs/value"}},
                    {
                        "type": "object",
                        "propertyNames": {"type": "string"},
                        "additionalProperties": {"$ref": "#/$defs/value"},
                    },
                ]
            }
        },
    }
)
"""Holds for values that JSON can carry: finite numbers, well-formed text, plain containers."""


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """A schema ready to judge arguments."""

    is_valid: Callable[[Any], bool]
    closed: bool
    """Every value the schema lets through has a declared scalar type, so that it is plain JSON already."""
    nullable: tuple[str, ...]
    """Required properties that may be null: filled in when omitted."""
    properties: tuple[str, ...]
    _errors: Callable[[Any], Iterator[jsonschema_rs.ValidationError]]

    def accepts(self, value: Any) -> bool:
        try:
            return self.is_valid(value) and (self.closed or _PLAIN_JSON.is_valid(value))
        except (ValueError, RecursionError, OverflowError):
            return False

    def accept(self, args: Args) -> Args:
        """The arguments as the tool will get them, or `InvalidArguments` with each violation named by path.

        A valid value is returned as it is. Otherwise, on a copy: omitted nullable properties become null,
        "500" becomes 500 where a number is wanted, "true" becomes true, JSON in a string becomes that JSON.
        """
        if self.accepts(args):
            return args
        repaired = self._repair(args)
        if repaired is not None:
            return repaired
        raise InvalidArguments(self.violations(args))

    def violations(self, value: Any) -> list[str]:
        try:
            found = explain(self._errors(value), self.properties)
        except (ValueError, RecursionError, OverflowError) as error:
            return [_not_json(error)]
        return found or ["the arguments contain a value JSON cannot carry (NaN, infinity, broken Unicode or a foreign type)"]

    def _repair(self, args: Args) -> Args | None:
        if not isinstance(args, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            return None
        try:
            copy = deepcopy(args)
            for name in self.nullable:
                copy.setdefault(name, None)
            for _ in range(_REPAIR_ROUNDS):
                if self.accepts(copy):
                    return copy
                if not _coerce_errors(copy, self._errors(copy)):
                    return None
            return copy if self.accepts(copy) else None
        except (ValueError, RecursionError, OverflowError):
            return None


def compile_schema(schema: JsonSchema, what: str) -> CompiledSchema:
    """Compile a schema, or raise `InvalidSchema`. Nothing outside the schema is ever fetched."""
    if not isinstance(schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSchema(f"{what} must be a JSON object.")
    try:
        plain = dict(schema)
        size = len(encode_json(plain))
        if size > MAX_SCHEMA_BYTES:
            raise InvalidSchema(f"{what} is {size:,} bytes long; at most {MAX_SCHEMA_BYTES:,} are accepted.")
        validator = jsonschema_rs.validator_for(plain, retriever=_refuse)
    except InvalidSchema:
        raise
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        raise InvalidSchema(f"{what} cannot be used: {str(error.args[0])[:300]}.") from None
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise InvalidSchema(f"{what} is not a JSON Schema: {str(error)[:300]}.") from None
    properties = cast(Mapping[str, Any], plain.get("properties") or {})
    required = cast(list[str], plain.get("required") or [])
    return CompiledSchema(
        is_valid=validator.is_valid,
        closed=_is_closed(plain),
        nullable=tuple(name for name in required if _is_nullable(properties.get(name))),
        properties=tuple(properties),
        _errors=validator.iter_errors,
    )


def strict_problems(schema: JsonSchema, where: str = "") -> list[str]:
    """What keeps a schema from the strict rules of providers: closed objects, every property required."""
    problems: list[str] = []
    properties = cast(Mapping[str, Any], schema.get("properties") or {})
    if properties or schema.get("type") == "object":
        at = where or "the schema"
        if schema.get("additionalProperties") is not False:
            problems.append(f"{at} must say `additionalProperties: false`")
        missing = [name for name in properties if name not in (schema.get("required") or ())]
        if missing:
            problems.append(f"{at} must require {', '.join(missing)} (optional ones are nullable)")
    for name, part in properties.items():
        if isinstance(part, Mapping):
            problems += strict_problems(cast(JsonSchema, part), f"{where}.{name}" if where else name)
    items = schema.get("items")
    if isinstance(items, Mapping):
        problems += strict_problems(cast(JsonSchema, items), f"{where}[]")
    return problems


def _is_closed(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    listed: list[str] = [kinds] if isinstance(kinds, str) else list(cast(list[str], kinds or []))
    if not listed:
        return False
    for kind in listed:
        if kind in _SCALARS:
            continue
        if kind == "array":
            items = schema.get("items")
            if not isinstance(items, Mapping) or "prefixItems" in schema or not _is_closed(cast(JsonSchema, items)):
                return False
        elif kind == "object":
            if schema.get("additionalProperties") is not False or "patternProperties" in schema:
                return False
            parts = cast(Mapping[str, Any], schema.get("properties") or {})
            if not all(isinstance(part, Mapping) and _is_closed(cast(JsonSchema, part)) for part in parts.values()):
                return False
        else:
            return False
    return True


def _is_nullable(part: object) -> bool:
    if not isinstance(part, Mapping):
        return False
    schema = cast(Mapping[str, Any], part)
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    return any(_is_nullable(option) for key in ("anyOf", "oneOf") for option in schema.get(key) or ())


def _coerce_errors(root: Args, errors: Iterator[jsonschema_rs.ValidationError]) -> bool:
    changed = False
    for error in list(errors):
        wanted = _wanted_types(error)
        if not wanted:
            continue
        path = list(error.instance_path)
        if not path:
            continue
        holder: Any = root
        for step in path[:-1]:
            holder = holder[step]
        value = holder[path[-1]]
        better = _coerce(value, wanted) if isinstance(value, str) else value
        if better is not value:
            holder[path[-1]] = better
            changed = True
    return changed


def _wanted_types(error: jsonschema_rs.ValidationError) -> set[str]:
    kind = error.kind
    facts = kind.as_dict()
    if kind.name == "type":
        return set(cast(list[str], facts["types"]))
    if kind.name in ("anyOf", "oneOf"):
        branches = cast(list[list[jsonschema_rs.ValidationError]], facts["context"])
        at = list(error.instance_path)
        return {
            wanted
            for branch in branches
            for inner in branch
            if inner.kind.name == "type" and list(inner.instance_path) == at
            for wanted in cast(list[str], inner.kind.as_dict()["types"])
        }
    return set()


def _coerce(text: str, wanted: set[str]) -> Json:
    stripped = text.strip()
    if wanted & {"integer", "number"} and _INTEGER.fullmatch(stripped):
        return int(stripped)
    if "number" in wanted and _NUMBER.fullmatch(stripped):
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


def _not_json(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "the arguments contain broken Unicode (half of a surrogate pair)"
    if isinstance(error, RecursionError):
        return "the arguments are nested too deeply"
    return f"the arguments contain a value JSON cannot carry: {str(error)[:120]}"
