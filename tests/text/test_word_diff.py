"""The changed words of a pair of lines, and the limits of looking for them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.word_diff import MAX_CHARS, Range, WordDiff
from tests.text.strategies import ANY_TEXT

WORDS = st.lists(st.sampled_from(("a", "b", " ", "(", "é", "\u0301", "‹\\x1b›")), max_size=40).map("".join)


def rest(text: str, ranges: list[Range]) -> str:
    """The text without the ranges, and without white space, which ranges may join across."""
    kept = "".join(char for at, char in enumerate(text) if not any(low <= at < high for low, high in ranges))
    return "".join(kept.split())


def words(old: str, new: str) -> tuple[list[str], list[str]] | None:
    found = WordDiff().changed(old, new)
    if found is None:
        return None
    return [old[low:high] for low, high in found.old], [new[low:high] for low, high in found.new]


@given(WORDS | ANY_TEXT, WORDS | ANY_TEXT)
def test_the_ranges_are_in_order_and_the_rest_is_equal(old: str, new: str) -> None:
    found = WordDiff().changed(old, new)
    if found is None:
        return
    for text, ranges in ((old, found.old), (new, found.new)):
        ends = [end for pair in ranges for end in pair]
        assert ends == sorted(set(ends)) and (not ends or ends[-1] <= len(text))
    assert rest(old, found.old) == rest(new, found.new)


def test_changed_words_are_found() -> None:
    assert words("x = old(a, b)", "x = new(a, b)") == (["old"], ["new"])
    assert words("return a", "return a, b") == ([], [", b"])
    assert words("one two three four", "one 2 three 4") == (["two", "four"], ["2", "4"])


def test_neighbouring_words_are_one_range() -> None:
    assert words("keep this and old words", "keep this and new text") == (["old words"], ["new text"])


def test_an_escape_is_one_word() -> None:
    assert words("value ‹\\x1b› here", "value ‹\\x1c› here") == (["‹\\x1b›"], ["‹\\x1c›"])


def test_different_lines_have_no_changed_words() -> None:
    assert words("import os", "def main(): pass") is None


def test_long_lines_are_not_compared() -> None:
    diff = WordDiff()
    assert diff.changed("x " * MAX_CHARS, "y " * MAX_CHARS) is None
    assert diff.left == WordDiff().left


def test_the_work_for_all_pairs_is_bounded() -> None:
    diff = WordDiff()
    pairs = [("a b " * 20 + str(number), "b a " * 20 + str(number + 1)) for number in range(2000)]
    compared = sum(diff.changed(*pair) is not None for pair in pairs)
    assert compared < 100
    assert diff.left < 10_000
