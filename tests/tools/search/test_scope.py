"""Queries and globs."""

from __future__ import annotations

import pytest

from holdfast.tools.search.scope import BadQuery, Query, glob_matcher, parse_query
from tests.quick import quickly


@pytest.mark.spec("B2")
def test_braces_that_expand_too_far_are_refused() -> None:
    with pytest.raises(BadQuery, match="nested"):
        glob_matcher("{" * 450 + "a" + "}" * 450)
    with pytest.raises(BadQuery, match="more than 200"):
        glob_matcher("{a,b}" * 100)


@pytest.mark.spec("B2")
def test_a_hostile_glob_matches_quickly() -> None:
    with quickly():
        assert not glob_matcher("*a" * 400 + "b")("a" * 250)
        assert not glob_matcher("**/" * 300 + "x")("y/" * 1000 + "y")


@pytest.mark.parametrize(
    ("query", "words"),
    [("(?i)", "empty"), ("a\nb", "one line"), ("\ud800", "lone surrogates"), ("x" * 5000, "characters long")],
)
@pytest.mark.spec("B2")
def test_an_invalid_query_is_refused(query: str, words: str) -> None:
    with pytest.raises(BadQuery, match=words):
        parse_query(query, regex=True)


@pytest.mark.spec("B2")
def test_a_pattern_without_special_characters_becomes_a_literal() -> None:
    assert parse_query("word", regex=True) == Query("word")
    assert parse_query("(?i)Word", regex=True) == Query("Word", fold=True)
    assert parse_query("a|b", regex=True).regex
