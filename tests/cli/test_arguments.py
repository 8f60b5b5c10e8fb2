"""Arguments of a call on the command line, for arbitrary text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.arguments import parse_arguments
from holdfast.contract.errors import HoldfastError

TEXT_SCHEMA = {"properties": {"text": {"type": ["string", "null"]}, "data": {"type": "object"}}}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=10)


@pytest.mark.spec("E1b")
@given(TEXTS.filter(lambda text: not text.startswith("@")))
def test_a_word_for_a_text_argument_is_that_text_whatever_it_looks_like(text: str) -> None:
    assert parse_arguments([f"text={text}"], TEXT_SCHEMA) == {"text": text}


@pytest.mark.spec("E1b")
@given(VALUES)
def test_json_after_colon_equals_is_parsed_as_json(value: object) -> None:
    assert parse_arguments([f"data:={json.dumps(value, ensure_ascii=False)}"], TEXT_SCHEMA) == {"data": value}


@pytest.mark.spec("E1b")
@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_words_give_arguments_or_a_usage_error(words: list[str]) -> None:
    if any("@" in word for word in words) or words == ["-"]:
        return
    try:
        found = parse_arguments(words, TEXT_SCHEMA)
    except HoldfastError as error:
        found = str(error)
        sentence = found.endswith(".")
    else:
        sentence = True
    assert sentence
    assert isinstance(found, dict | str)
