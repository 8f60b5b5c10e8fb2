"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.suggest import did_you_mean
from tests.quick import quickly

TOOLS = ["bash", "read", "write", "edit", "grep", "find", "ls", "file.read", "file.write"]


@pytest.mark.spec("R6")
@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("raed", "read"),
        ("wrte", "write"),
        ("BASH", "bash"),
        ("file.raed", "file.read"),
        ("fil.reads", "file.read"),
        ("kubernetes", None),
        ("l", None),
        ("", None),
        ("xy", None),
    ],
)
def test_a_known_name_within_a_few_edits_is_suggested(word: str, meant: str | None) -> None:
    assert did_you_mean(word, TOOLS) == meant


@pytest.mark.spec("R6")
def test_of_equally_close_names_the_one_that_sorts_first_is_suggested() -> None:
    assert did_you_mean("cart", ["care", "card", "carp"]) == "card"
    assert did_you_mean("cart", ["carp", "card", "care"]) == "card"


@pytest.mark.spec("R6")
def test_the_word_itself_is_not_suggested() -> None:
    assert did_you_mean("read", ["read"]) is None
    assert did_you_mean("read", ["read", "Read"]) == "Read"


def levenshtein(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        new = [i]
        for j, b in enumerate(right, 1):
            new.append(min(row[j] + 1, new[-1] + 1, row[j - 1] + (a != b)))
        row = new
    return row[-1]


SHORT = st.text("abc", max_size=7)


@pytest.mark.spec("R6")
@given(SHORT, st.lists(SHORT, max_size=6))
def test_the_suggestion_is_the_closest_name_within_three_edits(word: str, known: list[str]) -> None:
    close = [(levenshtein(word, name), name) for name in known if name != word]
    close = [(edits, name) for edits, name in close if edits <= 3 and edits < len(word)]
    assert did_you_mean(word, known) == (min(close)[1] if close else None)


@pytest.mark.spec("R6")
def test_ten_thousand_names_are_searched_quickly() -> None:
    names = [f"mcp:server{number % 97}:tool_{number}" for number in range(10_000)]
    with quickly():
        assert did_you_mean("mcp:servr5:tool_4952", names) is not None
        assert did_you_mean("x" * 1_000_000, names) is None
