"""Pages of a long text: joined they are the text, and each fits the output of a call."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.contract.context import Context
from holdfast.text.truncate import Truncator
from holdfast.tools.text_page import page_note, text_page


class _Ctx:
    truncate = Truncator(100, 8000)


CTX = cast(Context, _Ctx())


@given(st.text(st.sampled_from("a\nü𝒳"), max_size=6000), st.integers(1, 3000), st.sampled_from([0, 4]))
def test_the_pages_joined_are_the_text(text: str, wanted: int, gutter: int) -> None:
    pages, offset = list[str](), 0
    while offset < len(text):
        page = text_page(text, offset, wanted, CTX, gutter=gutter)
        assert 0 < len(page) <= wanted and page.count("\n") < 100
        assert len(page.encode()) + gutter * (1 + page.count("\n")) <= 8000
        pages.append(page)
        offset += len(page)
    assert "".join(pages) == text


@pytest.mark.spec("B14a")
@given(
    st.text(st.sampled_from("a\nü𝒳"), min_size=1, max_size=200),
    st.integers(1, 120),
    st.integers(1, 9000),
    st.sampled_from([0, 4]),
    st.integers(0, 9000),
)
def test_paging_advances_under_every_limit_and_head(text: str, lines: int, size: int, gutter: int, head: int) -> None:
    class Small:
        truncate = Truncator(lines, size)

    pages, offset = list[str](), 0
    while offset < len(text):
        page = text_page(text, offset, 3000, cast(Context, Small()), gutter=gutter, head=["h" * head])
        assert page
        pages.append(page)
        offset += len(page)
    assert "".join(pages) == text


@pytest.mark.spec("B14a")
@given(st.text(st.sampled_from("a\nü"), min_size=1, max_size=9000), st.integers(0, 3500), st.integers(0, 45))
def test_a_page_leaves_room_for_the_lines_before_it(text: str, size: int, lines: int) -> None:
    head = ["h" * size, *[""] * lines]
    page = text_page(text, 0, 9000, CTX, gutter=4, head=head)
    assert sum(1 + len(line) for line in head) + len(page.encode()) + 4 * (1 + page.count("\n")) <= 8000
    assert len(head) + 1 + page.count("\n") <= 100


@pytest.mark.parametrize(
    ("offset", "end", "note"),
    [
        (0, 10, None),
        (0, 5, "[Characters 0-5 of 10. Use offset=5 to continue in it.]"),
        (5, 10, "[Characters 5-10 of 10: the end.]"),
    ],
)
def test_a_page_says_what_it_is_a_part_of(offset: int, end: int, note: str | None) -> None:
    assert page_note(offset, end, 10, " in it") == note
