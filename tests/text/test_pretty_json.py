"""Indented JSON that can be read back, whatever the value."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.pretty_json import pretty_json
from tests.text.strategies import ANY_TEXT

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_it_reads_back_as_the_value(value: object) -> None:
    assert json.loads(pretty_json(value)) == value


@given(VALUES)
def test_it_is_what_json_writes(value: object) -> None:
    assert pretty_json(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_deep_values_are_written_in_linear_space() -> None:
    value: object = 1
    for _ in range(20_000):
        value = [value]
    assert len(pretty_json(value)) < 20_000 * 60


def test_a_huge_number_is_written_whole() -> None:
    assert int(pretty_json(10**6000), 16) == 10**6000
