"""Differences between snapshots: applied to the old lines they give the new ones, and they are short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.browser.changes import MAX_COMPARED, apply, compare, render_changes
from tests.quick import quickly

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", '"x"', "e1 button"]), max_size=30)


@pytest.mark.spec("B7c")
@given(LINES, LINES)
def test_a_difference_applied_to_the_old_lines_gives_the_new_ones(old: list[str], new: list[str]) -> None:
    hunks = compare(old, new)
    assert apply(old, hunks) == new
    assert bool(hunks) == (old != new)


def test_only_changed_lines_are_shown_with_their_place() -> None:
    old = ["h1", *(f"line {number}" for number in range(100)), "end"]
    new = [*old[:50], "line 49 (new)", *old[51:60], *old[61:]]
    assert render_changes(compare(old, new)) == ["@51", "-line 49", "+line 49 (new)", "@61", "-line 59"]


def test_long_removals_are_shown_as_a_number() -> None:
    assert render_changes(compare(["a", "b", "c", "d", "e"], ["e"])) == ["@1", "-(4 lines)"]


def test_very_long_pages_are_compared_quickly() -> None:
    old = [f"old {number}" for number in range(20 * MAX_COMPARED)]
    new = [f"new {number}" for number in range(20 * MAX_COMPARED)]
    with quickly(5):
        hunks = compare(old, new)
    assert len(hunks) == 1
    assert apply(old, hunks) == new
