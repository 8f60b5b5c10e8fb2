"""Coercion, the same for every interface: only strings, only where the schema rejects a string, only on a copy."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.coercion import coerce
from holdfast.contract.errors import InvalidArguments
from holdfast.contract.schema import CompiledSchema, compile_schema

INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
BOOLEAN = {"type": "boolean"}
LIST = {"type": "array", "items": INTEGER}
OBJECT = {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}
MAYBE = {"type": ["integer", "null"]}
EITHER = {"anyOf": [INTEGER, {"type": "null"}]}
TYPES = ("integer", "number", "boolean", "null", "object", "array")


def compiled(part: Any, **more: Any) -> CompiledSchema:
    return compile_schema({"type": "object", "properties": {"a": part}, **more}, "The schema")


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("part", "value", "becomes"),
    [
        (INTEGER, "500", 500),
        (INTEGER, "-7", -7),
        (INTEGER, " 5\n", 5),
        (NUMBER, "500", 500),
        (NUMBER, "1.5", 1.5),
        (NUMBER, "-2e3", -2000.0),
        (BOOLEAN, "true", True),
        (BOOLEAN, "false", False),
        (LIST, "[1, 2]", [1, 2]),
        (LIST, ["1", 2], [1, 2]),
        (LIST, '["1"]', [1]),
        (OBJECT, '{"n": 1}', {"n": 1}),
        (OBJECT, '{"n": "1"}', {"n": 1}),
        (MAYBE, "null", None),
        (MAYBE, "3", 3),
        (EITHER, "3", 3),
        (EITHER, "null", None),
        ({"type": "array", "items": OBJECT}, [{"n": "1"}, '{"n": "2"}'], [{"n": 1}, {"n": 2}]),
    ],
)
def test_a_string_that_spells_the_expected_type_is_coerced_on_a_copy(part: Any, value: Any, becomes: Any) -> None:
    args = {"a": value}
    before = deepcopy(args)
    accepted = compiled(part).validate(args)
    assert accepted == {"a": becomes}
    assert type(accepted["a"]) is type(becomes)
    assert accepted is not args
    assert args == before


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("part", "value"),
    [
        (NUMBER, "NaN"),
        (NUMBER, "nan"),
        (NUMBER, "Infinity"),
        (NUMBER, "-inf"),
        (NUMBER, "1e400"),
        (NUMBER, ""),
        (NUMBER, "1,5"),
        (NUMBER, "1_000"),
        (NUMBER, "\uff11"),
        (INTEGER, "1.5"),
        (INTEGER, "0x10"),
        (INTEGER, "007"),
        (INTEGER, "9" * 100),
        (INTEGER, "five"),
        (INTEGER, True),
        (INTEGER, 1.5),
        (INTEGER, None),
        (INTEGER, [1]),
        (BOOLEAN, "yes"),
        (BOOLEAN, "True"),
        (BOOLEAN, 1),
        (BOOLEAN, "1"),
        ({"type": "string"}, 5),
        ({"type": "string"}, None),
        (LIST, "1, 2"),
        (LIST, "[1, 2"),
        (LIST, "[NaN]"),
        (OBJECT, '{"n": 1, "n": 2}'),
        (OBJECT, '{"m": 1}'),
        (OBJECT, "[1]"),
        ({"type": "integer", "maximum": 3}, "5"),
    ],
)
def test_any_other_mismatch_is_refused_without_coercion(part: Any, value: Any) -> None:
    args = {"a": value}
    before = deepcopy(args)
    with pytest.raises(InvalidArguments, match=r"^a"):
        compiled(part).validate(args)
    assert args == before


@pytest.mark.spec("S4")
@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"type": "string"}, "500"),
        ({"type": ["string", "integer"]}, "500"),
        ({}, "true"),
        (INTEGER, 1.0),
        ({"type": "string"}, '{"n": 1}'),
    ],
)
def test_valid_arguments_are_returned_as_the_same_object(part: Any, value: Any) -> None:
    args = {"a": value}
    schema = compiled(part)
    assert schema.validate(args) is args
    assert schema.validate(args, parsed=True) is args
    assert args == {"a": value}


@pytest.mark.spec("S4", "S6")
def test_an_omitted_nullable_property_becomes_null_and_no_default_is_invented() -> None:
    nullable = {"type": ["string", "null"], "default": "x"}
    schema = compiled(nullable, required=["a"], additionalProperties=False)
    args: dict[str, Any] = {}
    assert schema.validate(args) == {"a": None}
    assert args == {}
    assert compiled(nullable).validate(args) is args
    with pytest.raises(InvalidArguments, match="a is missing"):
        compiled({"type": "string", "default": "x"}, required=["a"]).validate({})


@pytest.mark.spec("S1", "S4")
def test_only_violations_that_could_not_be_coerced_are_reported() -> None:
    properties = {"a": INTEGER, "b": INTEGER, "c": MAYBE}
    schema = compile_schema({"type": "object", "properties": properties, "required": ["a", "b", "c"]}, "The schema")
    with pytest.raises(InvalidArguments) as caught:
        schema.validate({"a": "1", "b": "x"})
    assert caught.value.violations == ("b is 'x' but must be integer",)


@pytest.mark.spec("S4")
@given(st.text(alphabet="0123456789.eE+-nNaAifI_ tTrRuUlL[]{}", max_size=24), st.sets(st.sampled_from(TYPES)))
def test_coercion_only_returns_finite_values_of_an_expected_type(text: str, wanted: set[str]) -> None:
    value = coerce(text, wanted)
    names: dict[type, str] = {
        int: "integer", float: "number", bool: "boolean", type(None): "null", dict: "object", list: "array"
    }  # fmt: skip
    if value is not text:
        assert names[type(value)] in wanted | ({"integer"} if "number" in wanted else set())
        assert not isinstance(value, float) or math.isfinite(value)


PAIRS = {
    "type": ["array", "null"],
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "value": {"type": "string"}},
        "required": ["name", "value"],
        "additionalProperties": False,
    },
}


def test_an_object_becomes_the_list_of_pairs_that_a_strict_schema_wants() -> None:
    inner = {"type": "object", "properties": {"headers": PAIRS}, "required": ["headers"]}
    schema = compile_schema({"type": "object", "properties": {"headers": PAIRS, "inner": inner}}, "The schema")
    pairs: Any = [{"name": "Accept", "value": "x"}, {"name": "B", "value": "y"}]
    given: Any = {"headers": {"Accept": "x", "B": "y"}, "inner": {"headers": {"Accept": "x", "B": "y"}}}
    assert schema.validate(given) == {"headers": pairs, "inner": {"headers": pairs}}
    assert given["headers"] == {"Accept": "x", "B": "y"}, "the arguments of the caller stay as they are"
    assert schema.validate({"headers": pairs}) == {"headers": pairs}
    with pytest.raises(InvalidArguments, match=r"headers\[0\]"):
        schema.validate({"headers": {"A": {"nested": 1}}})
