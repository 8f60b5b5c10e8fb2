"""JSON Schema: compile once, accept or explain, repair harmless slips. Validation is jsonschema-rs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import jsonschema_rs
from msgspec import Struct

from holdfast.contract.coerce import coerce_errors, fill_nullable
from holdfast.contract.errors import InvalidArguments, InvalidSchema
from holdfast.contract.explain import explain
from holdfast.contract.flat import FlatSchema, flat_schema
from holdfast.contract.plain import is_plain, path_of, plain_copy
from holdfast.contract.unfold import unfolded_parts
from holdfast.contract.values import Args, encode_json

JsonSchema = Mapping[str, Any]

MAX_SCHEMA_BYTES: Final = 1024 * 1024
MAX_SCHEMA_PARTS: Final = 100_000
_MAX_LABOUR: Final = 50_000
"""Values times schema parts up to which every violation is looked for; each may cost some 10 µs."""
_MOST_LABOUR: Final = 20_000_000
"""Values times weight that a schema from elsewhere may cost at all: a few tenths of a second."""
_LIGHT: Final = 1000
"""Weights for which no arguments are too many."""
_BACKTRACKING: Final = 20_000
"""What one pattern that can go back weighs, in parts."""
_GOES_BACK: Final = re.compile(r"\(\?[=!<>(]|\\[1-9k]")
_TEXT_AS_VALUES: Final = 16
"""Characters of a text that take as long as a value."""
_REPAIR_ROUNDS: Final = 3
_REGEX: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKING)
"""Plain patterns run in linear time; those with look-around or back-references give up after this many steps."""


class CompiledSchema(Struct, frozen=True):
    """A schema ready to judge arguments."""

    is_valid: Callable[[Any], bool]
    source: Mapping[str, Any]
    properties: tuple[str, ...]
    closed: bool
    """Every value it lets through has a declared scalar type, so that it refuses infinity by itself."""
    flat: FlatSchema | None
    parts: int
    """Subschemas, counted with every reference written out."""
    weight: int
    """What it may cost to check one value, in parts."""
    foreign: bool
    """A stranger wrote it: what would take too long to check is refused unchecked."""
    renames: Mapping[str, str]
    """Names that stand for properties, where these are not given."""
    _validator: jsonschema_rs.Validator

    def accepts(self, value: Any) -> bool:
        return is_plain(value) and self.is_valid(value)

    def accept(self, args: Args, *, parsed: bool = False) -> Args:
        """The arguments as the tool will get them; raises what `judge` finds wrong."""
        judged = self.judge(args, parsed=parsed)
        if isinstance(judged, InvalidArguments):
            raise judged
        return judged

    def judge(self, args: Args, *, parsed: bool = False) -> Args | InvalidArguments:
        """The arguments as the tool will get them, or the error with each violation named by path.

        A valid value is returned as it is. Otherwise, on a copy: omitted nullable properties become null,
        "500" becomes 500 where a number is wanted, "true" becomes true, JSON in a string becomes that JSON.
        `parsed` promises that the arguments came from `parse_json` and nobody changed them since.
        """
        if self.foreign and self.weight > _LIGHT and not self.affords(args):
            return InvalidArguments(["they hold more than can be checked against a schema as large as this one"])
        plain = parsed or is_plain(args)
        return args if plain and self.is_valid(args) else self.mend(args, plain=plain)

    def affords(self, value: Any) -> bool:
        """Whether checking a value takes no longer than anybody should have to wait for it."""
        values, chars, most = 0, 0, _MOST_LABOUR // self.weight
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
        return not waiting and values * self.weight + chars // _TEXT_AS_VALUES * self.parts <= _MOST_LABOUR

    def mend(self, args: Args, *, plain: bool = True) -> Args | InvalidArguments:
        """What `judge` makes of arguments the schema refuses as they are."""
        if self.renames and type(args) is dict:
            args = _renamed(args, self.renames)
            if plain and self.is_valid(args):
                return args
        if plain and self.flat is not None and type(args) is dict:
            repaired = self.flat.judge(args)
            if isinstance(repaired, InvalidArguments) or self.is_valid(repaired):
                return repaired
        try:
            copy = plain_copy(args)
        except ValueError as error:
            return InvalidArguments([str(error)])
        if isinstance(copy, dict) and self._repair(cast(Args, copy)):
            return cast(Args, copy)
        return InvalidArguments(self.violations(copy))

    def violations(self, value: Any) -> list[str]:
        """What is wrong with a value, one sentence each; of a very large one only the first."""
        try:
            plain = plain_copy(value)
        except ValueError as error:
            return [str(error)]
        if not self._is_laborious(plain):
            return explain(self._validator.iter_errors(plain), self.properties)
        try:
            self._validator.validate(plain)
        except jsonschema_rs.ValidationError as error:
            return [*explain([error], self.properties), "there may be more"]
        return []

    def _repair(self, args: Args) -> bool:
        fill_nullable(args, self.source)
        for _ in range(_REPAIR_ROUNDS):
            if self.is_valid(args):
                return True
            if self._is_laborious(args) or not coerce_errors(args, self._validator.iter_errors(args)):
                return False
        return self.is_valid(args)

    def _is_laborious(self, value: Any) -> bool:
        return (encode_json(value).count(b",") + 1) * self.parts > _MAX_LABOUR


def _renamed(args: Args, renames: Mapping[str, str]) -> Args:
    """What has another name under the schema's; a second value for the same property keeps its name, to be refused."""
    renamed: Args = {name: value for name, value in args.items() if name not in renames}
    for name in args.keys() - renamed.keys():
        new = renames[name]
        renamed[name if new in renamed else new] = args[name]
    return renamed


def compile_schema(
    schema: JsonSchema,
    what: str,
    *,
    resources: Mapping[str, Any] | None = None,
    renames: Mapping[str, str] | None = None,
    foreign: bool = False,
) -> CompiledSchema:
    """Compile a schema, or raise `InvalidSchema`.

    Nothing is ever fetched: a `$ref` may point inside the schema or to one of `resources`, schemas by their URI.
    """
    if not isinstance(schema, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSchema(f"{what} must be a JSON object.")
    return compile_any(schema, what, resources=resources, renames=renames, foreign=foreign)


def compile_any(
    schema: JsonSchema | bool,
    what: str,
    *,
    resources: Mapping[str, Any] | None = None,
    renames: Mapping[str, str] | None = None,
    foreign: bool = False,
) -> CompiledSchema:
    """`compile_schema` for parts of schemas too, where `true` and `false` are schemas."""
    try:
        plain = cast(dict[str, Any] | bool, schema if is_plain(schema) else plain_copy(schema))
    except ValueError as error:
        raise InvalidSchema(f"{what} is not JSON: {error}.") from None
    encoded = encode_json(plain)
    if len(encoded) > MAX_SCHEMA_BYTES:
        raise InvalidSchema(f"{what} is {len(encoded):,} bytes long; at most {MAX_SCHEMA_BYTES:,} are accepted.")
    fields: dict[str, Any] = {} if isinstance(plain, bool) else plain
    refers = b'$ref"' in encoded or b'Ref"' in encoded
    parts = unfolded_parts(fields, MAX_SCHEMA_PARTS) if refers else encoded.count(b"{")
    if parts > MAX_SCHEMA_PARTS:
        raise InvalidSchema(f"{what} has more than {MAX_SCHEMA_PARTS:,} parts once its references are written out.")
    slow = unfolded_parts(fields, MAX_SCHEMA_PARTS, _slow_patterns) if b"attern" in encoded else 0
    validator = _validator(plain, what, resources or {})
    properties = _mapping(fields.get("properties"))
    flat = flat_schema(fields)
    return CompiledSchema(
        is_valid=validator.is_valid,
        source=fields,
        properties=tuple(properties),
        closed=flat is not None or _is_closed(fields),
        flat=flat,
        parts=parts,
        weight=max(1, parts + _BACKTRACKING * slow),
        foreign=foreign,
        renames=renames or {},
        _validator=validator,
    )


def _slow_patterns(part: Mapping[str, Any]) -> int:
    """How many patterns of one part can go back, which is slow on every text."""
    patterns = [part.get("pattern"), *_mapping(part.get("patternProperties"))]
    return sum(isinstance(pattern, str) and _GOES_BACK.search(pattern) is not None for pattern in patterns)


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
        raise InvalidSchema(f"{what} cannot be used: {_why(error, outside)}.") from None


def _why(error: Exception, outside: list[str]) -> str:
    if outside:
        return f"it refers to {outside[0][:200]!r}, and nothing is fetched; copy that schema into its `$defs`"
    if isinstance(error, jsonschema_rs.ValidationError):
        at = path_of(error.instance_path)
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
