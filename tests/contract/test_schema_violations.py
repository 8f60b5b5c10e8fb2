"""Explanations of violations: the path, the value and the expectation."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.contract.errors import InvalidArguments
from holdfast.contract.schema import CompiledSchema, compile_schema


def compiled(**properties: Any) -> CompiledSchema:
    return compile_schema({"type": "object", "properties": properties}, "The schema")


def violations(schema: CompiledSchema, args: Any) -> tuple[str, ...]:
    with pytest.raises(InvalidArguments) as caught:
        schema.validate(args)
    assert str(caught.value) == "; ".join(caught.value.violations)
    return caught.value.violations


@pytest.mark.spec("S1")
@pytest.mark.parametrize("args", ["text", "{}", [], [1], None, 1, 1.5, True])
def test_arguments_that_are_not_an_object_are_refused(args: Any) -> None:
    assert "must be object" in violations(compiled(), args)[0]


@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ({"type": "integer"}, True, "a is true but must be integer"),
        ({"type": "integer"}, 1.5, "a is 1.5 but must be integer"),
        ({"type": "string"}, 5, "a is 5 but must be string"),
        ({"type": ["null", "string"]}, [], "a is a list but must be string or null"),
        ({"type": "boolean"}, 1, "a is 1 but must be boolean"),
        ({"type": "string"}, None, "a is null but must be string"),
        ({"type": "array", "items": {"type": "object", "properties": {"b": {"minimum": 3}}}}, [{"b": 4}, {"b": 2}],
         "a[1].b is 2 but must be at least 3"),
        ({"enum": ["x", 1, None]}, "y", "a is 'y' but must be one of 'x', 1, null"),
        ({"enum": ["x"] + [None] * 99}, "y",
         f"a is 'y' but must be one of 'x', {'null, ' * 18}null or 80 others"),
        ({"const": "x"}, "y", "a is 'y' but must be 'x'"),
        ({"maxLength": 2}, "xyz", "a is 'xyz' but must have at most 2 characters"),
        ({"minItems": 2}, [1], "a is a list but must have at least 2 items"),
        ({"exclusiveMaximum": 2}, 2, "a is 2 but must be less than 2"),
        ({"pattern": "^b"}, "xyz", "a is 'xyz' but must match '^b'"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "a is 'x' but must be integer or null"),
        ({"anyOf": [{"const": "on"}, {"required": ["x"], "type": "object"}]}, {},
         "a is an object but must be 'on' or one with x"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 4, "a is 4 but must be exactly one of the allowed forms"),
        ({"uniqueItems": True}, [1, 1], "a: the value has non-unique elements"),
        ({"multipleOf": 3}, 4, "a: the value is not a multiple of 3"),
        (False, 4, "a is 4 but must not be given"),
        ({"type": "object", "additionalProperties": False}, {"b": 1}, "a takes no properties"),
        ({"type": "object", "required": ["b", "c d"]}, {}, "a.b is missing; a['c d'] is missing"),
    ],
)  # fmt: skip
def test_each_violation_names_the_path_the_value_and_the_expectation(part: Any, value: Any, sentence: str) -> None:
    assert "; ".join(violations(compiled(a=part), {"a": value})) == sentence


@pytest.mark.spec("S1")
def test_an_unknown_property_gets_a_suggestion() -> None:
    properties = {"path": {"type": "string"}, "offset": {"type": "integer"}}
    schema = compile_schema({"type": "object", "properties": properties, "additionalProperties": False}, "The schema")
    assert violations(schema, {"Path": "x"}) == ("Path is not a known property (did you mean path?)",)
    assert violations(schema, {"qqq": 1, "\x1b[2J": 2}) == (
        "qqq is not a known property; ['\\x1b[2J'] is not a known property",
    )


@pytest.mark.spec("S1")
def test_at_most_ten_violations_are_listed_and_the_rest_counted() -> None:
    found = violations(compiled(a={"items": {"type": "integer"}}), {"a": ["x"] * 25})
    assert len(found) == 11
    assert found[-1] == "and 15 more"
