"""Quoted text is wrapped behind a gutter: nothing is lost, every line has a gutter, and no line is too wide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.text.escape import escape, text_width
from holdfast.text.quote import (
    CONTINUATION,
    GUTTER,
    TEXT_GUTTER,
    behind_gutter,
    quote_lines,
    quote_rows,
    split_ends,
    wrap_line,
)

from .strategies import ANY_TEXT
from .test_escape import is_hidden, unescape

LINE = ANY_TEXT | st.sampled_from(["", " " * 30, "x" * 200, "東" * 90, "│ ", "│↳", "‹␠×9›"])
TEXT = st.lists(LINE, max_size=8).map("\n".join)


def put_together(lines: list[str]) -> str:
    return "".join(f"\n{line[2:]}" if line.startswith(GUTTER) else line[2:] for line in lines)[1:]


@pytest.mark.spec("O1c")
@settings(deadline=None)
@given(TEXT, st.integers(1, 200))
def test_every_row_has_a_gutter_and_fits_and_no_text_is_lost(text: str, columns: int) -> None:
    lines = quote_lines(text, columns)
    assert all(line.startswith((GUTTER, CONTINUATION)) for line in lines)
    assert all(text_width(line) <= max(columns, 8) for line in lines)
    assert not [char for line in lines for char in line if is_hidden(char)]
    assert unescape(put_together(lines), newline="(?!)") == text
    assert [row.line for row in quote_rows(text, columns) if row.gutter == GUTTER] == list(range(text.count("\n") + 1))


@pytest.mark.spec("O1c")
def test_a_long_line_breaks_after_a_space_and_never_inside_an_escape() -> None:
    assert quote_lines("echo one two three", 17) == ["│ echo one two ", "│↳three"]
    assert quote_lines("x" * 20 + "\x1b", 17) == ["│ " + "x" * 13, "│↳" + "x" * 7 + "‹\\x1b›"]
    assert quote_lines("x" * 10 + "\x1b", 17) == ["│ " + "x" * 10, "│↳‹\\x1b›"]
    assert quote_lines("e\u0301" * 14, 17) == ["│ " + "e\u0301" * 13, "│↳e\u0301"]
    assert quote_lines("東京" * 4, 17) == ["│ 東京東京東京", "│↳東京"]


@pytest.mark.spec("O1c")
def test_indentation_stays_and_other_runs_of_spaces_are_counted() -> None:
    deep = " " * 24 + "x"
    assert quote_lines(f"{deep}\n+{deep}\n {deep}\n {' ' * 25}x", 80) == [
        f"│ {deep}", f"│ +{deep}", f"│  {deep}", "│ ‹␠×26›x",
    ]  # fmt: skip
    assert quote_lines("a" + " " * 24 + "x\n\tx\nx \t\t y", 80) == ["│ a‹␠×24›x", "│ ‹\\t›x", "│ x ‹\\t×2› y"]


@pytest.mark.spec("O1c")
def test_only_the_number_of_rows_decides_what_is_hidden() -> None:
    for word in ("x", "[39 lines hidden]", "│ "):
        rows = quote_lines("\n".join([word] * 100), 40)
        head, hidden, tail = split_ends(rows, 12)
        assert (len(head), hidden, len(tail)) == (9, 88, 3)
        assert split_ends(rows, None) == split_ends(rows, 100) == (rows, 0, [])


@pytest.mark.spec("O1c")
@settings(deadline=None)
@given(ANY_TEXT | st.text("a ‹›\u3000東", max_size=60), st.integers(2, 40))
def test_the_pieces_of_a_wrapped_line_fit_and_join_to_the_line(line: str, room: int) -> None:
    line = escape(line)
    pieces = list(wrap_line(line, room))
    assert "".join(pieces) == line
    assert all(text_width(piece) <= room for piece in pieces)


@pytest.mark.spec("B14a")
@given(TEXT)
def test_every_line_of_a_result_is_behind_its_gutter(text: str) -> None:
    lines = behind_gutter(text).splitlines()
    assert all(line.startswith(TEXT_GUTTER) for line in lines)
    assert [line.removeprefix(TEXT_GUTTER) for line in lines] == (text.replace("\r\n", "\n").splitlines() or [""])
