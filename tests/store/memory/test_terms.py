"""Keywords: what is indexed, and what a query asks for."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.memory.items import MemoryStore
from holdfast.store.memory.terms import MAX_TERMS, STOP_WORDS, expand, query_terms
from tests.quick import quickly
from tests.store.memory.support import found_by_keywords, write

pytestmark = pytest.mark.spec("B8b")


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("`backfillReadings` runs first", "backfill readings"),
        ("`backfillReadings` runs first", "backfill_readings"),
        ("`parse_gauge_frame` never raises", "gauge frame"),
        ("`parse_gauge_frame` never raises", "parseGaugeFrame"),
        ("call HTTPServer.start now", "http server"),
        ("see src/generated for it", "generated"),
        ("meeting on 2026-05-03", "what happened on 3 May 2026?"),
        ("meeting on 2026-05-03", "May 3rd"),
        ("it was on 3 May 2026", "2026-05-03"),
        ("the audit in Nov 2025", "november"),
        ("健太は毎朝、抹茶を飲みます", "抹茶"),
        ("李娜在上海的一家医院当护士", "上海医院"),
        ("민준은 매운 음식을 잘 못 먹습니다", "매운 음식"),
        ("Crème brûlée", "creme brulee"),
        ("she runs marathons", "running a marathon"),
        ("who are you", "who are you"),
    ],
)
def test_an_item_is_found_by_other_spellings_of_its_words(tmp_path: Path, content: str, query: str) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    write(store, "something else altogether")
    write(store, content)
    assert found_by_keywords(store, query)[0] == content


def test_stop_words_are_left_out_unless_nothing_else_is_asked() -> None:
    assert query_terms("where is the car") == ['"car"']
    assert query_terms("where is the") == ['"where"', '"is"', '"the"']
    assert query_terms("?!… --") == []
    assert "may" not in STOP_WORDS and "will" in STOP_WORDS


@given(st.text(max_size=300))
def test_any_query_is_a_valid_expression(query: str) -> None:
    terms = query_terms(query)
    if terms:
        database = sqlite3.connect(":memory:")
        database.execute("CREATE VIRTUAL TABLE words USING fts5(text)")
        database.execute("SELECT * FROM words WHERE words MATCH ?", (" OR ".join(terms),)).fetchall()
        database.close()


def test_a_query_has_a_bounded_number_of_terms() -> None:
    assert len(query_terms(" ".join(f"word{number}" for number in range(5000)))) == MAX_TERMS


@given(st.text(max_size=300))
def test_the_index_text_starts_with_the_text_itself(text: str) -> None:
    assert expand(text).startswith(text)


@pytest.mark.parametrize(
    "repeated",
    ["a", "_", "a_", "a-", "1", "1-", "A", "aA", "Aa", "字", "20", "2020-", "1st", "a_ ", "-a-", "é", "a" * 999 + " "],
)
def test_the_time_to_find_the_words_of_an_unbroken_text_grows_with_its_length_only(repeated: str) -> None:
    text = repeated * (128_000 // len(repeated))
    with quickly(10):
        assert expand(text).startswith(text)
        assert len(query_terms(text)) <= MAX_TERMS
