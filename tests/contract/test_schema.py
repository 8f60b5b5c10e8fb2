"""Compiled schemas: the fast path fills in nulls like the slow one, and closed schemas reject infinity."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.contract.errors import InvalidArguments
from holdfast.contract.schema import compile_schema

TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null"])
NAMES = st.sampled_from(["path", "limit", "a b", "x-y", "läng"])
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | st.sampled_from(["", "5", " 7 ", "1.5", "true", "null", "NaN", "{}", "x" * 70])
    | st.just([1])
    | st.just({"a": 1})
)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(NAMES, unique=True))
    kinds = draw(st.lists(st.one_of(TYPES, st.lists(TYPES, min_size=1, unique=True)), min_size=len(names)))
    required = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in zip(names, kinds, strict=False)},
        "required": required,
        "additionalProperties": False,
    }


@given(schemas(), st.dictionaries(NAMES, VALUES))
@pytest.mark.spec("S1", "S4", "S6")
def test_the_fast_path_fills_in_nulls_like_the_slow_one(schema: dict[str, Any], args: dict[str, Any]) -> None:
    quick = compile_schema(schema, "schema")
    slow = replace(quick, nullable=())
    one, other = quick.check(dict(args)), slow.check(dict(args))
    if isinstance(one, InvalidArguments) or isinstance(other, InvalidArguments):
        assert isinstance(one, InvalidArguments)
        assert isinstance(other, InvalidArguments)
        assert one.violations == other.violations
    else:
        assert one == other
        assert list(map(type, one.values())) == [type(other[name]) for name in one]


@pytest.mark.spec("S5")
def test_a_closed_schema_rejects_infinity_by_itself() -> None:
    closed = compile_schema(
        {
            "type": "object",
            "properties": {"n": {"type": "array", "items": {"type": "number"}}},
            "additionalProperties": False,
        },
        "schema",
    )
    assert closed.closed
    assert not closed.is_valid({"n": [float("inf")]})
    anything: dict[str, Any] = {"type": "object", "properties": {"n": {}}, "additionalProperties": False}
    assert not compile_schema({"type": "object"}, "schema").closed
    assert not compile_schema(anything, "schema").closed
