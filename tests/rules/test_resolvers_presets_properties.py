"""Properties of lists and presets."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.config import Preset
from holdfast.config.merge import NameList
from holdfast.contract.enums import Verdict
from holdfast.rules.resolvers import ListPolicy, Restrictions

from .approval_requests import CALCULATOR, EDIT, FETCH, READ, SHELL, UNKNOWN, WRITE

TOOLS = (READ, WRITE, EDIT, SHELL, CALCULATOR, UNKNOWN, FETCH)
plain = st.sampled_from([name for tool in TOOLS for name in tool.names] + ["file.*", "*", "group:fs", "nobody"])
names = st.lists(plain, max_size=4).map(tuple)
presets = st.dictionaries(
    st.sampled_from(["$a", "$b", "$default"]), st.builds(Preset, approve=names, deny=names), max_size=3
)
entry = plain | st.sampled_from(["$a", "$b", "$default", "$readonly", "$missing"])
entries = st.lists(entry, max_size=5)


def verdicts(policy: ListPolicy) -> list[Verdict | None]:
    answers = [policy.decide(tool) for tool in TOOLS]
    return [None if answer is None else answer.verdict for answer in answers]


@pytest.mark.spec("A6")
@given(entries, presets, st.randoms(use_true_random=False))
def test_the_order_of_a_list_does_not_matter(items: list[str], named: dict[str, Preset], random: Random) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    assert verdicts(ListPolicy(items, presets=named)) == verdicts(ListPolicy(shuffled, presets=named))


@pytest.mark.spec("A6")
@given(entries, entries, presets)
def test_adding_entries_never_lifts_a_denial(some: list[str], more: list[str], named: dict[str, Preset]) -> None:
    before = verdicts(ListPolicy(some, presets=named))
    after = verdicts(ListPolicy(some + more, presets=named))
    assert all(new is Verdict.DENY for old, new in zip(before, after, strict=True) if old is Verdict.DENY)


@pytest.mark.spec("A7")
@given(entries, names, presets)
def test_excluding_never_approves_and_never_changes_denials(
    items: list[str], gone: tuple[str, ...], named: dict[str, Preset]
) -> None:
    before = verdicts(ListPolicy(items, presets=named))
    after = verdicts(ListPolicy(items, presets=named, excluded=gone))
    for old, new in zip(before, after, strict=True):
        assert new is old or (old is Verdict.APPROVE and new is None)


@pytest.mark.spec("A7")
@given(st.lists(entry, max_size=5, unique=True), plain)
def test_a_tool_removed_from_a_preset_is_not_approved_until_it_is_added_again(items: list[str], name: str) -> None:
    listed = [item for item in items if item.startswith("$")]
    removed = NameList(tuple(listed)).remove(name)
    policy = ListPolicy(removed.items, excluded=removed.excluded)
    named = [tool for tool in TOOLS if name in tool.names]
    assert not any(policy.approves(tool) for tool in named)
    back = removed.append(name)
    again = ListPolicy(back.items, excluded=back.excluded)
    assert all(again.approves(tool) for tool in named)


@pytest.mark.spec("A2")
@given(entries, st.lists(entries, max_size=3), presets)
def test_untrusted_lists_never_loosen(items: list[str], lists: list[list[str]], named: dict[str, Preset]) -> None:
    policy = ListPolicy(items, presets=named)
    narrow = Restrictions(lists, presets=named)
    for tool in TOOLS:
        before = policy.decide(tool)
        after = narrow.apply(before, tool)
        if after is not None and after.verdict is Verdict.APPROVE:
            assert before == after
        if before is not None and before.verdict is Verdict.DENY:
            assert after is not None
            assert after.verdict is Verdict.DENY
