"""JSON Schema: compiles schemas, validates and coerces arguments, explains violations. Uses jsonschema-rs.

Schemas and arguments may be hostile, so size, references and the cost of checking are limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import unquote

import jsonschema_rs
from msgspec import Struct

from holdfast.contract.coercion import (
    coerce_invalid_values,
    fill_nullable,
    is_json_value,
    is_nullable,
    json_path,
    list_pairs,
    to_json_value,
)
from holdfast.contract.errors import InvalidArguments, InvalidSchema
from holdfast.contract.json import Args, encode_json

Node = Mapping[str, Any]

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_EXTERNAL_REFERENCES: Final = 32


def count_subschemas(schema: Node, limit: int, worth: Callable[[Node], int] = lambda _: 1) -> int:
    """Count the objects in a schema with every internal reference expanded at each use; cycles count once.

    `worth` is the weight of an object. Counting stops shortly after `limit`. A reference to another document counts as
    one object; more than 32 of those exceed the limit, because their size is unknown.
    """
    return _SubschemaCounter(schema, limit, worth).parts(schema)


class _SubschemaCounter:
    def __init__(self, schema: Node, limit: int, worth: Callable[[Node], int]) -> None:
        self.limit = limit
        self.worth = worth
        self.unknown = 0
        self.known: dict[int, int] = {}
        self.open: set[int] = set()
        self.targets: dict[str, Any] = {"": schema}
        for node in _nodes(schema):
            for key, prefix in (("$id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")):
                if isinstance(name := node.get(key), str):
                    self.targets.setdefault(prefix + name, node)

    def parts(self, node: object) -> int:
        if isinstance(node, list):
            return sum(self.parts(item) for item in cast(list[object], node))
        if not isinstance(node, Mapping):
            return 0
        part = cast(Node, node)
        key = id(part)
        if key in self.open:
            return 0
        if key not in self.known:
            self.open.add(key)
            self.known[key] = self.count(part)
            self.open.discard(key)
        return self.known[key]

    def count(self, part: Node) -> int:
        total = self.worth(part)
        for key, item in part.items():
            if total > self.limit:
                break
            total += self.referred(item) if key in _REFERENCES and isinstance(item, str) else self.parts(item)
        return total

    def referred(self, reference: str) -> int:
        base, _, fragment = reference.partition("#")
        target = self.targets.get(reference) or self.targets.get(base)
        if reference not in self.targets and fragment.startswith("/"):
            for step in unquote(fragment[1:]).split("/"):
                target = _step(target, step.replace("~1", "/").replace("~0", "~"))
        if isinstance(target, Mapping):
            return self.parts(cast(Node, target))
        self.unknown += 1
        return self.limit + 1 if self.unknown > _MAX_EXTERNAL_REFERENCES else 1


def _step(node: Any, step: str) -> Any:
    if isinstance(node, list):
        items = cast(list[Any], node)
        return items[int(step)] if step.isdecimal() and int(step) < len(items) else None
    return cast(Node, node).get(step) if isinstance(node, Mapping) else None


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, Mapping):
        node = cast(Node, value)
        yield node
        for item in node.values():
            yield from _nodes(item)
    elif isinstance(value, list):
        for item in cast(list[object], value):
            yield from _nodes(item)


MAX_VIOLATIONS: Final = 10
_MAX_VALUE: Final = 60
_MAX_NAME: Final = 80
_MAX_OPTIONS: Final = 20
_WHOLE_VALUE: Final = "the whole value"


def explain(errors: Iterable[jsonschema_rs.ValidationError], properties: Sequence[str]) -> list[str]:
    """Return one phrase per violation, at most `MAX_VIOLATIONS`, and the number of the others."""
    found: list[str] = []
    more = 0
    for error in errors:
        if len(found) < MAX_VIOLATIONS:
            found.append(_explain_one(error, properties))
        else:
            more += 1
    return [*found, f"and {more:,} more"] if more else found


def _explain_one(error: jsonschema_rs.ValidationError, properties: Sequence[str]) -> str:
    kind = error.kind.name
    facts = error.kind.as_dict()
    where = error.instance_path
    if kind == "required":
        return f"{json_path([*where, facts['property']])} is missing"
    if kind in ("additionalProperties", "unevaluatedProperties"):
        return explain_unexpected(where, facts["unexpected"], properties)
    if kind == "falseSchema" and error.schema_path[-1:] == ["additionalProperties"]:
        return f"{json_path(where) or _WHOLE_VALUE} takes no properties"
    subject = json_path(where) or _WHOLE_VALUE
    if kind in ("anyOf", "oneOf"):
        wanted = _describe_alternatives(error, facts["context"])
        return f"{subject} is {describe_value(error.instance)} but must be {wanted}"
    if kind == "pattern" and "error" in facts:
        return f"{subject} is too hard to match against its pattern; send something shorter"
    phrase = _PHRASES.get(kind)
    if phrase is None:
        return f"{subject}: {error.message[:200]}"
    return f"{subject} is {describe_value(error.instance)} but must {phrase(facts)}"


def describe_types(types: Iterable[str]) -> str:
    return " or ".join(sorted(types, key=lambda kind: (kind == "null", kind)))


def _describe_alternatives(
    outer: jsonschema_rs.ValidationError, context: list[list[jsonschema_rs.ValidationError]]
) -> str:
    wanted: list[str] = []
    for branch in context:
        if len(wanted) == _MAX_OPTIONS:
            wanted.append("another of the allowed forms")
            break
        for inner in branch[:1]:
            words = _describe_alternative(inner, json_path(inner.instance_path[len(outer.instance_path) :]))
            if words not in wanted:
                wanted.append(words)
    return " or ".join(wanted) or "exactly one of the allowed forms"


def _describe_alternative(error: jsonschema_rs.ValidationError, inside: str) -> str:
    kind = error.kind.name
    facts = error.kind.as_dict()
    if kind == "required":
        return f"one with {json_path([*([inside] if inside else []), facts['property']])}"
    phrase = _PHRASES.get(kind)
    if phrase is None or "error" in facts:
        return "another of the allowed forms"
    return f"one whose {inside} must {phrase(facts)}" if inside else phrase(facts).removeprefix("be ")


NOT_BLANK: Final = r"\S"
"""Pattern for a string that is not blank."""
_PHRASES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "type": lambda facts: f"be {describe_types(facts['types'])}",
    "enum": lambda facts: f"be one of {_describe_options(facts['options'])}",
    "const": lambda facts: f"be {describe_value(facts['expected_value'])}",
    "minimum": "be at least {limit}".format_map,
    "maximum": "be at most {limit}".format_map,
    "exclusiveMinimum": "be more than {limit}".format_map,
    "exclusiveMaximum": "be less than {limit}".format_map,
    "minLength": "have at least {limit} characters".format_map,
    "maxLength": "have at most {limit} characters".format_map,
    "minItems": "have at least {limit} items".format_map,
    "maxItems": "have at most {limit} items".format_map,
    "pattern": lambda facts: "not be blank" if facts["pattern"] == NOT_BLANK else f"match {facts['pattern']!r}"[:200],
    "falseSchema": "not be given".format_map,
}


def _describe_options(options: list[Any]) -> str:
    shown = ", ".join(describe_value(option) for option in options[:_MAX_OPTIONS])
    rest = len(options) - _MAX_OPTIONS
    return f"{shown} or {rest:,} others" if rest > 0 else shown


def explain_unexpected(where: list[str | int], names: list[str], properties: Sequence[str]) -> str:
    from difflib import get_close_matches  # needed only for errors

    sentences: list[str] = []
    for name in names[:MAX_VIOLATIONS]:
        close = get_close_matches(name[:_MAX_NAME], properties, n=1) if not where else []
        hint = f" (did you mean {close[0]}?)" if close else ""
        sentences.append(f"{json_path([*where, name])} is not a known property{hint}")
    rest = len(names) - MAX_VIOLATIONS
    return "; ".join([*sentences, f"and {rest:,} more"] if rest > 0 else sentences)


def describe_value(value: object) -> str:
    if isinstance(value, str):
        text = repr(value[:_MAX_VALUE])
        return text if len(value) <= _MAX_VALUE else f"{text[:-1]}…' ({len(value):,} characters)"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)[:_MAX_VALUE]


JsonSchema = Mapping[str, Any]

MAX_SCHEMA_BYTES: Final = 1024 * 1024
MAX_SCHEMA_PARTS: Final = 100_000
_MAX_EXPLAIN_COST: Final = 50_000
"""Values times subschemas up to which all violations are collected; each may cost about 10 µs."""
_MAX_CHECK_COST: Final = 20_000_000
"""Values times weight up to which arguments are checked against an untrusted schema: a few tenths of a second."""
_CHEAP_WEIGHT: Final = 1000
"""Schemas up to this weight are cheap enough for any arguments."""
_BACKTRACK_LIMIT: Final = 20_000
"""Step limit of a backtracking pattern, and its weight in subschemas."""
_BACKTRACKING_SYNTAX: Final = re.compile(r"\(\?[=!<>(]|\\[1-9k]")
_CHARS_PER_VALUE: Final = 16
"""Number of characters that cost as much as one value."""
_REPAIR_ROUNDS: Final = 3
_REGEX: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_LIMIT)
"""Regular patterns run in linear time. Patterns with look-around or back-references stop at the step limit (ReDoS)."""


class CompiledSchema(Struct, frozen=True):
    """A schema that is compiled for validation."""

    is_valid: Callable[[Any], bool]
    source: Mapping[str, Any]
    properties: tuple[str, ...]
    closed: bool
    """Every accepted value has a declared scalar type, so the schema rejects infinity by itself."""
    nullable: tuple[str, ...]
    """Properties that are required and nullable. Most callers omit them."""
    parts: int
    """Number of subschemas with all references expanded."""
    weight: int
    """Worst-case cost of checking one value, in subschemas."""
    untrusted: bool
    """The schema comes from outside (an MCP server): arguments that are too expensive to check are rejected."""
    aliases: Mapping[str, str]
    """Other names of properties, used if the property itself is missing."""
    _validator: jsonschema_rs.Validator

    def accepts(self, value: Any) -> bool:
        return is_json_value(value) and self.is_valid(value)

    def validate(self, args: Args, *, parsed: bool = False) -> Args:
        """Return the arguments as the tool will get them. Raises `InvalidArguments`."""
        judged = self.check(args, parsed=parsed)
        if isinstance(judged, InvalidArguments):
            raise judged
        return judged

    def check(self, args: Args, *, parsed: bool = False) -> Args | InvalidArguments:
        """Return the arguments as the tool will get them, or the error that lists the violations.

        Valid arguments are returned unchanged. Otherwise a copy is coerced: omitted nullable properties become null,
        "500" becomes 500 where a number is expected, "true" becomes true, JSON in a string is parsed, an object becomes
        a list of `{name, value}` where one is expected. `parsed` asserts that the arguments come unmodified from
        `parse_json`.
        """
        if self.untrusted and self.weight > _CHEAP_WEIGHT and not self.is_affordable(args):
            return InvalidArguments(["they are too large to be checked against a schema of this size"])
        plain = parsed or is_json_value(args)
        return args if plain and self.is_valid(args) else self.coerce(args, plain=plain)

    def is_affordable(self, value: Any) -> bool:
        """Whether checking a value stays within the cost limit for untrusted schemas."""
        values, chars, most = 0, 0, _MAX_CHECK_COST // self.weight
        waiting: list[Any] = [value]
        while waiting and values + len(waiting) <= most:
            item = waiting.pop()
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]
            values += 1
            if kind is str:
                chars += len(item)
            elif kind is dict:
                chars += sum(map(len, item))
                waiting += item.values()
            elif kind is list:
                waiting += item
        return not waiting and values * self.weight + chars // _CHARS_PER_VALUE * self.parts <= _MAX_CHECK_COST

    def coerce(self, args: Args, *, plain: bool = True) -> Args | InvalidArguments:
        """Coerce arguments that are not valid as they are; see `check`."""
        if self.aliases and type(args) is dict:
            args = _apply_aliases(args, self.aliases)
            if plain and self.is_valid(args):
                return args
        if plain and self.nullable and type(args) is dict:
            filled: Args = {**args, **{name: None for name in self.nullable if name not in args}}
            if self.is_valid(filled):
                return filled
        try:
            copy = to_json_value(args)
        except ValueError as error:
            return InvalidArguments([str(error)])
        if isinstance(copy, dict) and self._repair(cast(Args, copy)):
            return cast(Args, copy)
        return InvalidArguments(self.violations(copy))

    def violations(self, value: Any) -> list[str]:
        """Return one phrase per violation; only the first one if the value is very large."""
        try:
            plain = to_json_value(value)
        except ValueError as error:
            return [str(error)]
        if not self._is_expensive(plain):
            return explain(self._validator.iter_errors(plain), self.properties)
        try:
            self._validator.validate(plain)
        except jsonschema_rs.ValidationError as error:
            return [*explain([error], self.properties), "there may be more"]
        return []

    def _repair(self, args: Args) -> bool:
        list_pairs(args, self.source)
        fill_nullable(args, self.source)
        for _ in range(_REPAIR_ROUNDS):
            if self.is_valid(args):
                return True
            if self._is_expensive(args) or not coerce_invalid_values(args, self._validator.iter_errors(args)):
                return False
        return self.is_valid(args)

    def _is_expensive(self, value: Any) -> bool:
        return (encode_json(value).count(b",") + 1) * self.parts > _MAX_EXPLAIN_COST


def _apply_aliases(args: Args, aliases: Mapping[str, str]) -> Args:
    """Rename aliases to properties. An alias of a property that is already set stays, to be rejected."""
    renamed: Args = {name: value for name, value in args.items() if name not in aliases}
    for name in args.keys() - renamed.keys():
        new = aliases[name]
        renamed[name if new in renamed else new] = args[name]
    return renamed


def compile_schema(
    schema: JsonSchema,
    what: str,
    *,
    resources: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    untrusted: bool = False,
) -> CompiledSchema:
    """Compile a schema. Raises `InvalidSchema`.

    Nothing is fetched: a `$ref` must point inside the schema or to one of `resources` (schemas by URI).
    """
    if not isinstance(schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSchema(f"{what} must be a JSON object.")
    return compile_schema_or_bool(schema, what, resources=resources, aliases=aliases, untrusted=untrusted)


def compile_schema_or_bool(
    schema: JsonSchema | bool,
    what: str,
    *,
    resources: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    untrusted: bool = False,
) -> CompiledSchema:
    """Like `compile_schema`, but also accepts the boolean schemas `true` and `false`."""
    try:
        plain = cast(dict[str, Any] | bool, schema if is_json_value(schema) else to_json_value(schema))
    except ValueError as error:
        raise InvalidSchema(f"{what} is not JSON: {error}.") from None
    encoded = encode_json(plain)
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise InvalidSchema(f"{what} is {len(encoded):,} bytes long; at most {MAX_SCHEMA_BYTES:,} are accepted.")
    fields: dict[str, Any] = {} if isinstance(plain, bool) else plain
    refers = b'$ref"' in encoded or b'Ref"' in encoded
    parts = count_subschemas(fields, MAX_SCHEMA_PARTS) if refers else encoded.count(b"{")
    if parts > MAX_SCHEMA_PARTS:
        raise InvalidSchema(f"{what} has more than {MAX_SCHEMA_PARTS:,} subschemas once its references are expanded.")
    slow = count_subschemas(fields, MAX_SCHEMA_PARTS, _slow_patterns) if b"attern" in encoded else 0
    validator = _validator(plain, what, resources or {})
    properties = _mapping(fields.get("properties"))
    required = cast(list[str], fields.get("required") or ())
    return CompiledSchema(
        is_valid=validator.is_valid,
        source=fields,
        properties=tuple(properties),
        closed=_is_closed(fields),
        nullable=tuple(name for name in required if is_nullable(properties.get(name))),
        parts=parts,
        weight=max(1, parts + _BACKTRACK_LIMIT * slow),
        untrusted=untrusted,
        aliases=aliases or {},
        _validator=validator,
    )


def _slow_patterns(part: Mapping[str, Any]) -> int:
    """Count the patterns of one subschema that need backtracking, which is slow on any text."""
    patterns = [part.get("pattern"), *_mapping(part.get("patternProperties"))]
    return sum(isinstance(pattern, str) and _BACKTRACKING_SYNTAX.search(pattern) is not None for pattern in patterns)


def strict_problems(schema: JsonSchema, where: str = "") -> list[str]:
    """Return how a schema breaks the strict rules of providers: closed objects, all properties required."""
    problems: list[str] = []
    properties = cast(Mapping[str, Any], schema.get("properties") or {})
    if properties or schema.get("type") == "object":
        at = where or "the schema"
        if schema.get("additionalProperties") is not False:
            problems.append(f"{at} must set `additionalProperties: false`")
        missing = [name for name in properties if name not in (schema.get("required") or ())]
        if missing:
            problems.append(f"{at} must require {', '.join(missing)} (make optional ones nullable)")
    for name, part in properties.items():
        if isinstance(part, Mapping):
            problems += strict_problems(cast(JsonSchema, part), f"{where}.{name}" if where else name)
    items = schema.get("items")
    if isinstance(items, Mapping):
        problems += strict_problems(cast(JsonSchema, items), f"{where}[]")
    return problems


def _validator(schema: dict[str, Any] | bool, what: str, resources: Mapping[str, Any]) -> jsonschema_rs.Validator:
    outside: list[str] = []

    def known(uri: str) -> Any:
        if uri in resources:
            return resources[uri]
        outside.append(uri)
        raise LookupError(uri)

    meta = "" if isinstance(schema, bool) else cast(str, schema.get("$schema", ""))
    try:
        registry = jsonschema_rs.Registry([(meta, resources[meta])], retriever=known) if meta in resources else None
        return jsonschema_rs.validator_for(
            schema, retriever=known, registry=registry, pattern_options=_REGEX, mask="the value"
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        raise InvalidSchema(f"{what} cannot be used: {_compile_error(error, outside)}.") from None


def _compile_error(error: Exception, outside: list[str]) -> str:
    if outside:
        return f"it refers to {outside[0][:200]!r}, which is not fetched; copy that schema into its `$defs`"
    if isinstance(error, jsonschema_rs.ValidationError):
        at = json_path(error.instance_path)
        return f"{at}: {error.message[:200]}" if at else error.message[:200]
    return str(error).partition("\n")[0][:200]


def _mapping(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}


def _is_closed(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    listed = [kinds] if isinstance(kinds, str) else cast(list[str], kinds or [])
    return bool(listed) and all(_is_closed_kind(kind, schema) for kind in listed)


def _is_closed_kind(kind: str, schema: Mapping[str, Any]) -> bool:
    if kind == "array":
        return "prefixItems" not in schema and _is_closed(_mapping(schema.get("items")))
    if kind == "object":
        parts = _mapping(schema.get("properties"))
        closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
        return closed and all(_is_closed(_mapping(part)) for part in parts.values())
    return True
