"""Invalid, ambiguous and hostile JSON, as text and as Python objects."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
from types import MappingProxyType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.coercion import MAX_DEPTH, is_json_value, json_path, to_json_value
from holdfast.contract.errors import BadJson, InvalidArguments
from holdfast.contract.json import MAX_ARGUMENT_BYTES, canonical_json, digest_of, parse_json
from holdfast.contract.schema import compile_schema
from tests.quick import quickly

ANYTHING = compile_schema({"type": "object"}, "The schema")
CLOSED = compile_schema(
    {"type": "object", "properties": {"a": {"type": ["number", "string"]}}, "additionalProperties": False}, "The schema"
)


def nested(levels: int, *, kind: type = list) -> Any:
    value: Any = kind()
    for _ in range(levels - 1):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.spec("S5")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"path": "a", "path": "/etc/passwd"}', 'duplicate key "path"'),
        ('{"a": {"b": 1, "b": 2}}', 'duplicate key "b"'),
        ('{"a": 1, "\\u0061": 2}', 'duplicate key "a"'),
        ("[" * 10_000 + "]" * 10_000, "nested more than 200 levels deep"),
        ("[" * 100_000, "nested more than 200 levels deep"),
        ('{"a":' * 10_000 + "1" + "}" * 10_000, "nested more than 200 levels deep"),
        ('{"a": NaN}', "not valid JSON"),
        ("[Infinity]", "not valid JSON"),
        ("[-Infinity]", "not valid JSON"),
        ('{"a": 1e400}', "too large for a float"),
        ('{"a": {"b": [0.5, -1E+999]}}', "too large for a float"),
        (f"[{'9' * 400}.5]", "too large for a float"),
        (f"[{10**30}, 1e400]", "too large for a float"),
        (f"[{'9' * 5000}]", "number out of range"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        ('["\\udc00\\ud800"]', "surrogate"),
        ('{"\\ud800": 1}', "not valid JSON"),
        ('["\ud800"]', "a lone surrogate"),
        ('["\x00"]', "control character"),
        ("\ufeff{}", "byte order mark"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16"),
        ('{"a": 1}'.encode("utf-16-le"), "UTF-16"),
        ('{"a": 1}'.encode("utf-16-be"), "UTF-16"),
        (b'["\xff"]', "not valid JSON"),
        (b'["\xed\xa0\x80"]', "not valid JSON"),
        ("", "not valid JSON"),
        ("{} {}", "trailing characters"),
        ("[1,]", "trailing comma"),
        ("{'a': 1}", "not valid JSON"),
        ("[01]", "invalid number"),
        ("[0x10]", "not valid JSON"),
        ("[1] // comment", "trailing characters"),
    ],
)
def test_invalid_and_ambiguous_json_is_refused_with_the_reason(text: str | bytes, why: str) -> None:
    with quickly(), pytest.raises(BadJson, match=why) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 300


@pytest.mark.spec("S5")
def test_text_over_the_size_limit_is_refused_before_parsing() -> None:
    text = '"' + "x" * 100_000_000 + '"'
    with quickly(1), pytest.raises(BadJson, match="100,000,002 bytes long; at most 16,777,216"):
        parse_json(text)
    with quickly(), pytest.raises(BadJson, match="bytes long"):
        parse_json('"' + "é" * (MAX_ARGUMENT_BYTES // 2) + '"')


@pytest.mark.spec("S5")
def test_a_duplicate_key_of_any_length_gives_a_short_message() -> None:
    key = "k" * 1_000_000
    with quickly(), pytest.raises(BadJson, match="duplicate key") as caught:
        parse_json(f'{{"{key}": 1, "{key}": 2}}')
    assert len(str(caught.value)) < 300


def test_unusual_but_valid_json_is_parsed() -> None:
    assert parse_json('["\\u0000", "\\ud83d\\ude00", -0, 1E5]') == ["\x00", "😀", 0, 1e5]
    assert parse_json(f"[{10**100}]") == [10**100]
    assert parse_json('["\x7f", -16, 0, 0, 0, 0, 0, 0, 0, 1.7976931348623157e308]') is not None
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH) == nested(MAX_DEPTH)


def _is_finite(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_finite, cast(list[Any], value)))
    return not isinstance(value, float) or math.isfinite(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_finite_values_round_trip_and_others_are_refused(value: Any) -> None:
    text = json.dumps(value)
    if not _is_finite(value):
        with pytest.raises(BadJson):
            parse_json(text)
    else:
        assert parse_json(text) == value


class Colour(enum.StrEnum):
    RED = "red"


class Word(str):
    __slots__ = ()


LOOP: dict[str, Any] = {}
LOOP["a"] = [LOOP, LOOP]

NOT_JSON = [
    (math.nan, "a is nan"),
    (math.inf, "a is inf"),
    (-math.inf, "a is -inf"),
    ([1, {"b": math.inf}], r"a\[1\].b is inf"),
    (10**5000, "a is a number with more than 4,300 digits"),
    (-(10**5000), "a is a number with more than 4,300 digits"),
    ("\ud800", "a is text with a lone surrogate"),
    (["x", "\udfff"], r"a\[1\] is text with a lone surrogate"),
    ({"\ud800": 1}, "a is an object with a key that is not a valid string"),
    ({1: 2}, "a is an object with a key that is not a valid string"),
    ({True: 2}, "a is an object with a key that is not a valid string"),
    (b"bytes", "a is a Python bytes"),
    ({1, 2}, "a is a Python set"),
    (decimal.Decimal("1.5"), "a is a Python Decimal"),
    (decimal.Decimal("NaN"), "a is a Python Decimal"),
    (datetime.date(2020, 1, 1), "a is a Python date"),
    (1j, "a is a Python complex"),
    (object(), "a is a Python object"),
    (nested(MAX_DEPTH), "nested more than 200 levels deep"),
    (nested(10_000), "nested more than 200 levels deep"),
    (nested(10_000, kind=dict), "nested more than 200 levels deep"),
    (LOOP, "nested more than 200 levels deep"),
]


@pytest.mark.spec("S5")
@pytest.mark.parametrize("schema", [ANYTHING, CLOSED], ids=["untyped", "typed"])
@pytest.mark.parametrize(("value", "why"), NOT_JSON, ids=[f"{number}" for number in range(len(NOT_JSON))])
def test_objects_that_json_cannot_represent_are_refused_with_their_path(schema: Any, value: Any, why: str) -> None:
    assert not is_json_value({"a": value})
    assert not schema.accepts({"a": value})
    with quickly(), pytest.raises(InvalidArguments, match=why):
        schema.validate({"a": value})


@pytest.mark.spec("S4")
def test_subclasses_of_json_types_become_plain_types_on_a_copy() -> None:
    given_args: Any = {"a": (1, Word("x"), Colour.RED), "b": MappingProxyType({"c": Word("y")})}
    accepted = ANYTHING.validate(given_args)
    assert accepted == {"a": [1, "x", "red"], "b": {"c": "y"}}
    assert is_json_value(accepted)
    assert type(given_args["a"]) is tuple


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_the_copy_of_a_json_value_equals_it(value: Any) -> None:
    if is_json_value(value):
        assert to_json_value(value) == value
    else:
        with pytest.raises(ValueError, match="JSON cannot represent"):
            to_json_value(value)


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_nan_and_infinity_have_no_digest(number: float) -> None:
    with pytest.raises(BadJson, match="cannot be represented in JSON"):
        digest_of({"a": [number]})


def test_the_canonical_form_ignores_key_order_and_integral_floats() -> None:
    assert canonical_json({"b": 1.0, "a": [2, -0.0]}) == canonical_json({"a": [2.0, 0], "b": 1}) == b'{"a":[2,0],"b":1}'
    assert digest_of({"a": 1}) != digest_of({"a": "1"})
    assert digest_of({"a": 1}) != digest_of({"a": True})


def test_paths_use_dots_and_brackets_and_quote_unusual_names() -> None:
    assert json_path(["edits", 0, "new-text"]) == "edits[0].new-text"
    assert json_path(["a.b", "\x1b[2J"]) == "['a.b']['\\x1b[2J']"
    assert len(json_path(["x" * 10_000])) == 80
