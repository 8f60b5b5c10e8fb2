"""The matrix of vectors, and the passages that are embedded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from holdfast.store.memory.vectors import MAX_PASSAGES, PASSAGE_CHARS, VectorMatrix, batches, passages

pytestmark = pytest.mark.spec("B8c")
RNG = np.random.default_rng(3)


def unit(size: int = 8) -> NDArray[np.float32]:
    vector = RNG.standard_normal(size)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def test_the_most_similar_items_of_the_scope_are_found_and_wanted_ones_added() -> None:
    matrix = VectorMatrix(8)
    vectors = {item: unit() for item in range(1, 601)}
    scopes = {item: 1 + item % 3 for item in vectors}
    assert matrix.add(list(vectors), list(scopes.values()), [vector.tobytes() for vector in vectors.values()]) == []
    query = unit()
    cosines = {item: float(vector @ query) for item, vector in vectors.items()}
    for scope in (None, [1], [1, 2]):
        inside = {item: cosine for item, cosine in cosines.items() if scope is None or scopes[item] in scope}
        best = sorted(inside, key=inside.__getitem__, reverse=True)[:5]
        worst = min(inside, key=inside.__getitem__)
        found = matrix.similarities(query, scope, [worst], 5)
        assert found is not None and set(found.found) == {*best, worst}
        assert found.lowest == pytest.approx(inside[worst], abs=1e-5)
        assert found.highest == pytest.approx(inside[best[0]], abs=1e-5)


def test_an_item_is_as_similar_as_its_closest_passage() -> None:
    matrix = VectorMatrix(8)
    query = unit()
    matrix.add([1, 1, 2], [1, 1, 1], [(-query).tobytes(), query.tobytes(), unit().tobytes()])
    found = matrix.similarities(query, None, [], 2)
    assert found is not None and found.found[1] == pytest.approx(1.0, abs=1e-5) and len(matrix) == 2


def test_a_removed_item_is_not_found_and_its_row_is_used_again() -> None:
    matrix = VectorMatrix(8)
    query = unit()
    matrix.add([1, 2], [1, 1], [query.tobytes(), unit().tobytes()])
    matrix.remove(1)
    matrix.remove(7)
    found = matrix.similarities(query, None, [1], 10)
    assert found is not None and set(found.found) == {2} and 1 not in matrix
    matrix.add([3], [1], [query.tobytes()])
    again = matrix.similarities(query, None, [], 1)
    assert again is not None and set(again.found) == {3}


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 31, b"\0" * 32, np.full(8, np.nan, np.float32).tobytes(), np.full(8, 5, np.float32).tobytes()],
)
def test_a_damaged_vector_is_reported_and_not_used(data: bytes) -> None:
    matrix = VectorMatrix(8)
    assert matrix.add([1, 2], [1, 1], [data, unit().tobytes()]) == [1]
    assert 1 not in matrix and 2 in matrix


def test_an_empty_matrix_or_scope_has_no_similarities() -> None:
    matrix = VectorMatrix(8)
    assert matrix.similarities(unit(), None, [], 5) is None
    matrix.add([1], [1], [unit().tobytes()])
    assert matrix.similarities(unit(), [9], [], 5) is None


@given(st.text(alphabet=st.sampled_from("ab .\n。"), max_size=4000))
def test_passages_are_short_and_keep_every_word(text: str) -> None:
    parts = passages(text)
    assert 1 <= len(parts) <= MAX_PASSAGES and all(len(part) <= PASSAGE_CHARS for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_huge_text_has_a_bounded_number_of_passages() -> None:
    assert len(passages("word " * 1_000_000)) == MAX_PASSAGES


def test_the_passages_of_an_item_are_in_one_batch() -> None:
    made = list(batches({1: ["a"] * 3, 2: ["b"] * 2, 3: ["c"]}, 4))
    assert made == [[(1, "a"), (1, "a"), (1, "a"), (2, "b"), (2, "b")], [(3, "c")]]
