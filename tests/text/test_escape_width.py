"""Clipped text fits the width and shows that it was clipped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.escape import CHARS_PER_COLUMN, clip, clip_escaped, clip_middle, escape, fingerprint, text_width

from .strategies import ANY_TEXT

MIXED = st.text(st.sampled_from("abc 東京🙂e\u0301\u0302é…")) | ANY_TEXT


@pytest.mark.spec("O1")
@given(MIXED, st.integers(-2, 40))
def test_clipped_text_is_never_wider_than_the_width(text: str, width: int) -> None:
    clipped = clip(text, width)
    assert text_width(clipped) <= max(0, width)
    assert len(clipped) <= max(0, width) * CHARS_PER_COLUMN
    if clipped != text and width > 0:
        assert clipped.endswith("…") and text.startswith(clipped[:-1])
        assert text_width(clipped) >= width - 1 or len(clipped) == width * CHARS_PER_COLUMN


@pytest.mark.spec("O1")
@given(MIXED)
def test_text_that_fits_is_unchanged(text: str) -> None:
    assert clip(text, max(1, text_width(text), -(-len(text) // CHARS_PER_COLUMN))) == text


@pytest.mark.spec("O1")
@pytest.mark.parametrize(
    ("text", "width", "clipped"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("東京都", 5, "東京…"),
        ("東京都", 4, "東…"),
        ("e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
    ],
)
def test_wide_characters_count_two_columns_and_marks_none(text: str, width: int, clipped: str) -> None:
    assert clip(text, width) == clipped


@pytest.mark.spec("O1")
def test_text_clipped_in_the_middle_shows_both_ends_and_the_hidden_count() -> None:
    shown = clip_middle("echo hi; " + "x" * 5000 + "; rm -rf ~", 60)
    assert shown.startswith("echo hi; ") and shown.endswith("; rm -rf ~")
    assert "…[4,986 characters hidden]…" in shown
    assert len(shown) == 60


@pytest.mark.spec("O1")
@given(st.text("abcé東", max_size=300), st.integers(-1, 120))
def test_text_clipped_in_the_middle_fits_and_its_count_is_exact(text: str, limit: int) -> None:
    shown = clip_middle(text, limit)
    assert len(shown) <= max(0, limit)
    if "characters hidden]…" in shown:
        head, _, rest = shown.partition("…[")
        count, _, tail = rest.partition(" characters hidden]…")
        assert text.startswith(head) and text.endswith(tail) and head and tail
        assert int(count.replace(",", "")) == len(text) - len(head) - len(tail)


@pytest.mark.spec("O1")
def test_a_fingerprint_has_length_and_digest_and_accepts_lone_surrogates() -> None:
    assert fingerprint("abc") == (
        "3 characters, sha256 ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    assert fingerprint("\ud800").startswith("1 characters, sha256 ")


@pytest.mark.spec("O1")
def test_characters_without_a_width_do_not_fit_without_end() -> None:
    assert clip("\u200b\u200c" * 400_000, 10) == "\u200b\u200c" * 24 + "\u200b…"
    assert clip("e\u0301\u0302\u0303\u0304" * 10, 10) == "e\u0301\u0302\u0303\u0304" * 10


@pytest.mark.spec("O1")
@given(ANY_TEXT, st.integers(1, 50))
def test_text_is_escaped_and_clipped_to_one_line_of_the_width(text: str, width: int) -> None:
    shown = clip_escaped(text, width)
    assert text_width(shown) <= width and len(shown) <= width * CHARS_PER_COLUMN and "\n" not in shown
    if len(text) <= width * CHARS_PER_COLUMN:
        assert shown == clip(escape(text), width)
    else:
        assert shown.endswith("…")


@pytest.mark.spec("O1")
def test_the_end_of_a_long_text_is_not_hidden_silently() -> None:
    assert clip_escaped("\xa0" * 5000, 20) == "‹\\xa0×100›…"
