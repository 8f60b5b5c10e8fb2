"""Aligned tables: every cell stays on its line and in its column."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.escape import text_width
from holdfast.text.table import render_table
from tests.text.strategies import ANY_TEXT


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert render_table(("NAME", "N"), [("a", "12"), ("longer-name", "3")]) == [
        "NAME         N",
        "a            12",
        "longer-name  3",
    ]


def test_an_empty_cell_is_a_dash_and_a_long_one_is_clipped() -> None:
    lines = render_table(("A", "B"), [("", "x" * 50)], max_cell=10)
    assert lines[1] == f"-  {'x' * 9}…"


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT, ANY_TEXT), max_size=8))
def test_whatever_the_cells_contain_each_row_is_one_aligned_line(rows: list[tuple[str, str, str]]) -> None:
    lines = render_table(("ONE", "TWO", "END"), [(*row[:2], "|") for row in rows])
    assert len(lines) == len(rows) + 1
    assert not any(char in line for line in lines for char in "\n\r\x1b\x85\u2028")
    assert len({text_width(line[: line.rindex("|")]) for line in lines[1:]}) <= 1
