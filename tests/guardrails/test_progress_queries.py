"""A phrase becomes one word to search for."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.guardrails.intent import Term
from holdfast.guardrails.progress import simplify_query
from tests.text.strategies import ANY_TEXT

SCRAPS = ["the", "fn", "Where", "is", "git", "a", "parse_line", "x", "(", "::", ".", "`", "é"]
QUERIES = ANY_TEXT | st.lists(st.sampled_from(SCRAPS)).map(" ".join)


@pytest.mark.spec("M4")
@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("parse_line", "parse_line"),
        ("  parse_line ", "parse_line"),
        ("where is parse_line", "parse_line"),
        ("Where is the Session initialized", "Session"),
        ("find SessionStore and SessionCache", "SessionStore"),
        ("session handling", "session"),
        ("fn parse_line(", "parse_line"),
        ("def parse_line", "parse_line"),
        ("pub async fn run", "run"),
        ("class Foo", "Foo"),
        ("usages of foo_bar", "foo_bar"),
        ("how initialisation implemented in Runtime", "Runtime"),
        ("Session::open()", "Session"),
        ("self.parse", "parse"),
        ("this.parse_line(x)", "parse_line"),
        ("os.path.join", "path"),
        ("re.compile", "compile"),
        ("fs.readFile", "readFile"),
        ("db.save(", "save"),
        ("git status", "git"),
        ("a && b", "a && b"),
        ("self", "self"),
        ("`parse_line`", "parse_line"),
        ('"two words"', "two"),
        ("{retry}", "retry"),
        ("path\\to", "path"),
        ("foo-bar baz", "foo-bar"),
        ("src/net", "src/net"),
        ("what is the", "what is the"),
        ("fn", "fn"),
        ("Where?", "Where?"),
        ("", ""),
        ("()", "()"),
        ("naïve Übung", "naïve"),
        ("a\u00a0retry", "retry"),
    ],
)
def test_a_phrase_becomes_its_first_word_that_says_something(query: str, word: str) -> None:
    assert simplify_query(query, ()) == word


@pytest.mark.spec("M4")
@given(query=QUERIES)
def test_what_is_left_is_one_word_of_the_query_or_all_of_it(query: str) -> None:
    word = simplify_query(query, ())
    assert word in query
    assert word == query or not re.search(r"""[\s\\()\[\]{}.,;:"'`]""", word)


@pytest.mark.spec("M4")
@given(query=QUERIES)
def test_simplifying_twice_changes_nothing_more(query: str) -> None:
    assert simplify_query(simplify_query(query, ()), ()) == simplify_query(query, ())


@pytest.mark.spec("M4")
@given(query=ANY_TEXT, name=st.sampled_from(["parse_line", "SessionStore", "retry"]))
def test_an_identifier_in_front_is_what_is_searched_for(query: str, name: str) -> None:
    assert simplify_query(f"where is the {name} {query}", ()) == name


@pytest.mark.spec("M4")
@pytest.mark.parametrize("unit", ["the ", "a", "(", "\\ ", "é.", "where\n"])
def test_a_query_of_a_megabyte_is_read_as_well(unit: str) -> None:
    assert simplify_query(unit * (1_000_000 // len(unit)) + " retry", ()) in ("retry", "é", "a" * 1_000_000)


@pytest.mark.spec("M4")
def test_a_name_of_the_message_is_the_word_to_search_for() -> None:
    assert simplify_query("session handling in open_it", ()) == "session"
    assert simplify_query("session handling in open_it", (Term("open_it"),)) == "open_it"
    assert simplify_query("session handling in open_it", (Term("handling", is_identifier=False),)) == "session"
