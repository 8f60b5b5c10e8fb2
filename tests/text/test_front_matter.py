"""YAML front matter: the subset that is read, and that nothing else is misread."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.front_matter import MAX_VALUE, BadFrontMatter, FrontMatter, read_front_matter
from tests.quick import quickly

pytestmark = pytest.mark.spec("B13c")


def front(*lines: str) -> FrontMatter:
    found = read_front_matter("\n".join(("---", *lines, "---", "", "# Body", "")))
    assert found is not None and found.body == "# Body\n"
    return found


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["k: plain"], "plain"),
        (["k: Use when: the user asks"], "Use when: the user asks"),
        (["k: plain # comment"], "plain"),
        (["k: a#b"], "a#b"),
        (["k: 'it''s # not a comment'"], "it's # not a comment"),
        (['k: "a\\nb"  # comment'], "a\nb"),
        (["k: one", "  two", "", "  three"], "one two three"),
        (["k: |", "  one", "   two", "", "  three"], "one\n two\n\nthree"),
        (["k: >-", "  one", "  two", "", "  three"], "one two\nthree"),
        (["k:", "  on the next line"], "on the next line"),
        (["# comment", "", "other:", "  - {deep: [1]}", "'k': x"], "x"),
        (["k:"], None),
        (["k: ~"], None),
        (["other: x"], None),
    ],
)
def test_a_text_is_read_as_yaml_means_it(lines: list[str], text: str | None) -> None:
    assert front(*lines).text("k") == text


@pytest.mark.parametrize(
    ("lines", "texts"),
    [
        (["k: a b"], "a b"),
        (["k: [a, 'b, c', \"d\"] # comment"], ["a", "b, c", "d"]),
        (["k: [a,", "  b]"], ["a", "b"]),
        (["k: []"], []),
        (["k: [ ]"], []),
        (["k: [ a b , c, ]"], ["a b", "c"]),
        (["k:"], []),
        (["k:", "- a", "- 'b c'  ", "  # comment", "other: x"], ["a", "b c"]),
        (["k:", "  - a # comment", "  - b"], ["a", "b"]),
        (["other: x"], None),
    ],
)
def test_a_list_of_texts_can_be_written_in_each_way(lines: list[str], texts: list[str] | str | None) -> None:
    assert front(*lines).texts("k") == texts


@pytest.mark.parametrize(
    "lines",
    [
        ["k: {a: b}"], ["k: *alias"], ["k: &anchor x"], ["k: !!str x"], ["k: 'open"], ['k: "open'], ['k: "a" b'],
        ["k: `x`"], ["k: [a]"], ["k:", "  - a"], ["k:", "  a: b"],
    ],
)  # fmt: skip
def test_other_yaml_is_refused_where_a_text_is_needed(lines: list[str]) -> None:
    with pytest.raises(BadFrontMatter, match="'k'"):
        front(*lines).text("k")


@pytest.mark.parametrize("lines", [["k: [a"], ["k: [a, [b]]"], ["k:", "  - a", "  b"], ["k:", "- [a]"], ["k:", "- "]])
def test_other_yaml_is_refused_where_a_list_is_needed(lines: list[str]) -> None:
    with pytest.raises(BadFrontMatter, match="'k'"):
        front(*lines).texts("k")


@pytest.mark.parametrize("lines", [["k: [Read # Bash", "  , Grep]"], ["k: [Read, # Bash", "  Grep]"], ["k: [Read, #]"]])
def test_a_comment_inside_a_list_in_brackets_is_refused_and_never_an_item(lines: list[str]) -> None:
    with pytest.raises(BadFrontMatter, match="'k'"):
        front(*lines).texts("k")


@pytest.mark.parametrize(
    ("before", "repeated", "after"),
    [
        ("[a", " ", "{]"), ("[", "a ", "{]"), ("['", "''", "{]"), ('["', "\\\\", "{]"), ("[a", "  ]", "x"),
        ("[", "] #", "["), ("[", " ,", "]"), ("[a", ", a", "{]"), ("a", " #", "\x00"), ("'", "' ", "x"),
        ("| ", " ", "x"),
    ],
)  # fmt: skip
def test_the_time_to_read_hostile_values_grows_with_their_length_only(before: str, repeated: str, after: str) -> None:
    value = before + repeated * ((MAX_VALUE - 10) // len(repeated)) + after
    with quickly(5):
        for read in (front(f"k: {value}").text, front(f"k: {value}").texts, front(f"k: {value}").table):
            with suppress(BadFrontMatter):
                read("k")


def test_a_value_longer_than_any_in_use_is_refused_where_it_is_needed() -> None:
    long = front(f"k: {'x' * MAX_VALUE}", f"other: [{'x' * MAX_VALUE}]")
    assert long.text("k") == "x" * MAX_VALUE
    with pytest.raises(BadFrontMatter, match=r"more than 16,384 characters at 'other' \(line 3\)"):
        long.texts("other")


def test_a_table_is_read_one_level_deep_and_is_empty_otherwise() -> None:
    assert front("k:", "  author: me", '  version: "1.0"').table("k") == {"author": "me", "version": "1.0"}
    assert front("k:", "  deep:", "    er: x").table("k") == {}
    assert front("k: {a: b}").table("k") == front("k:", "  - a").table("k") == {}


def test_a_text_without_front_matter_has_none_and_an_open_block_is_an_error() -> None:
    assert read_front_matter("# Title\n---\n") is None
    assert read_front_matter("") is None
    assert read_front_matter("\ufeff---\r\nk: v\r\n---\r\nbody\r\n") is not None
    with pytest.raises(BadFrontMatter, match="no closing"):
        read_front_matter("---\nk: v\n")


def test_a_key_that_is_there_twice_and_a_line_without_a_key_are_errors() -> None:
    with pytest.raises(BadFrontMatter, match="'k' twice"):
        front("k: a", "k: b")
    with pytest.raises(BadFrontMatter, match="line 3"):
        front("k: a", "what is this")


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=60))
def test_any_text_survives_in_quotes(text: str) -> None:
    assert front(f"k: {json.dumps(text)}").text("k") == (text or None)


@given(st.text(st.sampled_from("-'\"[]{}#|>:, \nabk\t~"), max_size=120))
def test_no_text_does_more_than_raise_one_error(text: str) -> None:
    try:
        found = read_front_matter(f"---\n{text}\n---\n")
        assert found is not None
        for key in found.entries:
            found.table(key)
            for read in (found.text, found.texts):
                try:
                    read(key)
                except BadFrontMatter:
                    continue
    except BadFrontMatter:
        pass
