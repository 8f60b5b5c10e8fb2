"""Namespaces of objects, and the division of their texts."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.contract.errors import MemoryRefused
from holdfast.contract.memory import check_namespace
from holdfast.tools.storage.memory_items import check_base, divide, item_contents, object_namespace
from holdfast.tools.storage.records import Source

KEYS = st.text(min_size=1, max_size=60) | st.text(alphabet="aB/.-_ x2", min_size=1, max_size=60)
BUCKETS = st.from_regex(r"[a-z0-9][a-z0-9.-]{1,20}[a-z0-9]", fullmatch=True)
BASES = st.sampled_from(["n", "global/knowledge", "a/b/c/d/e/f/g", "x" * 60 + "/" + "y" * 60])


@pytest.mark.spec("B9k")
@pytest.mark.parametrize(
    ("key", "namespace"),
    [
        ("docs/a.md", "n/bucket/docs/a.md"),
        ("a", "n/bucket/a"),
        ("1/2/3/4/5/6", "n/bucket/1/2/3/4/5/6"),
    ],
)
def test_a_key_that_is_a_namespace_stays_as_it_is(key: str, namespace: str) -> None:
    assert object_namespace("n", "bucket", key) == namespace


@pytest.mark.spec("B9k")
@pytest.mark.parametrize(
    ("key", "start"),
    [
        ("README.md", "n/bucket/readme.md-"),
        ("Docs/My File.txt", "n/bucket/docs/my-file.txt-"),
        ("ключ", "n/bucket/"),
        ("a//b", "n/bucket/a/b-"),
        ("1/2/3/4/5/6/7/8", "n/bucket/1/2/3/4/5/8-"),
        ("a" * 300, "n/bucket/" + "a" * 37 + "-"),
    ],
)
def test_any_other_key_gets_a_hash_of_itself(key: str, start: str) -> None:
    found = object_namespace("n", "bucket", key)
    assert found.startswith(start)
    assert len(found.rpartition("/")[2].rpartition("-")[2]) == 26


@pytest.mark.spec("B9k")
def test_a_key_that_imitates_a_hashed_namespace_does_not_get_it() -> None:
    hashed = object_namespace("n", "bucket", "README.md")
    imitation = hashed.removeprefix("n/bucket/")
    assert object_namespace("n", "bucket", imitation) != hashed


@pytest.mark.spec("B9k")
@given(BASES, st.tuples(BUCKETS, KEYS), st.tuples(BUCKETS, KEYS))
@example("n", ("bkt", "a b"), ("bkt", "a-b"))
@example("n", ("bkt", "A"), ("bkt", "a"))
@example("n", ("bkt", "a/"), ("bkt", "a"))
@example("n", ("bkt", "a/b"), ("bkt", "a//b"))
def test_every_namespace_is_valid_and_no_two_objects_share_one(
    base: str, one: tuple[str, str], other: tuple[str, str]
) -> None:
    first, second = object_namespace(base, *one), object_namespace(base, *other)
    assert check_namespace(first).startswith(f"{base}/")
    assert (first == second) == (one == other)


@pytest.mark.spec("B9k")
@pytest.mark.parametrize("base", ["a/b/c/d/e/f/g/h", "../x", "x" * 64 + "/" + "y" * 64 + "/" + "z" * 20])
def test_a_base_without_room_is_refused(base: str) -> None:
    with pytest.raises(MemoryRefused):
        check_base(base)


@pytest.mark.spec("B9l")
@given(st.text(max_size=400), st.integers(4, 120))
def test_the_parts_are_the_text_and_none_is_too_large(text: str, most: int) -> None:
    parts = list(divide(text, most))
    assert "".join(parts) == text
    assert all(0 < len(part.encode()) <= most for part in parts)


@pytest.mark.spec("B9l")
def test_a_text_is_divided_between_paragraphs_then_lines_then_sentences_then_words() -> None:
    assert list(divide("one two\n\nthree four", 14)) == ["one two\n\n", "three four"]
    assert list(divide("one two\nthree four", 14)) == ["one two\n", "three four"]
    assert list(divide("It is so. And then", 14)) == ["It is so. ", "And then"]
    assert list(divide("one two three four", 14)) == ["one two three ", "four"]
    assert list(divide("o" * 20, 14)) == ["o" * 14, "o" * 6]


@pytest.mark.spec("B9l")
@given(st.text(max_size=3000), st.text(min_size=1, max_size=100), st.integers(40, 5000))
def test_no_item_is_larger_than_the_memory_allows(text: str, key: str, most: int) -> None:
    contents = item_contents(Source("http://s", "bucket", key, "n"), text, most)
    assert all(len(content.encode()) <= most and content.strip() for content in contents)
    assert bool(contents) == bool(text.strip())
    assert len(set(contents)) == len(contents)


@pytest.mark.spec("B9l")
def test_each_item_names_its_object_on_one_line() -> None:
    contents = item_contents(Source("http://s", "bucket", "a\nb", "n"), "text", 1000)
    assert contents == ["From s3://bucket/a↵b:\n\ntext"]
