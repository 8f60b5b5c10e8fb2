"""Fusion of the keyword and the meaning ranking."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.memory.fusion import Similarities, fuse

pytestmark = pytest.mark.spec("B8c")
SCORES = st.dictionaries(st.integers(0, 30), st.floats(0.001, 50), max_size=20)
COSINES = st.dictionaries(st.integers(0, 30), st.floats(-1, 1), max_size=20)


def similarities(found: dict[int, float]) -> Similarities[int] | None:
    return Similarities(found, min(found.values()), max(found.values())) if found else None


def test_scores_are_normalised_and_weighted() -> None:
    ranked = fuse({1: 8.0, 2: 4.0}, Similarities({2: 0.9, 3: 0.5}, 0.1, 0.9), 0.5)
    assert [(each.key, round(each.score, 3)) for each in ranked] == [(2, 0.75), (1, 0.5), (3, 0.25)]
    assert (ranked[0].keyword, ranked[0].meaning) == (0.5, 1.0)


def test_without_meaning_the_keywords_decide() -> None:
    ranked = fuse({1: 2.0, 2: 3.0}, None, 0.5)
    assert [(each.key, each.meaning) for each in ranked] == [(2, None), (1, None)]


@given(SCORES, COSINES, st.floats(0, 1))
def test_every_candidate_is_ranked_once_with_a_score_between_0_and_1(
    keywords: dict[int, float], cosines: dict[int, float], weight: float
) -> None:
    ranked = fuse(keywords, similarities(cosines), weight)
    assert {each.key for each in ranked} == {*keywords, *cosines} and len(ranked) == len({*keywords, *cosines})
    assert all(0 <= each.score <= 1 + 1e-9 for each in ranked)
    assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)


@given(SCORES)
def test_with_the_whole_weight_on_keywords_their_order_remains(keywords: dict[int, float]) -> None:
    cosines = similarities(dict.fromkeys(keywords, 0.3) | {99: 0.9})
    assert [e.key for e in fuse(keywords, cosines, 1.0) if e.key != 99] == [e.key for e in fuse(keywords, None, 1.0)]
