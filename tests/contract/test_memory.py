"""Namespaces of the memory, and the state that a proposal is bound to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.contract.errors import MemoryRefused
from holdfast.contract.memory import MemoryItem, Provenance, check_namespace, matches_namespace
from tests.quick import quickly

ITEM = MemoryItem(id="a", namespace="n", content="c", created=1.0, updated=1.0, provenance=Provenance())


@pytest.mark.parametrize("name", ["a", "user/profile", "a.b/c-d/e_f", "0", "project/2026-05", "x" * 64])
def test_plain_names_are_namespaces(name: str) -> None:
    assert check_namespace(name) == name


@pytest.mark.spec("B8e")
@pytest.mark.parametrize(
    "name",
    [
        "", "/", "a/", "/a", "a//b", "..", "../a", "a/../b", "a/..", ".", "./a", ".hidden", "a.", "a..b", "-a", "a\\b",
        "A", "Ünïcode", "ａ", "a b", "a\n", "a\x00", "a\u202eb", "~", "~/x", "c:", "*", "a/*", "%2e%2e", "x" * 65,
        "/".join("abcdefghi"), "a/" * 120 + "a", "x" * 10_000_000,
    ],
    ids=lambda name: ascii(name)[:20],
)  # fmt: skip
def test_path_tricks_and_look_alikes_are_refused_in_one_short_sentence(name: str) -> None:
    with quickly(5), pytest.raises(MemoryRefused, match="is not a namespace") as refusal:
        check_namespace(name)
    assert len(str(refusal.value)) < 700 and "\n" not in str(refusal.value)


@given(st.text(max_size=40))
def test_an_accepted_namespace_is_plain_ascii_without_dot_parts(name: str) -> None:
    try:
        accepted = check_namespace(name)
    except MemoryRefused:
        return
    assert accepted.isascii() and accepted == accepted.lower() and ".." not in accepted
    assert all(part and not part.startswith(".") for part in accepted.split("/"))


@pytest.mark.parametrize(
    ("patterns", "matching", "others"),
    [
        (("*",), ["a", "a/b"], []),
        (("user/*",), ["user/a", "user/a/b"], ["user", "users/a"]),
        (("a", "b*"), ["a", "b", "bc/d"], ["ab", "c"]),
        ((), [], ["a"]),
        (("a.b",), ["a.b"], ["axb"]),
    ],
)
def test_patterns_match_whole_namespaces(patterns: tuple[str, ...], matching: list[str], others: list[str]) -> None:
    assert all(matches_namespace(name, patterns) for name in matching)
    assert not any(matches_namespace(name, patterns) for name in others)


def test_the_digest_covers_what_a_proposal_shows() -> None:
    changed = [replace(ITEM, content="d"), replace(ITEM, superseded_by="b"), replace(ITEM, expires=2.0)]
    assert len({ITEM.digest, *(item.digest for item in changed)}) == 4
    assert replace(ITEM, shared=True).digest == ITEM.digest
