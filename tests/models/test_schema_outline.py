"""Schemas of tools, reduced to one line of a prompt and to what a server can enforce."""

from __future__ import annotations

import json
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.contract.json import Json
from holdfast.models.schema_outline import enforced_schema, first_sentence, signature
from tests.models.exchanges import READ
from tests.soak import rounds


@pytest.mark.spec("M3")
def test_a_signature_is_short_whatever_the_schema() -> None:
    assert signature(READ.input_schema) == '{"path": text, "lines"?: integer}'
    assert signature({}) == "{}"
    deep: dict[str, Any] = {
        "type": "object",
        "properties": {
            "mode": {"enum": ["a", "b", None]},
            "on": {"type": "boolean"},
            "many": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "gone": {"$ref": "#/$defs/none"},
            "loop": {"$ref": "#/properties/loop"},
            "far": {"$ref": "https://example.org/schema"},
            "one": {"const": 3},
            "any": True,
        },
        "required": ["mode", "on", "many", "either", "gone", "loop", "far", "one", "any"],
    }
    assert signature(deep) == (
        '{"mode": "a" or "b", "on": boolean, "many": [{"n"?: number}, …], "either": text or integer, '
        '"gone": any, "loop": any, "far": any, "one": 3, "any": any}'
    )


def _refers(**definitions: Any) -> dict[str, Any]:
    """A schema made of references."""
    first = next(iter(definitions)).replace("~", "~0").replace("/", "~1")
    return {"type": "object", "properties": {"n": {"$ref": f"#/$defs/{first}"}}, "$defs": definitions}


_SELF = {"$ref": "#/$defs/A"}
_ANY: dict[str, Any] = {}
_WIDE: dict[str, Any] = {"type": "object", "properties": {f"k{number}": _SELF for number in range(30)}}


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        (_refers(A={"anyOf": [_SELF, {"type": "null"}]}), '{"n"?: any}'),
        (_refers(A={"anyOf": [_SELF, _SELF]}), '{"n"?: any}'),
        (
            _refers(A={"oneOf": [{"type": "string"}, {"$ref": "#/$defs/B"}]}, B={"anyOf": [_SELF, {"const": 1}]}),
            '{"n"?: text or 1}',
        ),
        (_refers(A={"allOf": [_SELF, {"type": "string"}]}), '{"n"?: text}'),
        (_refers(A={"type": "array", "items": _SELF}), '{"n"?: [[[array, …], …], …]}'),
        (_refers(A={"additionalProperties": _SELF}), '{"n"?: {NAME: {NAME: {NAME: any, …}, …}, …}}'),
        (_refers(**{"x/y~z": {"type": "string"}}), '{"n"?: text}'),
        ({"properties": {"n": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": {"type": "number"}}}, '{"n"?: number}'),
        (
            {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": _ANY}}]},
            '{"a": text, "b"?: any}',
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "{NAME: text, …}"),
        (
            {"properties": {"o": {"type": "object"}, "p": {"type": "object", "additionalProperties": True}}},
            '{"o"?: object, "p"?: object}',
        ),
        ({"anyOf": [{"properties": {"a": _ANY}}, {"properties": {"b": _ANY}}]}, '{"a"?: any} or {"b"?: any}'),
        ({"properties": [1]}, "{}"),
        (
            {"properties": {"a": {"anyOf": 5, "allOf": 5, "type": ["string", 5, "evil"]}}, "required": "a"},
            '{"a"?: text}',
        ),
    ],
)
@pytest.mark.spec("M3")
def test_a_recursive_or_malformed_schema_is_summarised_as_far_as_possible(schema: dict[str, Any], shown: str) -> None:
    assert signature(schema) == shown


HOSTILE = pytest.mark.parametrize(
    "schema",
    [
        _refers(A=_WIDE),
        _refers(A={"anyOf": [_SELF, _WIDE, *({"const": number} for number in range(300))]}),
        _refers(A={"allOf": [_SELF] * 300}),
        {"properties": {f"p{number}": {"type": "string"} for number in range(20_000)}},
        {"properties": {"a": {"enum": [f"value {number}" for number in range(20_000)]}}},
        {"properties": {"a": {"const": "x" * 100_000}, "b" * 100_000: _ANY}},
    ],
    ids=["wide", "choices", "all of itself", "properties", "values", "long"],
)


@HOSTILE
@pytest.mark.spec("M3")
def test_each_tool_takes_bounded_space_in_the_instructions(schema: dict[str, Any]) -> None:
    assert "…" in signature(schema) and len(signature(schema)) <= 600


@pytest.mark.spec("M3")
def test_a_description_is_reduced_to_its_first_sentence() -> None:
    assert first_sentence("Reads a\n file. Never writes.") == "Reads a file."
    assert first_sentence("e.g. \x1b[2J") == "e.g."
    assert len(first_sentence("word " * 100)) == 120


TEXT: dict[str, Any] = {"type": "string"}


def closed(required: str = "", **properties: Any) -> dict[str, Any]:
    shape = {"type": "object", "properties": properties, "required": required.split()}
    return {**shape, "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "enforced"),
    [
        (READ.input_schema, closed("path", path=TEXT, lines={"type": "integer"})),
        ({}, {"type": "object"}),
        ({"type": "object"}, {"type": "object"}),
        ({"anyOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]}, {"type": "object"}),
        (closed(), closed()),
        (closed(label=TEXT), closed()),
        (closed("label", label=TEXT), closed("label", label=TEXT)),
        ({"properties": {"a": TEXT}, "required": ["a", "b"]}, closed("a b", a=TEXT, b={})),
        (closed("a", a={"type": ["string", "null"]}), closed(a=TEXT)),
        (closed(a={"type": ["string", "integer"]}), closed(a={"anyOf": [TEXT, {"type": "integer"}]})),
        (closed(a={"enum": ["x", None]}), closed(a={"enum": ["x"]})),
        (closed(a={"enum": [None]}), closed(a={"enum": [None]})),
        (closed(a={"enum": []}), closed(a={})),
        (closed(a={"anyOf": [TEXT, {}]}), closed(a={})),
        (closed(a={"anyOf": [{"type": "null"}]}), closed(a={})),
        (closed(a={"type": "string", "properties": {}}), closed(a=TEXT)),
        (closed(a={"type": ["object", "string"], "properties": {}}), closed(a={"anyOf": [closed(), TEXT]})),
        (closed(a={"type": "array", "items": TEXT}), closed(a={"type": "array", "items": TEXT})),
        (closed(a={"type": "array", "prefixItems": [{}], "items": TEXT}), closed(a={"type": "array", "items": {}})),
        (
            {"properties": {"a": TEXT}, "additionalProperties": {"type": "integer"}},
            {"type": "object", "properties": {"a": TEXT}, "required": []},
        ),
        (
            {"properties": {"a": TEXT}, "anyOf": [{"properties": {"b": TEXT}}]},
            {"type": "object", "properties": {"a": TEXT}, "required": []},
        ),
        ({"properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]}, closed(a=TEXT)),
        (
            {"allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}}]},
            closed("a", a=TEXT, b=TEXT),
        ),
    ],
)
@pytest.mark.spec("M3b")
def test_the_shape_of_a_schema_is_enforced(schema: dict[str, Any], enforced: dict[str, Any]) -> None:
    assert enforced_schema(schema) == enforced


@HOSTILE
@pytest.mark.spec("M3b")
def test_a_server_gets_a_schema_of_bounded_size_and_depth(schema: dict[str, Any]) -> None:
    made = enforced_schema(schema)
    assert len(json.dumps(made)) < 30_000
    jsonschema.Draft202012Validator.check_schema(made)


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from(("", "a", "ab")))
_NAMES = st.sampled_from(("a", "b", "c"))


def _schemas(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    simple = st.one_of(
        st.sampled_from(("string", "integer", "number", "boolean", "null")).map(lambda name: {"type": name}),
        st.lists(st.sampled_from(("string", "integer", "null")), unique=True, min_size=1).map(
            lambda all_: {"type": all_}
        ),
        st.lists(_VALUES, min_size=1, max_size=3).map(lambda values: {"enum": values}),
        _VALUES.map(lambda value: {"const": value}),
        st.just({}),
        st.just({"$ref": "#/$defs/shared"}),
        st.just({"type": "string", "minLength": 1, "pattern": "^a"}),
    )
    if depth == 0:
        return simple
    inner = _schemas(depth - 1)
    return st.one_of(
        simple,
        inner.map(lambda items: {"type": "array", "items": items}),
        st.lists(inner, min_size=1, max_size=3).flatmap(
            lambda options: st.sampled_from(("anyOf", "oneOf")).map(lambda key: {key: options})
        ),
        _objects(inner),
        st.lists(_objects(inner, closed=False), min_size=1, max_size=3).map(
            lambda parts: {"allOf": parts, "unevaluatedProperties": False}
        ),
    )


def _objects(inner: st.SearchStrategy[dict[str, Any]], *, closed: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    shape = st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(_NAMES, inner, max_size=3),
            "required": st.lists(_NAMES, unique=True, max_size=2),
        }
    )
    return shape.map(lambda made: {**made, "additionalProperties": False}) if closed else shape


def _without_null(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_null(item) for name, item in value.items() if item is not None}
    return [_without_null(item) for item in value if item is not None] if isinstance(value, list) else value


_ARGUMENTS = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=3), max_leaves=6
)


@given(
    _objects(_schemas(2)),
    _schemas(0),
    st.lists(st.dictionaries(_NAMES, _ARGUMENTS, max_size=3), min_size=1, max_size=8),
)
@settings(max_examples=rounds(50, 3000), deadline=None)
@pytest.mark.spec("M3b")
def test_whatever_a_schema_accepts_can_be_written_without_its_nulls(
    schema: dict[str, Any], shared: dict[str, Any], tried: list[dict[str, Json]]
) -> None:
    whole = {**schema, "$defs": {"shared": {} if "$ref" in shared else shared}}
    enforced = enforced_schema(whole)
    jsonschema.Draft202012Validator.check_schema(enforced)
    original, ours = (cast(Any, jsonschema.Draft202012Validator(each)) for each in (whole, enforced))
    for each in tried:
        args = cast(dict[str, Json], _without_null(each))
        if original.is_valid(args):
            assert ours.is_valid(args), (args, enforced)


_KEYS = st.sampled_from(("type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS | st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(_KEYS, _JSON, max_size=6))
@settings(max_examples=rounds(40, 2000), deadline=None)
@pytest.mark.spec("M3b")
def test_any_json_in_place_of_a_schema_gives_an_object_schema(schema: dict[str, Any]) -> None:
    made = enforced_schema(schema)
    assert made["type"] == "object"
    assert len(json.dumps(made)) < 30_000
    jsonschema.Draft202012Validator.check_schema(made)
    assert len(signature(schema)) <= 600
