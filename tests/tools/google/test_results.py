"""What results share: fields on one line, ids, times."""

from __future__ import annotations

import re
from datetime import timedelta
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.truncate import byte_size
from holdfast.tools.google.results import (
    clean_text,
    document_id,
    fitting,
    moment,
    one_line,
    page_token,
    plain_id,
    utc_time,
    zone_of,
)
from holdfast.tools.google.service import GoogleFailed


@given(st.text(max_size=400), st.integers(1, 300))
def test_a_field_is_one_line_without_controls_and_bounded(text: str, limit: int) -> None:
    made = one_line(text, limit)
    assert len(made) <= limit and len(made.splitlines()) <= 1
    assert all(category(char) not in ("Cc", "Cs", "Zl", "Zp") for char in made)
    assert not set(made) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")


@given(st.text(max_size=400))
def test_a_text_has_newlines_as_its_only_line_breaks(text: str) -> None:
    made = clean_text(text)
    assert made.splitlines() == (made.split("\n") if made else []) or made.endswith("\n")
    assert "\0" not in made


@given(st.text(max_size=300))
def test_an_id_never_carries_more_than_an_id(text: str) -> None:
    for read in (lambda: document_id(text), lambda: plain_id(text, "a file")):
        try:
            found = read()
        except GoogleFailed:
            continue
        assert re.fullmatch(r"[A-Za-z0-9_-]+", found)


@pytest.mark.spec("B14g")
@pytest.mark.parametrize("kind", ["document", "spreadsheets", "presentation"])
def test_the_address_of_a_published_copy_is_refused_in_words(kind: str) -> None:
    with pytest.raises(GoogleFailed, match="published copy"):
        document_id(f"https://docs.google.com/{kind}/d/e/2PACX-1vAbC/pub")


@given(st.lists(st.text(max_size=50), max_size=20), st.integers(0, 500))
def test_a_list_keeps_what_fits_and_counts_the_rest(items: list[str], room: int) -> None:
    kept, left = fitting(items, room)
    assert kept == items[: len(kept)] and len(kept) + left == len(items)
    assert sum(byte_size(item) for item in kept) <= room or len(kept) == 1


@pytest.mark.spec("B14f")
@pytest.mark.parametrize(
    ("text", "zone", "end", "iso"),
    [
        ("2026-03-01", "Europe/Berlin", False, "2026-03-01T00:00:00+01:00"),
        ("2026-03-28", "Europe/Berlin", True, "2026-03-29T00:00:00+01:00"),
        ("2026-03-29", "Europe/Berlin", True, "2026-03-30T00:00:00+02:00"),
        ("2026-03-01T09:00", "Asia/Kolkata", False, "2026-03-01T09:00:00+05:30"),
        ("2026-03-01T09:00Z", "Asia/Kolkata", False, "2026-03-01T09:00:00+00:00"),
        (" 2026-03-01T09:00-05:00 ", None, False, "2026-03-01T09:00:00-05:00"),
    ],
)
def test_a_time_has_its_zone(text: str, zone: str | None, end: bool, iso: str) -> None:
    assert moment(text, zone_of(zone), end=end).isoformat() == iso


def test_a_day_without_a_zone_is_a_day_of_this_machine() -> None:
    start, end = moment("2026-01-10", None), moment("2026-01-10", None, end=True)
    assert start.tzinfo is not None and end - start == timedelta(days=1)


@given(st.text(max_size=40))
def test_a_time_is_read_or_refused(text: str) -> None:
    try:
        assert moment(text, zone_of("Europe/Berlin")).tzinfo is not None
    except GoogleFailed:
        return


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1767225600000", "2026-01-01T00:00:00+00:00"),
        ("", None),
        ("x", None),
        ("9" * 40, None),
        ("-1", "1969-12-31T23:59:59+00:00"),
    ],
)
def test_a_time_in_milliseconds_is_utc(text: str, at: str | None) -> None:
    assert utc_time(text) == at


@pytest.mark.parametrize("bad", ["", None, "a\nb", "ü", "x" * 5000])
def test_a_page_that_cannot_be_asked_for_is_none(bad: str | None) -> None:
    assert page_token(bad) is None
    assert page_token("CAUQ~!!~") == "CAUQ~!!~"
